"""The explorers' drawings: read the arrays back from shapes, tooltips and static pictures."""

import base64
import io
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from attention_helpers import causal_mask
from attention_helpers.explorers import svg as drawing
from attention_helpers.explorers import svg_maps as cells

NAMES = ["Your", "journey", "starts"]
TABLE = np.array([[0.0, 0.5, 1.0], [0.25, 0.25, 0.5], [0.1, 0.2, 0.7]])


def parsed(piece):
    """A Drawing as a tree, without the namespace."""
    return ET.fromstring(re.sub(r' xmlns="[^"]*"', "", drawing.printed([[piece]], "words")))


def told(tree):
    """Every shape that has a tooltip, by its tooltip."""
    return {title.text: shape for shape in tree.iter() for title in shape.findall("title")}


def words_of(tree):
    return [text.text for text in tree.iter("text")]


def test_cells_tell_their_names_and_numbers_and_have_their_colours():
    shapes = told(parsed(cells.heatmap(TABLE, NAMES, NAMES)))
    assert len(shapes) == 9
    for i, row in enumerate(NAMES):
        for j, column in enumerate(NAMES):
            shape = shapes[f"{row} reads {column}: {TABLE[i, j]:.4f}"]
            assert cells.WEIGHTS.fills.index(shape.get("fill")) == round(TABLE[i, j] * (cells.STEPS - 1))
    assert {"0.00", "0.50", "1.00", "0.70"} <= set(words_of(parsed(cells.heatmap(TABLE, NAMES, NAMES))))


@pytest.mark.parametrize("value", [0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875])
def test_the_last_bits_of_a_round_number_change_nothing(value):
    """Otherwise another CPU could change a colour or digit of a stored picture."""
    near = [np.float32(value) + n * np.spacing(np.float32(value)) for n in (-1, 0, 1)]
    assert len({cells.levels(np.array([v]), (0, 1))[0] for v in near}) == 1
    assert len({drawing.number(float(v)) for v in near}) == 1


@pytest.mark.parametrize("value", [-1e-8, 0.0, 1e-8, -0.0])
def test_no_zero_has_a_sign(value):
    assert drawing.number(value) == "0.00"
    assert drawing.number(value, 4) == "0.0000"


def test_signed_values_have_zero_in_the_middle():
    limits = cells.around_zero([-0.2, 0.6])
    assert limits == (-0.6, 0.6)
    assert cells.levels(np.array([-0.6, 0.0, 0.6]), limits).tolist() == [0, 32, 64]
    assert cells.around_zero([0.0, 0.0]) == (-1.0, 1.0)
    assert "0" in words_of(parsed(cells.colour_bar(limits, cells.SIGNED)))


def luminance(colour):
    """WCAG's relative luminance of #rrggbb."""
    rgb = np.array([int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def test_colours_can_be_told_apart_without_seeing_colour():
    """On the weights' map larger is lighter; on the signed map zero is lightest, and its two sides differ in blue."""
    light = [luminance(fill) for fill in cells.WEIGHTS.fills]
    assert all(a < b for a, b in pairwise(light))
    signed = [luminance(fill) for fill in cells.SIGNED.fills]
    assert np.argmax(signed) == 32
    assert all(a <= b for a, b in pairwise(signed[:33]))
    assert all(a >= b for a, b in pairwise(signed[32:]))
    blue = [int(fill[5:], 16) - int(fill[1:3], 16) for fill in cells.SIGNED.fills]
    assert min(blue[:28]) > 0 > max(blue[36:])  # all common kinds of colour blindness tell blue from red


@pytest.mark.parametrize("palette", [cells.WEIGHTS, cells.SIGNED])
def test_numbers_contrast_with_their_cells(palette):
    for fill, ink in zip(palette.fills, palette.inks, strict=True):
        high, low = sorted((luminance(fill), 1.0 if ink == "#fff" else 0.0), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5


def test_hidden_cells_are_hatched_by_paths_and_hold_nothing():
    tree = parsed(cells.heatmap(TABLE, NAMES, NAMES, hidden=causal_mask(3)))
    assert len(told(tree)) == 6
    grey, lines = [path.get("d") for path in tree.iter("path")]
    assert grey.count("z") == 3
    assert lines.count("l") >= 3
    assert tree.find(".//pattern") is None


def test_what_dropout_took_is_crossed_out_and_not_numbered():
    taken = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 1]])
    tree = parsed(cells.heatmap(TABLE, NAMES, NAMES, taken=taken))
    [crosses] = [path.get("d") for path in tree.iter("path") if path.get("stroke") == "#fff"]
    assert crosses.count("M") == 2
    assert "0.70" not in words_of(tree)
    assert "starts reads starts: 0.7000" in told(tree)


@pytest.mark.parametrize("side", [60, 100, 190])
@pytest.mark.parametrize("values", [TABLE, -1000 * TABLE, TABLE * 0])
def test_numbers_stay_inside_their_cells(side, values):
    tree = parsed(cells.heatmap(values, NAMES, NAMES, side=side, limits=(-1, 1)))
    for group in tree.iter("g"):
        if group.get("pointer-events"):
            size = float(group.get("font-size"))
            assert max(len(text.text) for text in group) * drawing.EM * size <= side / 3
            assert 8 <= size <= side / 3


def image_of(tree):
    [image] = tree.iter("image")
    png = base64.b64decode(image.get("href").partition("base64,")[2])
    return image, np.asarray(Image.open(io.BytesIO(png)).convert("RGBA"))


def test_beyond_16_tokens_all_heads_are_one_image_of_a_pixel_a_cell():
    maps = np.linspace(0, 1, 3 * 20 * 20).reshape(3, 20, 20)
    taken, tokens = np.zeros(maps.shape), [f"t{n}" for n in range(20)]
    taken[2, 19, 0] = 1
    image, pixels = image_of(parsed(cells.head_maps(maps, tokens, (0, 1), causal_mask(20), taken, 600, 300)))
    assert "pixelated" in image.get("style")
    cell = float(image.get("width")) / pixels.shape[1]
    assert cell == pytest.approx(float(image.get("height")) / pixels.shape[0], rel=0.02)
    corner = np.argwhere(pixels[..., 3] == 255).min(axis=0)  # the first cell of head 1
    fills = cells.WEIGHTS.fills
    for i, j in ((0, 0), (7, 3), (19, 19)):
        shade = "#{:02x}{:02x}{:02x}".format(*pixels[corner[0] + i, corner[1] + j])
        assert fills.index(shade) == cells.levels(maps[0, i, j], (0, 1))
    assert 0 < pixels[corner[0], corner[1] + 5, 3] < 255  # hidden: the page shows through
    right = np.argwhere(pixels[..., 3] == 255).max(axis=0)
    assert pixels[right[0], right[1] - 19, 3] == 0  # dropped in head 3: left empty


@pytest.mark.parametrize("tokens", [1, 6, 16, 17, 64])
@pytest.mark.parametrize("count", [1, 2, 5, 8, 12])
def test_heads_fill_one_room_and_none_overlaps_another(count, tokens):
    names, maps = [f"token {n}" for n in range(tokens)], np.ones((count, tokens, tokens)) / 2
    piece = cells.head_maps(maps, names, (0, 1), np.zeros((tokens, tokens)), maps * 0, 640, 400)
    assert (piece.width, piece.height) == (640, 400)
    tree = parsed(piece)
    marks = [(float(r.get("x")), float(r.get("y"))) for r in tree.iter("rect") if r.get("height") == "10"]
    assert len(marks) == len(set(marks)) == count
    assert max(x for x, _ in marks) < 640
    assert max(y for _, y in marks) < 400 - drawing.BOTTOM
    assert "head 1" in words_of(tree)


def test_bars_are_as_long_as_their_numbers_and_fit_their_axis():
    tree = parsed(drawing.bars({"a": [0.5, -0.25, 3.0]}, NAMES, limits=(-1.0, 1.0), width=300))
    shapes = told(tree)
    half, quarter, cut = (
        float(shapes[words].get("height")) for words in ("Your, a: 0.5000", "journey, a: -0.2500", "starts, a: 3.0000")
    )
    assert half == pytest.approx(2 * quarter, abs=0.2)
    assert cut == pytest.approx(2 * half, abs=0.2)  # a longer bar is cut off at the end of the axis
    assert {"0.50", "-0.25", "3.00"} <= set(words_of(tree))


def test_bars_too_narrow_for_numbers_have_none():
    names = list(map(str, range(30)))
    assert "0.50" not in words_of(parsed(drawing.bars({"a": [0.5] * 30}, names, width=160)))


def test_curves_and_points_stand_where_their_numbers_say():
    curves, points = {"falls": [100.0, 10.0, 1.0]}, {"dots": {1: 10.0}}
    tree = parsed(drawing.lines(curves, points, {0: "8", 2: "32"}, "title", "x", 1, ends=(1.0, 100.0), log=True))
    shapes = told(tree)
    places = [tuple(map(float, pair.split())) for pair in shapes["falls"].get("d")[1:].split("L")]
    (x0, y0), (x1, y1), (x2, y2) = places
    assert (x1 - x0, y1 - y0) == pytest.approx((x2 - x1, y2 - y1), abs=0.2)  # a straight line on logarithmic axes
    dot = shapes["dots, measured: 10"]
    assert (float(dot.get("cx")), float(dot.get("cy"))) == pytest.approx((x1, y1), abs=0.1)
    assert {"1e0", "1e1", "1e2", "8", "32", "falls", "dots, measured"} <= set(words_of(tree))


def test_an_arc_is_the_wider_the_more_is_read():
    shapes = told(parsed(drawing.arcs([0.1, 0.9, 0.0], NAMES, 2)))
    told_of = [f"starts reads {words}" for words in ("Your: 0.1000", "journey: 0.9000", "starts: 0.0000")]
    little, much, none = (float(shapes[words].get("stroke-width")) for words in told_of)
    assert much > little > none > 0


@pytest.mark.parametrize("count", [1, 2, 3, 12])
@pytest.mark.parametrize("n", [3, 20])
def test_a_colour_bar_stands_beside_the_last_map_of_a_row(count, n):
    maps, names, none = np.full((count, n, n), 1 / n), [f"t{i}" for i in range(n)], np.zeros((n, n))
    bar = cells.colour_bar((0, 1))
    alone, both = (cells.head_maps(maps, names, (0, 1), none, None, 600, 300, bar=each) for each in (None, bar))
    assert both.width == alone.width + cells.GAP + bar.width
    start = both.svg.index(bar.svg)
    at = float(re.search(r"translate\(([\d.]+),[\d.]+\)\">$", both.svg[:start])[1])
    patches = [float(x) for x in re.findall(r'<rect x="([\d.]+)" y="[\d.-]+" width="8"', both.svg)]
    assert max(patches) < at <= alone.width + cells.GAP
    if count == 1 and n == 3:
        assert at < alone.width - 100  # a single square map is narrower, and the bar moves with it


def test_a_strip_has_a_band_in_the_colour_of_each_entrys_head():
    tree = parsed(cells.strip(TABLE[:, :2], NAMES, [0, 1]))
    bands = [rect.get("fill") for rect in tree.iter("rect") if rect.get("height") == "5"]
    assert bands == [drawing.head_colour(0), drawing.head_colour(1)]


def test_hostile_names_stay_words():
    names = ["<b>", '"&', "a" * 40]
    tree = parsed(cells.heatmap(TABLE, names, names))
    assert f'<b> reads "&: {TABLE[0, 1]:.4f}' in told(tree)
    assert "aaaaaaaa…" in words_of(tree)


def test_drawings_of_a_row_break_where_a_page_is_narrow_and_are_printed_in_one_line():
    rows = [[drawing.Drawing("<g/>", 300, 100), drawing.Drawing("<path/>", 200, 50)], [drawing.Drawing("<a/>", 80, 9)]]
    root = ET.fromstring(drawing.live(rows, "words"))
    assert [len(row) for row in root] == [2, 1]
    assert all("flex-wrap:wrap" in row.get("style") for row in root)
    assert "flex:300 1 255px" in root[0][0].get("style")
    assert ET.fromstring(drawing.printed(rows, "words")).get("viewBox") == "0 0 514 117"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: cells.heatmap(TABLE, NAMES[:2], NAMES), r"rows must hold one label for each of 3, got 2"),
        (lambda: cells.heatmap(TABLE[0], NAMES, NAMES), r"values must be a table .* got the shape \(3,\)"),
        (lambda: drawing.bars({"a": [1.0]}, NAMES), r"names must hold one label for each of 1, got 3"),
        (lambda: drawing.arcs([1.0], NAMES, 0), r"names must hold one label for each of 1, got 3"),
    ],
)
def test_bad_input_is_named(call, said):
    with pytest.raises(ValueError, match=said):
        call()

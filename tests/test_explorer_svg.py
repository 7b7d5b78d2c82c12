"""The explorers' drawings: read the arrays back from shapes, tooltips and static pictures."""

import base64
import io
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from attention_helpers import causal_mask
from attention_helpers.explorers import ink
from attention_helpers.explorers import svg as drawing
from attention_helpers.explorers import svg_maps as cells
from attention_helpers.explorers.hatching import around, hatching
from attention_helpers.plots import HEAD_COLOURS

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


@pytest.mark.parametrize("value", [0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875])
def test_the_last_bits_of_a_round_number_change_nothing(value):
    """Otherwise another CPU could change a colour or digit of a stored picture."""
    near = [np.float32(value) + n * np.spacing(np.float32(value)) for n in (-1, 0, 1)]
    assert len({ink.levels(np.array([v]))[0] for v in near}) == 1
    assert len({drawing.number(float(v)) for v in near}) == 1


@pytest.mark.parametrize("value", [-1e-8, 0.0, 1e-8, -0.0])
def test_no_zero_has_a_sign(value):
    assert drawing.number(value) == "0.00"
    assert drawing.number(value, 4) == "0.0000"


def test_signed_values_have_no_ink_at_zero_and_a_colour_on_each_side():
    assert ink.largest([-0.2, 0.6, np.nan, np.inf]) == 0.6
    assert ink.largest([0.0, 0.0]) == 1.0  # nothing to divide by zero
    low, none, high = (ink.SIGNED.cells[level] for level in ink.levels(np.array([-0.6, np.nan, 0.9]), 0.6))
    assert low == f'fill="{ink.SIGNED.below}" fill-opacity="1"'
    assert none.endswith('fill-opacity="0"')
    assert high == f'fill="{ink.SIGNED.above}" fill-opacity="1"'  # clipped
    assert {"0.6", "0", "-0.6"} <= set(words_of(parsed(cells.colour_bar(0.6, ink.SIGNED))))


def test_negative_cells_without_numbers_have_a_minus():
    tree = parsed(cells.heatmap(np.array([[-1.0, 1.0], [0.0, -0.5]]), "ab", "cd", side=24, ink=ink.SIGNED))
    [minuses] = [path.get("d") for path in tree.iter("path")]
    assert minuses == "M3.6 6.0h4.8M15.6 18.0h4.8"


def luminance(rgb):
    """WCAG's relative luminance of an RGB colour, 0 to 255."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in np.asarray(rgb) / 255]
    return linear[0] * 0.2126 + linear[1] * 0.7152 + linear[2] * 0.0722


def contrast(one, other):
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def rgb(colour):
    return np.array([int(colour[n : n + 2], 16) for n in (1, 3, 5)])


PAGES = {"light": (np.array([255] * 3), [0, 0, 0]), "dark": (np.array([17] * 3), [255, 255, 255])}
INKS = {colour: ink.ink(colour) for colour in (*HEAD_COLOURS, ink.GREY)} | {"signed": ink.SIGNED}


@pytest.mark.parametrize("theme", PAGES)
@pytest.mark.parametrize("shade", INKS.values(), ids=INKS)
def test_numbers_can_be_read_in_every_cell_on_light_and_dark_pages(shade, theme):
    page, own = PAGES[theme]
    for level in range(-ink.FULL if shade is ink.SIGNED else 0, ink.FULL + 1):
        share = abs(level) / ink.FULL
        cell = rgb(shade.below if level < 0 else shade.above) * share + page * (1 - share)
        words = {"": own, 'fill="#fff"': [255] * 3, 'fill="#000"': [0] * 3}[shade.numbers[level]]
        assert contrast(cell, words) >= 4.49, level


@pytest.mark.parametrize("theme", PAGES)
def test_heads_stand_out_from_the_page(theme):
    for colour in HEAD_COLOURS:
        assert contrast(rgb(colour), PAGES[theme][0]) >= 2.85
    assert len(set(HEAD_COLOURS)) == 8


def test_hidden_cells_are_hatched_by_paths_and_hold_nothing():
    tree = parsed(cells.heatmap(TABLE, NAMES, NAMES, side=90, hidden=causal_mask(3)))
    assert len(told(tree)) == 6
    [lines] = [path.get("d") for path in tree.iter("path") if path.get("stroke-opacity") == "0.3"]
    for x, y, dx, dy in re.findall(r"M([\d.]+) ([\d.]+)l([-\d.]+) ([\d.]+)", lines):
        for share in (0.1, 0.5, 0.9):  # of the way along a stroke: on a cell right of the diagonal
            assert (float(x) + share * float(dx)) // 30 > (float(y) + share * float(dy)) // 30
    assert lines.count("M") >= 6
    assert tree.find(".//pattern") is None


@pytest.mark.parametrize("side", [1, 6, 64])
def test_hatching_takes_few_strokes_and_none_where_nothing_is_hidden(side):
    assert 0 < hatching(np.ones((side, side)), 200 / side, 200 / side).count("M") <= 70
    assert hatching(np.zeros((side, side)), 9, 9) == ""


def test_an_outline_goes_around_each_group_of_cells():
    assert around(np.array([[False, True]]), 10, 20) == "M10.0 0.0h10.0M10.0 20.0h10.0M10.0 0.0v20.0M20.0 0.0v20.0"
    assert (
        around(causal_mask(3).numpy(), 1, 1).count("M") == 8
    )  # a staircase: three steps down, three across, two sides


@pytest.mark.parametrize("side", [60, 100, 190])
@pytest.mark.parametrize("values", [TABLE, -1000 * TABLE, TABLE * 0])
def test_numbers_stay_inside_their_cells(side, values):
    tree = parsed(cells.heatmap(values, NAMES, NAMES, side=side, ink=ink.SIGNED))
    for group in tree.iter("g"):
        if group.get("pointer-events"):
            size = float(group.get("font-size"))
            assert max(len(text.text) for text in group) * drawing.DIGIT * size <= side / 3
            assert drawing.SMALL <= size <= side / 3


def image_of(tree):
    [image] = tree.iter("image")
    png = base64.b64decode(image.get("href").partition("base64,")[2])
    return image, np.asarray(Image.open(io.BytesIO(png)).convert("RGBA"))


def test_beyond_16_tokens_all_heads_are_one_image_of_a_pixel_a_cell():
    maps = np.linspace(0, 1, 3 * 20 * 20).reshape(3, 20, 20)
    taken, tokens = np.zeros(maps.shape), [f"t{n}" for n in range(20)]
    taken[2, 19, 0] = 1
    piece = cells.head_maps(maps, tokens, 1.0, causal_mask(20), taken, 600, 300)
    image, pixels = image_of(parsed(piece))
    assert "pixelated" in image.get("style")
    cell = float(image.get("width")) / pixels.shape[1]
    assert cell == pytest.approx(float(image.get("height")) / pixels.shape[0], rel=0.02)
    corners = [(round(y / cell), round((x - drawing.LEFT) / cell)) for x, y in cells.places_of(3, 20, 600, 300)[0]]
    for head, (y, x) in enumerate(corners):
        for i, j in ((7, 3), (19, 19)):
            *colour, alpha = pixels[y + i, x + j]
            assert colour == rgb(drawing.head_colour(head)).tolist()
            assert alpha / 255 == pytest.approx(maps[head, i, j] ** 0.7, abs=0.6 / 30)
        assert pixels[y, x + 5, 3] == 0  # hidden: no ink, hatched by lines
    y, x = corners[2]
    assert pixels[y + 19, x, 3] == 0 < pixels[y + 18, x, 3]  # dropped in head 3: left empty
    assert [path for path in parsed(piece).iter("path") if path.get("stroke-opacity") == "0.3"]


def test_an_image_of_signed_values_has_a_colour_on_each_side_and_no_ink_for_what_is_no_number():
    values = np.array([[-4.0, -1.0, 0.0, np.nan, 1.0, 2.0, np.inf]])
    sheet = ink.SIGNS.signed(values, 2.0)
    piece = drawing.Drawing(cells.pixels(sheet, ink.SIGNS, 0, 0, 70, 10), 70, 10)
    _, [pixels] = image_of(parsed(piece))
    below, above = rgb(ink.SIGNED.below).tolist(), rgb(ink.SIGNED.above).tolist()
    assert [pixel[:3].tolist() for pixel in pixels[[0, 1, 4, 5, 6]]] == [below, below, above, above, above]
    assert pixels[:, 3] / 255 == pytest.approx([1, 0.5**0.7, 0, 0, 0.5**0.7, 1, 1], abs=0.6 / 120)


@pytest.mark.parametrize("tokens", [1, 6, 16, 17, 64])
@pytest.mark.parametrize("count", [1, 2, 5, 8, 12])
def test_heads_fill_one_room_and_none_overlaps_another(count, tokens):
    names, maps = [f"token {n}" for n in range(tokens)], np.ones((count, tokens, tokens)) / 2
    piece = cells.head_maps(maps, names, 1.0, np.zeros((tokens, tokens)), maps * 0, 640, 400)
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


def test_hostile_names_stay_words():
    names = ["<b>", '"&', "a" * 40]
    tree = parsed(cells.heatmap(TABLE, names, names))
    assert f'<b> reads "&: {TABLE[0, 1]:.4f}' in told(tree)
    assert "aaaaaaaa…" in words_of(tree)


def test_drawings_of_a_row_wrap_where_a_page_is_narrow_and_are_printed_in_one_line():
    rows = [[drawing.Drawing("<g/>", 300, 100), drawing.Drawing("<path/>", 200, 50)], [drawing.Drawing("<a/>", 80, 9)]]
    root = ET.fromstring(drawing.live(rows, "words"))
    assert [len(row) for row in root] == [2, 1]
    assert all("flex-wrap:wrap" in row.get("style") for row in root)
    assert [(part.get("width"), part.get("height")) for part in root[0]] == [("300", "100"), ("200", "50")]
    assert ET.fromstring(drawing.printed(rows, "words")).get("viewBox") == "0 0 514 117"
    said = ET.fromstring(re.sub(r' xmlns="[^"]*"', "", drawing.printed(rows, "words", "word " * 30)))
    assert " ".join(words_of(said)) == ("word " * 30).strip()
    assert int(said.get("height")) == 117 + 8 + 20 * len(words_of(said))


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

"""Figures and explorers' drawings show the arrays that they were given: we read these back, and compare no pixels."""

import itertools
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch
from coloraide import Color
from explorer_page import SVG, image_of
from matplotlib.colors import to_rgb

from attention_course import plots
from attention_course.explorers import ink, still
from attention_course.explorers import svg as drawing
from attention_course.explorers import svg_maps as cells
from attention_course.explorers.chart import Chart
from attention_helpers import causal_mask


def parsed(piece):
    """A Drawing as a tree."""
    return ET.fromstring(still.draw_still([[piece]], "words"))


@pytest.mark.parametrize("value", [0.125, 0.5, 0.875])
def test_the_last_bits_of_a_round_number_change_nothing(value):
    """Otherwise another CPU could change a colour or digit of a stored picture."""
    near = [np.float32(value) + n * np.spacing(np.float32(value)) for n in (-1, 0, 1)]
    assert len({ink.levels(np.array([v]))[0] for v in near}) == 1
    assert len({drawing.number(float(v)) for v in near}) == 1
    assert drawing.number(-1e-8) == drawing.number(-0.0) == "0.00"


INKS = [*map(ink.ink, map(plots.head_colour, range(8))), ink.NEUTRAL, ink.SIGNED_INK]
INKS += [ink.QUERY_INK, ink.KEY_INK, ink.VALUE_INK]
SHAPES = [plots.QUERY, plots.KEY, plots.VALUE, plots.ABOVE, plots.BELOW, plots.WRONG]
TEXTS = [plots.QUERY_TEXT, plots.KEY_TEXT, plots.VALUE_TEXT, plots.RIGHT_TEXT, plots.WRONG_TEXT]


@pytest.mark.parametrize(("page", "place"), [("#ffffff", 0), ("#111111", 1)], ids=["light", "dark"])
def test_each_colour_of_a_meaning_stands_out_on_light_and_dark_pages(page, place):
    for least, colours in (3, SHAPES), (4.5, [re.findall("#[0-9A-F]{6}", both)[place] for both in TEXTS]):
        for colour in colours:
            assert Color(page).contrast(colour) >= least, colour  # what WCAG asks of shapes, and of text


@pytest.mark.parametrize("cone", [None, "protan", "deutan"])
@pytest.mark.parametrize("group", [SHAPES[:3], SHAPES[3:5]], ids=["query, key, value", "signs"])
def test_colours_that_stand_side_by_side_are_told_apart_also_by_the_colour_blind(group, cone):
    seen = [Color(colour) for colour in group]
    if cone:
        seen = [colour.filter(cone, method="machado") for colour in seen]
    assert min(a.delta_e(b, method="2000") for a, b in itertools.combinations(seen, 2)) >= 10


@pytest.mark.parametrize(("page", "own"), [("#ffffff", "#000000"), ("#111111", "#ffffff")], ids=["light", "dark"])
@pytest.mark.parametrize("shade", INKS, ids=lambda shade: f"{shade.below} {shade.above}")
def test_numbers_can_be_read_in_every_cell_on_light_and_dark_pages(shade, page, own):
    colours = {"": own, 'fill="#fff"': "#ffffff", 'fill="#000"': "#000000"}
    for level, look in shade.numbers.items():
        share, colour = abs(level) / ink.FULL, to_rgb(shade.below if level < 0 else shade.above)
        cell = np.array(colour) * share + np.array(to_rgb(page)) * (1 - share)
        low, high = sorted([plots.luminance(cell), plots.luminance(np.array(to_rgb(colours[look])))])
        assert (high + 0.05) / (low + 0.05) >= 4.49, level  # WCAG's contrast


def test_a_charts_curve_is_where_its_axes_say_and_its_words_say_so():
    chart = Chart("loss", (0, 100, 0, 50), {0: "0", 2: "2"}, {0: "0", 1: "1"})
    assert 'd="M0.0 0.0L50.0 25.0L100.0 37.5"' in chart.curve([(0, 1.0), (1, 0.5), (2, 0.25)], "new")
    assert chart.finish(9, 9).words == "loss; new: 1 at 0, 0.5 at 1, 0.25 at 2."


def test_hidden_cells_are_hatched_and_hold_nothing():
    tree = parsed(cells.heatmap(np.eye(3), "abc", "abc", side=90, hidden=causal_mask(3)))
    assert len(tree.findall(f".//{SVG}rect[{SVG}title]")) == 6
    [hatched] = tree.findall(f".//{SVG}path[@fill='{drawing.HATCHED}']")
    assert hatched.get("d") == "M30.0 0.0h60.0v30.0H30.0zM60.0 30.0h30.0v30.0H60.0z"


def test_beyond_16_tokens_all_heads_are_one_image_of_a_pixel_a_cell():
    maps = np.linspace(0, 1, 3 * 20 * 20).reshape(3, 20, 20)
    piece = cells.head_maps(maps, [f"t{n}" for n in range(20)], 1.0, causal_mask(20), width=600, height=300)
    image, pixels = image_of(parsed(piece))
    assert "pixelated" in image.get("style")
    cell = float(image.get("width")) / pixels.shape[1]
    corners = [(round(y / cell), round((x - drawing.LEFT) / cell)) for x, y in cells.places_of(3, 20, 600, 300)[0]]
    for head, (y, x) in enumerate(corners):
        tile = pixels[y : y + 20, x : x + 20]
        shown = np.where(causal_mask(20), 0, maps[head]) ** 0.7  # hidden: no ink, hatched by lines
        np.testing.assert_allclose(tile[..., 3] / 255, shown, atol=0.02)
        assert tile[19, 19, :3].tolist() == [round(255 * share) for share in to_rgb(drawing.head_colour(head))]


def test_bars_and_lines_show_their_numbers():
    bars, lines = plots.new_figure(columns=2)[1]
    plots.draw_bars(bars, {"one": [1, 2], "two": [3, 4]}, ["a", "b"])
    assert [bar.get_height() for bar in bars.patches] == [1, 2, 3, 4]
    plots.draw_lines(lines, [1, 2, 8], {"y": torch.tensor([3.0, 2.0, 1.0])})
    assert lines.lines[0].get_xydata().tolist() == [[1, 3], [2, 2], [8, 1]]

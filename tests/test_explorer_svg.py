"""The explorers' drawings: read the arrays back from shapes, tooltips and static pictures."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from explorer_page import SVG, image_of, told

from attention_course.explorers import ink
from attention_course.explorers import svg as drawing
from attention_course.explorers import svg_maps as cells
from attention_course.explorers.chart import Chart
from attention_course.plots import HEAD_COLOURS, luminance
from attention_helpers import causal_mask

NAMES = ["Your", "journey", "starts"]
TABLE = np.array([[0.0, 0.5, 1.0], [0.25, 0.25, 0.5], [0.1, 0.2, 0.7]])


def parsed(piece):
    """A Drawing as a tree."""
    return ET.fromstring(drawing.draw_still([[piece]], "words"))


@pytest.mark.parametrize("value", [0.125, 0.5, 0.875])
def test_the_last_bits_of_a_round_number_change_nothing(value):
    """Otherwise another CPU could change a colour or digit of a stored picture."""
    near = [np.float32(value) + n * np.spacing(np.float32(value)) for n in (-1, 0, 1)]
    assert len({ink.levels(np.array([v]))[0] for v in near}) == 1
    assert len({drawing.number(float(v)) for v in near}) == 1
    assert drawing.number(-1e-8) == drawing.number(-0.0) == "0.00"


def rgb(colour):
    return np.array([int(colour[n : n + 2], 16) for n in (1, 3, 5)])


def contrast(one, other):
    """WCAG's contrast of two RGB colours, 0 to 255."""
    low, high = sorted(luminance(np.asarray(colour) / 255) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


PAGES = {"light": (np.array([255] * 3), [0, 0, 0]), "dark": (np.array([17] * 3), [255, 255, 255])}
INKS = {colour: ink.ink(colour) for colour in (*HEAD_COLOURS, ink.GREY)} | {"signed": ink.SIGNED_INK}


@pytest.mark.parametrize("theme", PAGES)
@pytest.mark.parametrize("shade", INKS.values(), ids=INKS)
def test_numbers_can_be_read_in_every_cell_on_light_and_dark_pages(shade, theme):
    page, own = PAGES[theme]
    for level in range(-ink.FULL if shade is ink.SIGNED_INK else 0, ink.FULL + 1):
        share = abs(level) / ink.FULL
        cell = rgb(shade.below if level < 0 else shade.above) * share + page * (1 - share)
        words = {"": own, 'fill="#fff"': [255] * 3, 'fill="#000"': [0] * 3}[shade.numbers[level]]
        assert contrast(cell, words) >= 4.49, level


def test_a_charts_curve_is_where_its_axes_say_and_its_words_say_so():
    chart = Chart("loss", (0, 100, 0, 50), {0: "0", 2: "2"}, {0: "0", 1: "1"})
    assert 'd="M0.0 0.0L50.0 25.0L100.0 37.5"' in chart.curve([(0, 1.0), (1, 0.5), (2, 0.25)], "new")
    assert chart.finish(9, 9).words == "loss; new: 1 at 0, 0.5 at 1, 0.25 at 2."


def test_hidden_cells_are_hatched_and_hold_nothing():
    tree = parsed(cells.heatmap(TABLE, NAMES, NAMES, side=90, hidden=causal_mask(3)))
    assert [words for words, _ in told(tree)] == [
        f"{NAMES[i]} looks at {NAMES[j]}: {TABLE[i, j]:.4f}" for i in range(3) for j in range(i + 1)
    ]
    [hatched] = [path.get("d") for path in tree.iter(f"{SVG}path") if path.get("fill") == drawing.HATCHED]
    assert hatched == "M30.0 0.0h60.0v30.0H30.0zM60.0 30.0h30.0v30.0H60.0z"


def test_beyond_16_tokens_all_heads_are_one_image_of_a_pixel_a_cell():
    maps = np.linspace(0, 1, 3 * 20 * 20).reshape(3, 20, 20)
    piece = cells.head_maps(maps, [f"t{n}" for n in range(20)], 1.0, causal_mask(20), width=600, height=300)
    image, pixels = image_of(parsed(piece))
    assert "pixelated" in image.get("style")
    cell = float(image.get("width")) / pixels.shape[1]
    corners = [(round(y / cell), round((x - drawing.LEFT) / cell)) for x, y in cells.places_of(3, 20, 600, 300)[0]]
    for head, (y, x) in enumerate(corners):
        for i, j in ((7, 3), (19, 19)):
            *colour, alpha = pixels[y + i, x + j]
            assert colour == rgb(drawing.head_colour(head)).tolist()
            assert alpha / 255 == pytest.approx(maps[head, i, j] ** 0.7, abs=0.6 / 30)
        assert pixels[y, x + 5, 3] == 0  # hidden: no ink, hatched by lines

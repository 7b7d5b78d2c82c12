"""Notebook 09's explorer: what a layer of a size costs, with numbers worked out by hand."""

import pytest
from explorer_page import SVG, told, tree_of

from attention_course import explorers

LENGTHS = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]


@pytest.fixture
def cost():
    return explorers.CostExplorer()


def chart_of(explorer):
    """Curves, and points by name, as {tokens: bytes}: read with the two axes, both logarithmic."""
    tree = tree_of(explorer)
    ends = {text.text: (float(text.get("x")), float(text.get("y"))) for text in tree.iter(f"{SVG}text")}
    (_, low), (_, high), (left, _), (right, _) = (ends[name] for name in ("1 kB", "1 GB", "32", "8,192"))

    def spot(x, y):
        tokens = 32 * 2 ** (8 * (float(x) - left) / (right - left))
        return round(tokens), 10 ** (3 + 6 * (low - 4 - float(y)) / (low - high))

    curves, points = {}, {}
    for words, shape in told(tree):
        if shape.tag == f"{SVG}circle":
            points.setdefault(words.partition(",")[0], []).append(spot(shape.get("cx"), shape.get("cy")))
        elif shape.tag == f"{SVG}path":
            curves[words] = dict(spot(*each.split()) for each in shape.get("d")[1:].split("L"))
    return curves, {name: dict(spots) for name, spots in points.items()}


def close(expected):
    return {n: pytest.approx(size, rel=0.02) for n, size in expected.items()}  # a twentieth of a pixel is 1%


def test_the_curves_are_those_of_the_sizes_that_are_set(cost):
    cost.set(num_tokens=64, width=4096, num_heads=64, bytes=2)
    curves, points = chart_of(cost)
    assert curves["scores of 64 heads"] == close({n: 64 * n * n * 2 for n in LENGTHS})
    assert curves["keys and values"] == close({n: 2 * n * 4096 * 2 for n in LENGTHS})
    assert points == {}


def test_heads_that_the_width_cannot_be_split_into_come_back(cost):
    cost.controls["num_heads"].value = 48
    cost.controls["width"].value = 1600  # 1600 / 48 isn't whole, 1600 / 40 is
    assert (cost.values["width"], cost.values["num_heads"]) == (1600, 40)
    assert "48 doesn&#x27;t divide the width 1600: 40 heads instead" in cost.message
    cost.controls["width"].value = 768
    assert cost.values["num_heads"] == 48

"""An explorer's page read back: the figures in its words, and the numbers and the ink of its picture's cells."""

import base64
import io
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch
from PIL import Image

from attention_course.explorers.svg import number
from attention_course.explorers.words import plain
from attention_course.plots import ABOVE, BELOW, head_colour

SVG = "{http://www.w3.org/2000/svg}"
FIGURE = re.compile(r"“[^”]*”|-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?%?")


def say(explorer, times=1, **content):
    """What a page says of an explorer: that it's seen, wants the next picture, or is touched."""
    for _ in range(times):
        explorer._heard(explorer.view, dict(content), [])


def figures(text):
    """The quoted words and the numbers of a text in their order: what it claims, whatever else it says."""
    return FIGURE.findall(plain(text))


def numbers(text):
    """The numbers of a text; 25% is 0.25."""
    found = [figure.replace(",", "") for figure in figures(text) if figure[0] != "“"]
    return [float(number.rstrip("%")) / (100 if number[-1] == "%" else 1) for number in found]


def near(*parts, off=5.1e-3):
    """Numbers and tensors as one list of numbers that were rounded: by default to two decimals or three digits."""
    flat = torch.cat([torch.as_tensor(part, dtype=torch.float64).flatten() for part in parts])
    return pytest.approx(flat.tolist(), abs=off, rel=off)


def readouts(explorer):
    """The table below the picture, as on the page."""
    rows = re.findall("<tr><th[^>]*>(.*?)</th><td>(.*?)</td></tr>", explorer.readout, re.DOTALL)
    return {plain(name): plain(words) for name, words in rows}


def tree_of(explorer):
    return ET.fromstring(explorer.svg)


def told(tree):
    """Pairs of a tooltip and its shape."""
    return [(title.text, shape) for shape in tree.iter() for title in shape.findall(f"{SVG}title")]


def words_of(tree):
    return ["".join(text.itertext()) for text in tree.iter(f"{SVG}text")]


def image_of(tree):
    """The one image of a picture, and its pixels, (height, width, 4)."""
    [image] = tree.iter(f"{SVG}image")
    png = base64.b64decode(image.get("href").partition("base64,")[2])
    return image, np.asarray(Image.open(io.BytesIO(png)).convert("RGBA"))


def tooltips(explorer, about):
    """All tooltips with some words."""
    return [words for words, _ in told(tree_of(explorer)) if about in words]


def tips(explorer, about):
    """The numbers of all tooltips with some words."""
    return [numbers(words.rpartition(": ")[2])[0] for words in tooltips(explorer, about)]


def paths(tree, **look):
    """How many strokes each path with these attributes has."""
    named = {name.replace("_", "-"): value for name, value in look.items()}.items()
    return [path.get("d").count("M") for path in tree.iter(f"{SVG}path") if named <= path.attrib.items()]


def check_maps(explorer, maps, names, tell="{} looks at {}", hidden=None, limit=None, colours=None):
    """Each map has a cell with its number for each pair of names but hidden ones, and its ink goes with the number.

    maps: (count, n, n); hidden: broadcast to them. limit: what has full colour. colours: by default those of heads.
    """
    maps, n, first = torch.as_tensor(maps), len(names), f"{tell.format(names[0], names[0])}: "
    seen = torch.ones_like(maps, dtype=torch.bool) if hidden is None else ~hidden.expand_as(maps)
    tables = tree_of(explorer).findall(f".//{SVG}g[@shape-rendering]")
    groups = [(table.get("fill"), told(table)) for table in tables]
    found = [(fill, cells) for fill, cells in groups if cells and cells[0][0].startswith(first)]
    assert len(found) == (len(maps) if n <= 16 else 0)  # beyond, they are an image: see test_pictures.py
    colours = colours or [head_colour(head) for head in range(len(maps))]
    for (fill, cells), table, shown, colour in zip(found, maps, seen, colours, strict=False):
        values, spots, said = table[shown], shown.nonzero(), [words.rpartition(": ") for words, _ in cells]
        assert [words for words, *_ in said] == [tell.format(names[i], names[j]) for i, j in spots.tolist()]
        assert [float(number) for *_, number in said] == near(values, off=1e-4)
        sizes = [[float(cell.get(name)) for name in ("y", "x", "height", "width", "fill-opacity")] for _, cell in cells]
        places, sides, inks = torch.tensor(sizes).split((2, 2, 1), dim=1)
        assert (places / sides).flatten().tolist() == near(spots, off=0.02)
        assert inks.flatten().tolist() == near((values.abs() / (limit or min(1, 4 / n))).clamp(max=1), off=0.02)
        above = (values > 0).tolist()
        hues = {(cell.get("fill"), up) for (_, cell), ink, up in zip(cells, inks, above, strict=True) if ink}
        assert fill == colour if fill else hues <= {(ABOVE, True), (BELOW, False)}


def check_arcs(explorer, readings, names, asks):
    """Each weight of half a percent or more has an arc in its head's colour, wider for more; readings: (heads, n)."""
    expected = {}
    for heads in readings:
        for head, n in (heads >= 0.005).nonzero().tolist():
            weight, by = heads[head, n].item(), f" by head {head + 1}" * (len(heads) > 1)
            expected[f"{names[asks]} looks at {names[n]}{by}: {number(weight, 4)}", head_colour(head)] = weight
    arcs = [each for each in told(tree_of(explorer)) if each[1].tag == f"{SVG}path" and " looks at " in each[0]]
    widths = {(words, arc.get("stroke")): float(arc.get("stroke-width")) for words, arc in arcs}
    assert widths == pytest.approx({arc: 0.5 + 9 * weight for arc, weight in expected.items()}, abs=0.06)


def check_planes(explorer, planes):
    """Each plane has its keys (n, head_dim) in place, up to one scale, as full as their weights; None: no token."""
    edged = tree_of(explorer).findall(f".//{SVG}rect[@stroke-width='0.5']/..")
    for plane, (keys, weights) in zip(edged, planes, strict=True):
        half = float(plane.find(f"{SVG}rect[@stroke-width='0.5']").get("width")) / 2
        said, squares = zip(*[each for each in told(plane) if each[0].startswith("key")], strict=True)
        assert [numbers(words)[-1:] for words in said] == [[] if weight is None else near(weight) for weight in weights]
        full = [float(square.get("fill-opacity")) for square in squares]
        assert full == near([min(weight or 0, 1) for weight in weights])
        if keys.shape[1] <= 2:
            places = [[float(square.get("x")) + 3.5 - half, half - float(square.get("y")) - 3.5] for square in squares]
            spots = torch.tensor(places)[:, : keys.shape[1]] / half
            assert spots.flatten().tolist() == near(keys * spots.abs().max() / keys.abs().max(), off=0.01)


def framed_rows(explorer, stroke="3", top=0):
    """The rows that are framed, of maps that begin so far from the top."""
    rects = tree_of(explorer).findall(f".//{SVG}rect[@stroke-width='{stroke}']")
    return [(float(rect.get("y")) - top) / float(rect.get("height")) for rect in rects]


def check_bars(explorer, along="height", **series):
    """Bars with these names in their tooltips hold these values, and are as long, up to one scale for each name."""
    for name, values in series.items():
        bars = [float(bar.get(along)) for words, bar in told(tree_of(explorer)) if f", {name}: " in words]
        assert tips(explorer, f", {name}: ") == near(values, off=1e-4)
        assert bars == near(values * max(bars) / (max(values) or 1), off=0.1)


def check_dropped(explorer, shown, weights, dropout):
    """Weights after dropout are divided by 1 - dropout, or 0 and crossed out; which of them, chance decides."""
    gone = (shown == 0) & (weights > 0)
    assert dropout or not gone.any()
    torch.testing.assert_close(shown, torch.where(gone, 0.0, weights / (1 - dropout)))
    assert sum(paths(tree_of(explorer), stroke_width="1.5")) == gone.sum()

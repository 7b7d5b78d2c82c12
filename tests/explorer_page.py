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
from attention_course.plots import ABOVE, BELOW, HEAD_COLOURS

SVG = "{http://www.w3.org/2000/svg}"
FIGURE = re.compile(r"“[^”]*”|-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?%?")


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


def tips(explorer, about):
    """The numbers of all tooltips with some words."""
    return [numbers(words.rpartition(": ")[2])[0] for words, _ in told(tree_of(explorer)) if about in words]


def paths(tree, **look):
    """How many strokes each path with these attributes has."""
    named = {name.replace("_", "-"): value for name, value in look.items()}.items()
    return [path.get("d").count("M") for path in tree.iter(f"{SVG}path") if named <= path.attrib.items()]


def cells_of(tree, tell, names):
    """The cells of each heatmap whose tooltips are made from `tell` and two names: (tooltip without number, cell)."""
    wanted = {tell.format(row, column) for row in names for column in names}
    groups = [(group, told(group)) for group in tree.iter(f"{SVG}g") if group.get("shape-rendering")]
    return [(group, cells) for group, cells in groups if cells and cells[0][0].rpartition(": ")[0] in wanted]


def check_maps(explorer, maps, names, tell="{} looks at {}", hidden=None, limit=None, colours=None):
    """Each map has a cell with its number for each pair of names but hidden ones, and its ink goes with the number.

    maps: (count, n, n); hidden: broadcast to them. limit: what has full colour. colours: by default those of heads.
    """
    maps, n = torch.as_tensor(maps), len(names)
    seen = torch.ones_like(maps, dtype=torch.bool) if hidden is None else ~hidden.expand_as(maps)
    found = cells_of(tree_of(explorer), tell, names)
    assert len(found) == (len(maps) if n <= 16 else 0)  # beyond, they are an image: see test_explorer_svg.py
    limit = limit or min(1, 4 / n)
    colours = colours or [HEAD_COLOURS[head % 8] for head in range(len(maps))]
    for (group, cells), table, shown, colour in zip(found, maps, seen, colours, strict=False):
        said, values = [words.rpartition(": ") for words, _ in cells], table[shown]
        assert [words for words, *_ in said] == [tell.format(names[i], names[j]) for i, j in shown.nonzero().tolist()]
        assert [float(number) for *_, number in said] == near(values, off=1e-4)
        sizes = ((cell.get("y"), cell.get("height"), cell.get("x"), cell.get("width")) for _, cell in cells)
        places = [[float(y) / float(high), float(x) / float(wide)] for y, high, x, wide in sizes]
        assert torch.tensor(places).flatten().tolist() == near(shown.nonzero(), off=0.02)
        inks = [float(cell.get("fill-opacity")) for _, cell in cells]
        assert inks == near((values.abs() / limit).clamp(max=1), off=0.02)
        if group.get("fill"):
            assert group.get("fill") == colour
        else:
            fills = [cell.get("fill") for (_, cell), ink in zip(cells, inks, strict=True) if ink]
            assert fills == [ABOVE if value > 0 else BELOW for value, ink in zip(values, inks, strict=True) if ink]


def check_arcs(explorer, readings, names, asks):
    """Each weight of half a percent or more has an arc in its head's colour, wider for more; readings: (heads, n)."""
    expected = []
    for heads in readings:
        for head, name, weight in ((head, names[n], heads[head, n].item()) for head, n in (heads >= 0.005).nonzero()):
            by = f" by head {head + 1}" if len(heads) > 1 else ""
            words = f"{names[asks]} looks at {name}{by}: {number(weight, 4)}"
            expected.append((words, HEAD_COLOURS[head], 0.5 + 9 * weight))
    arcs = [each for each in told(tree_of(explorer)) if each[1].tag == f"{SVG}path" and " looks at " in each[0]]
    found = [(words, arc.get("stroke"), float(arc.get("stroke-width"))) for words, arc in arcs]
    assert sorted(arc[:2] for arc in found) == sorted(arc[:2] for arc in expected)
    assert [wide for *_, wide in sorted(found)] == near([wide for *_, wide in sorted(expected)], off=0.05)


def keys_of_planes(explorer):
    """Each plane's keys: pairs of a tooltip and its square, and their places, (n, 2), from the middle in half sides."""
    for plane in tree_of(explorer).iter(f"{SVG}g"):
        for edge in [part for part in plane if part.get("stroke-width") == "0.5"]:
            half, keys = float(edge.get("width")) / 2, [key for key in told(plane) if key[0].startswith("key")]
            corners = [[float(square.get("x")), -float(square.get("y"))] for _, square in keys]
            yield keys, (torch.tensor(corners) + torch.tensor([3.5, -3.5])) / half - torch.tensor([1.0, -1.0])


def framed_rows(explorer, stroke="3", top=0):
    """The rows that are framed, of maps that begin so far from the top."""
    rects = [rect for rect in tree_of(explorer).iter(f"{SVG}rect") if rect.get("stroke-width") == stroke]
    return [(float(rect.get("y")) - top) / float(rect.get("height")) for rect in rects]


def check_bars(explorer, about, values, along="height"):
    """Bars whose tooltips have some words hold these values, and are as long, up to one scale."""
    bars = [float(bar.get(along)) for words, bar in told(tree_of(explorer)) if about in words]
    assert tips(explorer, about) == near(values, off=1e-4)
    assert bars == near(values * max(bars) / values.max(), off=0.1)

"""What an explorer says and draws, read back from its page, and what it should say about the toy sentence."""

import re
import xml.etree.ElementTree as ET

from attention_helpers import explorers
from attention_helpers.explorers.base import plain
from attention_helpers.plots import HEAD_COLOURS
from tools.bench.made import SENTENCE

SVG = "{http://www.w3.org/2000/svg}"
BLUE, GREY = HEAD_COLOURS[0], "#767676"
X, TOKENS = SENTENCE.embeddings, SENTENCE.tokens
MADE = {}


def shown(name, **state):
    """An explorer in its first state but for `state`, moved as a learner moves it."""
    if name not in MADE:
        MADE[name] = getattr(explorers, name)(SENTENCE)
    explorer = MADE[name]
    explorer.set(**explorer._first)
    for control, value in state.items():
        explorer.controls[control].value = value
    return explorer


def read(explorer):
    """The readouts as on the page, and the greyed controls."""
    rows = re.findall("<tr><th[^>]*>(.*?)</th><td>(.*?)</td></tr>", explorer.readout)
    greyed = {name for name, control in explorer.controls.items() if control.disabled}
    return {plain(name): plain(words) for name, words in rows}, greyed


def trees(explorer):
    """The drawings of the picture, row by row, left to right."""
    return list(ET.fromstring(explorer.svg).iter(f"{SVG}svg"))


def told(tree):
    """Pairs of a tooltip and its shape."""
    return [(title.text, shape) for shape in tree.iter() for title in shape.findall(f"{SVG}title")]


def words(tree):
    return ["".join(text.itertext()) for text in tree.iter(f"{SVG}text")]


def tables(tree):
    """The groups of cells of a drawing's heatmaps, left to right."""
    return [group for group in tree.iter(f"{SVG}g") if group.get("shape-rendering") and told(group)]


def frames(tree):
    """Framed rows and columns as (x, y, width, height)."""
    found = [rect for rect in tree.iter(f"{SVG}rect") if rect.get("stroke-width") == "3"]
    assert all(rect.get("stroke") == "currentColor" for rect in found)
    return [tuple(float(rect.get(side)) for side in ("x", "y", "width", "height")) for rect in found]


def paths(tree, **look):
    """How many strokes each path with these attributes has."""
    named = {name.replace("_", "-"): value for name, value in look.items()}.items()
    return [path.get("d").count("M") for path in tree.iter(f"{SVG}path") if named <= path.attrib.items()]


def bits(weights):
    """The entropy of each row."""
    return -(weights * weights.clamp(min=1e-45).log2()).sum(-1)


def each(names, numbers):
    return ", ".join(f"{name}: {number:.2f}" for name, number in zip(names, numbers, strict=True))


def strongest(weights):
    """The largest weight of each row, in words."""
    return ", ".join(f"{TOKENS[i]} → {TOKENS[row.argmax()]} {row.max():.2f}" for i, row in enumerate(weights))

"""Notebook 06's explorer: the complete layer, step by step."""

import html
import inspect
import itertools
import re

import pytest
import torch
from explorer_page import SVG, tree_of

from attention_helpers import MultiHeadAttention, explorers
from attention_helpers.explorers import lesson_06_stages as stages
from tools.bench.made import SENTENCE, settings_of


@pytest.fixture(scope="module")
def explorer():
    return explorers.SplitExplorer(SENTENCE)


@pytest.fixture
def fresh(explorer):
    explorer.set(**explorer._first)
    return explorer


def lit_code(e):
    """The highlighted lines of code."""
    parts = [part for part in tree_of(e).iter() if part.tag in (f"{SVG}rect", f"{SVG}text")]
    return [after.text for before, after in itertools.pairwise(parts) if before.get("fill-opacity") == "0.1"]


def folded_code(e):
    """All lines of code, and those of the current stage."""
    [listing] = re.findall("lines of code</summary><pre>(.*?)</pre>", e.readout, re.DOTALL)
    lines = html.unescape(listing).split("\n")
    return [re.sub("</?b>", "", line) for line in lines], [line[3:-4] for line in lines if line.startswith("<b>")]


def test_the_walk_lights_the_code_in_its_order(fresh):
    """One line per stage; all lines, folded, are those of the layer, and the walk passes each of them."""
    source = inspect.getsource(MultiHeadAttention.steps) + inspect.getsource(MultiHeadAttention.forward)
    walked = []
    for where in stages.PLACES:
        fresh.set(where=where)
        lines, now = folded_code(fresh)
        assert lit_code(fresh) == now[-1:]
        walked += now
        for line in lines:
            assert line.partition("  #")[0] in source
    assert list(dict.fromkeys(walked)) == lines
    assert len(lines) == 11
    fresh.set(d_out=12, num_heads=3, num_tokens=5)
    shapes = [line.partition("  # ")[2] for line in folded_code(fresh)[0]]
    assert shapes[:5] == ["(1, 5, 3)", *["(1, 3, 5, 4)"] * 3, "(1, 3, 5, 5)"]


PALE = {"tokens": 6, "queries": 5, "keys": 4, "values": 3, "context": 1, "side by side": 1, "output": 0}


def test_what_is_not_yet_computed_is_pale(fresh):
    """Of six parts: queries, keys, values, maps, context, output."""
    for where in stages.PLACES:
        fresh.set(where=where)
        root, pale = tree_of(fresh), PALE.get(where, 2)
        assert len([group for group in root.iter(f"{SVG}g") if group.get("opacity") == "0.15"]) == pale
        assert "".join(root.itertext()).count("not computed yet") == pale


def test_the_strips_show_the_vectors(fresh):
    found = [float(words) for words in re.findall(r", entry \d+: (-?[\d.]+)</title>", fresh.svg)]
    steps = fresh.arrays.steps
    rows = [part[0].transpose(0, 1).flatten(1) for part in steps[:3]]
    every = torch.cat([part.flatten() for part in (fresh.arrays.x, *rows, steps.context[0], fresh.arrays.output)])
    assert found == pytest.approx(every.tolist(), abs=0.006)


def test_what_trained_weights_cannot_have_gives_way_and_comes_back(fresh):
    fresh.set(d_out=12, num_heads=3)
    fresh.controls["weights"].value = "trained"
    assert (fresh.values["d_out"], fresh.values["num_heads"]) == (8, 2)
    assert "d_out is 8 for now: 12 isn't offered with trained weights." in html.unescape(fresh.message.value)
    with pytest.raises(ValueError, match="d_out must be one of 8, 16, 32, 64, got 12"):
        fresh.set(d_out=12)
    fresh.controls["weights"].value = "random"
    assert (fresh.values["d_out"], fresh.values["num_heads"]) == (12, 3)
    assert fresh.message.value == ""


def test_only_divisors_are_offered_and_the_others_explained(fresh):
    fresh.set(d_out=12, num_heads=4)
    assert settings_of(fresh.controls["num_heads"]) == [1, 2, 3, 4, 6, 12]
    crossed_out = re.findall("<s [^>]*>(.*?)</s>", fresh.readout)
    assert crossed_out == ["5", "7", "8", "9", "10", "11"]
    fresh.controls["d_out"].value = 15
    assert settings_of(fresh.controls["num_heads"]) == [1, 3, 5]
    assert fresh.values["num_heads"] == 3
    assert "4 doesn&#x27;t divide d_out = 15" in fresh.message.value
    fresh.controls["d_out"].value = 16
    assert fresh.values["num_heads"] == 4  # the chosen value is back
    assert fresh.message.value == ""

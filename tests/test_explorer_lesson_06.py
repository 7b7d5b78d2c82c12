"""Notebook 06's explorer: the complete layer, step by step."""

import itertools
import re
import xml.etree.ElementTree as ET

import pytest
import torch

from attention_helpers import explorers
from attention_helpers.explorers import lesson_06_whole_layer as whole
from tools.bench.made import SENTENCE

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def explorer():
    return explorers.SplitExplorer(SENTENCE)


@pytest.fixture
def fresh(explorer):
    explorer.set(**explorer._first)
    return explorer


def lit_code(e):
    """The highlighted lines of code."""
    parts = [part for part in ET.fromstring(e.svg).iter() if part.tag in (f"{SVG}rect", f"{SVG}text")]
    return [
        after.text
        for part, after in itertools.pairwise(parts)
        if part.get("fill-opacity") == "0.15" and after.get("font-family") == "monospace"
    ]


def test_the_walk_lights_the_code_in_its_order(fresh):
    walked = []
    for where in whole.PLACES:
        fresh.set(where=where)
        lit = lit_code(fresh)
        assert [line.partition("#")[0].strip() for line in lit] == [
            line.partition("#")[0].strip() for line in whole.lines_at(where)
        ]
        walked += lit
    assert list(dict.fromkeys(walked)) == re.findall(r'monospace">([^<]+)<', fresh.svg)


def test_the_code_has_the_shapes_that_the_layer_makes(fresh):
    fresh.set(d_out=12, num_heads=3, num_tokens=5)
    steps, shown = fresh.arrays.steps, " ".join(re.findall(r'monospace">([^<]+)<', fresh.svg))
    for name in ("queries", "keys", "values", "scores"):
        [comment] = re.findall(rf"{name} = [^#]*# (\([^)]*\))", shown)
        assert comment == str(tuple(getattr(steps, name).shape))
    assert shown.count(str(tuple(steps.context.shape))) == 1


@pytest.mark.parametrize(
    ("where", "pale"), [("tokens", 6), ("queries", 5), ("values", 3), ("dropout", 2), ("output", 0)]
)
def test_what_is_not_yet_computed_is_pale(fresh, where, pale):
    """Six of the seven parts come after the tokens: queries, keys, values, maps, context, output."""
    fresh.set(where=where)
    root = ET.fromstring(fresh.svg)
    assert len([group for group in root.iter(f"{SVG}g") if group.get("opacity")]) == pale
    frames = [
        rect
        for rect in root.iter(f"{SVG}rect")
        if rect.get("stroke") == "currentColor" and rect.get("stroke-width") == "2"
    ]
    assert len(frames) == 1


def numbers(e, verb):
    """The numbers in the tooltips of the maps' cells, head after head."""
    return [float(words) for words in re.findall(rf"<title>[^<]* {verb} [^<]*: (-?[\d.]+)</title>", e.svg)]


def test_the_maps_show_the_stage_where_one_is(fresh):
    fresh.set(dropout=0.5, where="scores")
    state, past = fresh.arrays, torch.ones(6, 6).tril() > 0
    assert numbers(fresh, "meets") == pytest.approx(state.steps.scores.flatten().tolist(), abs=1e-4)
    fresh.set(where="mask")
    assert numbers(fresh, "meets") == pytest.approx(state.steps.scores[0][:, past].flatten().tolist(), abs=1e-4)
    fresh.set(where="softmax")
    assert numbers(fresh, "reads") == pytest.approx(state.weights[:, past].flatten().tolist(), abs=1e-4)
    fresh.set(where="dropout")
    assert numbers(fresh, "reads") == pytest.approx(state.shown[:, past].flatten().tolist(), abs=1e-4)


def test_the_strips_show_the_vectors(fresh):
    found = [float(words) for words in re.findall(r", entry \d+: (-?[\d.]+)</title>", fresh.svg)]
    steps = fresh.arrays.steps
    rows = [part[0].transpose(0, 1).flatten(1) for part in steps[:3]]
    every = torch.cat([part.flatten() for part in (fresh.arrays.x, *rows, steps.context[0], fresh.arrays.output)])
    assert found == pytest.approx(every.tolist(), abs=0.006)


def test_trained_weights_grey_what_does_nothing_and_say_why(fresh):
    fresh.set(weights="trained", d_out=32)
    assert {name for name, control in fresh.controls.items() if control.disabled} == {"num_tokens", "seed"}
    assert "num_tokens (the tokens are the task's seven), seed (nothing is drawn)" in fresh.message.value.replace(
        "&#x27;", "'"
    )
    shown = fresh.svg
    fresh.set(seed=5, num_tokens=20)
    assert fresh.svg == shown
    fresh.set(dropout=0.5)
    assert {name for name, control in fresh.controls.items() if control.disabled} == {"num_tokens"}
    dropped = fresh.svg
    fresh.set(seed=6)
    assert fresh.svg != dropped


def test_what_trained_weights_cannot_have_gives_way_and_comes_back(fresh):
    fresh.set(d_out=12, num_heads=3)
    fresh.controls["weights"].value = "trained"
    assert (fresh.values["d_out"], fresh.values["num_heads"]) == (8, 2)
    assert "d_out is 8 for now: 12 is not offered with trained weights." in fresh.message.value
    with pytest.raises(ValueError, match="d_out must be one of 8, 16, 32, 64, got 12"):
        fresh.set(d_out=12)
    fresh.controls["weights"].value = "random"
    assert (fresh.values["d_out"], fresh.values["num_heads"]) == (12, 3)
    assert fresh.message.value == ""


def test_a_trained_layers_answers_are_told(fresh):
    fresh.set(weights="trained", d_out=64, num_heads=2)
    first, second = (f"{share:.0%}" for share in fresh.arrays.accuracy.tolist())
    assert f"the first is right in {first}, the second in {second}" in fresh.readout
    fresh.set(weights="random")
    assert "trained for" not in fresh.readout

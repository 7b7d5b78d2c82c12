"""Notebook 06's explorer: the complete layer, step by step."""

import html
import inspect
import itertools
import re
import xml.etree.ElementTree as ET

import pytest
import torch

from attention_helpers import MultiHeadAttention, explorers
from attention_helpers.explorers import lesson_06_stages as stages
from tools.bench.made import SENTENCE, settings_of

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


def test_the_code_has_the_shapes_that_the_layer_makes(fresh):
    fresh.set(d_out=12, num_heads=3, num_tokens=5)
    shapes = [line.partition("  # ")[2] for line in folded_code(fresh)[0]]
    of_heads, maps = "(1, 3, 5, 4)", "(1, 3, 5, 5)"
    assert shapes[:5] == ["(1, 5, 3)", of_heads, of_heads, of_heads, maps]
    assert shapes[5:] == ["(5, 5)", maps, of_heads, "(1, 5, 3, 4)", "(1, 5, 12)", "(1, 5, 12)"]


# stage: how many of six parts (queries, keys, values, maps, context, output) are pale, how many frames there are for
# two heads, and what the arrows carry that is done now
WALK = {
    "tokens": (6, 1, []),
    "queries": (5, 1, ["W_query"]),
    "keys": (4, 1, ["W_key"]),
    "values": (3, 1, ["W_value"]),
    "scores": (2, 1, ["q · k"]),
    "mask": (2, 1, ["mask"]),
    "softmax": (2, 1, ["÷ √6", "softmax"]),
    "dropout": (2, 1, ["dropout"]),
    "context": (1, 2, ["· values"]),
    "side by side": (1, 1, []),
    "output": (0, 1, ["out_proj"]),
}


@pytest.mark.parametrize("where", WALK)
def test_what_is_not_yet_computed_is_pale_and_what_is_done_now_is_framed_and_bold(fresh, where):
    fresh.set(where=where)
    root, (pale, framed, carried) = ET.fromstring(fresh.svg), WALK[where]
    assert len([group for group in root.iter(f"{SVG}g") if group.get("opacity") == "0.15"]) == pale
    assert "".join(root.itertext()).count("not computed yet") == pale
    frames = [rect for rect in root.iter(f"{SVG}rect") if rect.get("stroke-width") == "2"]
    assert len(frames) == framed
    texts = [text for text in root.iter(f"{SVG}text") if text.get("font-family") == "monospace"]
    assert [text.text for text in texts if text.get("font-weight")] == carried
    strong = [group for group in root.iter(f"{SVG}g") if group.get("opacity") == "1"]
    assert len(strong) == {"tokens": 0, "side by side": 0, "context": 2}.get(where, 1)  # arrows


@pytest.mark.parametrize(
    ("where", "x", "y"),
    [("tokens", 64, 146), ("queries", 186, 24), ("keys", 186, 146), ("values", 186, 268), ("output", 402, 268)],
)
def test_the_frame_is_around_the_table_of_the_stage(fresh, where, x, y):
    fresh.set(where=where)
    [frame] = [rect for rect in ET.fromstring(fresh.svg).iter(f"{SVG}rect") if rect.get("stroke-width") == "2"]
    assert 0 < x - float(frame.get("x")) < 5
    assert 6 < y - float(frame.get("y")) < 12  # the heads' bands are inside too


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
    assert all(f"{name} does nothing" in fresh.message.value for name in ("num_tokens", "seed"))
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
    assert "d_out is 8 for now: 12 isn't offered with trained weights." in html.unescape(fresh.message.value)
    with pytest.raises(ValueError, match="d_out must be one of 8, 16, 32, 64, got 12"):
        fresh.set(d_out=12)
    fresh.controls["weights"].value = "random"
    assert (fresh.values["d_out"], fresh.values["num_heads"]) == (12, 3)
    assert fresh.message.value == ""


@pytest.mark.parametrize("d_out", [12, 24])  # drawn as shapes, and as an image
def test_the_sign_of_a_number_is_seen_without_colours(fresh, d_out):
    fresh.set(d_out=d_out, num_heads=1, num_tokens=6, where="output")
    output = fresh.arrays.output
    clearly = (output < -3.5 / 64 * output.abs().max()).nonzero().tolist()
    root = ET.fromstring(fresh.svg)
    paths = [
        path.get("d") for path in root.iter(f"{SVG}path") if re.fullmatch(r"(M[\d.]+ [\d.]+h[\d.]+)+", path.get("d"))
    ]
    spots = [(float(y), float(x)) for x, y in re.findall(r"M([\d.]+) ([\d.]+)", paths[-1])]
    cells = [[int(y // (80 / 6)), int(x // (174 / d_out))] for y, x in spots]
    assert cells == clearly
    assert len(clearly) > 5


def test_only_divisors_are_offered_and_the_others_explained(fresh):
    fresh.set(d_out=12, num_heads=4)
    assert settings_of(fresh.controls["num_heads"]) == [1, 2, 3, 4, 6, 12]
    fresh.controls["d_out"].value = 15
    assert settings_of(fresh.controls["num_heads"]) == [1, 3, 5]
    assert fresh.values["num_heads"] == 3
    assert "4 doesn&#x27;t divide d_out = 15" in fresh.message.value
    fresh.controls["d_out"].value = 16
    assert fresh.values["num_heads"] == 4  # the chosen value is back
    assert fresh.message.value == ""
    fresh.set(d_out=15)
    assert "4 doesn&#x27;t divide d_out = 15" in fresh.message.value  # as after a slider's move

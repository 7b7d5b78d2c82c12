"""What each explorer shows besides its arrays, lesson by lesson."""

import itertools
import re
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest
from explorer_checks import SVG

from attention_helpers import explorers
from tools.bench.made import RUN, SENTENCE, make, settings_of


@pytest.fixture(scope="module")
def explorer():
    """Each explorer, made once: explorer("ScoresExplorer")."""
    made = {}
    return lambda name: made.setdefault(name, make(name))


def cells_of(root):
    """Each cell's tooltip and colour."""
    return {rect.find(f"{SVG}title").text: rect.get("fill-opacity") for rect in root.iter(f"{SVG}rect") if len(rect)}


def test_the_picture_shows_the_arrays(explorer):
    """Read the weights back from the cells' colours, and the numbers from their tooltips."""
    e = explorer("ScoresExplorer")
    e.set(query=1, temperature=0.1)
    cells, names = cells_of(ET.fromstring(e.svg)), SENTENCE.tokens
    for i, j in itertools.product(range(6), range(6)):
        weight = float(e.arrays.weights[i, j])
        ink = float(cells[f"{names[i]} reads {names[j]}: {weight:.4f}"])
        assert ink == pytest.approx(weight, abs=0.01)


def test_what_dropout_took_is_marked(explorer):
    """A cross for each weight that dropout removed; the masked ones are hatched."""
    e = explorer("WrapperExplorer")
    e.set(num_heads=2, dropout=0.5, seed=7)
    taken = int(((e.arrays.shown == 0) & (e.arrays.weights > 0)).sum())
    paths = ET.fromstring(e.svg).iter(f"{SVG}path")
    assert sum(path.get("d").count("M") for path in paths if path.get("stroke-width") == "1.5") == taken > 0


def test_only_divisors_are_offered_and_the_others_explained(explorer):
    e = explorer("SplitExplorer")
    e.set(d_out=12, num_heads=4)
    assert settings_of(e.controls["num_heads"]) == [1, 2, 3, 4, 6, 12]
    e.controls["d_out"].value = 15
    assert settings_of(e.controls["num_heads"]) == [1, 3, 5]
    assert e.values["num_heads"] == 3
    assert "4 doesn&#x27;t divide d_out = 15" in e.message.value
    assert "15 / 2 = 7.50" in e.readout
    e.controls["d_out"].value = 13
    assert e.values["num_heads"] == 1
    e.controls["d_out"].value = 16
    assert e.values["num_heads"] == 4  # the chosen value is back
    assert e.message.value == ""
    e.set(d_out=15)
    assert "4 doesn&#x27;t divide d_out = 15" in e.message.value  # as after a slider's move


def test_the_play_button_moves_the_step(explorer):
    e = explorer("LearningExplorer")
    [play] = e.children[0].children[len(e.controls) + 1 :]
    assert e.link.source == (play, "value")
    assert e.link.target == (e.controls["step"], "index")
    assert (play.min, play.max) == (0, 4)
    e.controls["step"].index = 3  # as the page does
    assert e.values["step"] == 40
    assert "“" in e.readout
    assert "40 of 400" in e.readout


def test_a_run_that_has_not_run_is_refused():
    with pytest.raises(ValueError, match="training must have run, got 1 snapshots"):
        explorers.LearningExplorer(SimpleNamespace(task=RUN.task, examples=RUN.examples, snapshots=RUN.snapshots[:1]))


def test_both_heads_are_drawn_side_by_side_with_the_questions_row_framed(explorer):
    e = explorer("LearningExplorer")
    e.set(step=400, example=2)
    tokens = e.arrays.tokens
    reads = re.findall(rf"<title>{re.escape(tokens[-1])} reads ([^:]*): ([.0-9]*)</title></rect>", e.svg)
    assert [float(weight) for _, weight in reads] == pytest.approx(e.arrays.weights[:, -1].flatten().tolist(), abs=1e-4)
    assert [name for name, _ in reads] == 2 * tokens
    assert e.svg.count('stroke-width="2" fill="none" stroke="currentColor"') == 2


def test_a_text_is_read_as_it_is_typed_and_the_place_follows_it(explorer):
    e = explorer("TextExplorer")
    e.set(text="a slow river", back=11)
    assert e.arrays.place == 0
    e.controls["text"].value = "a slo"
    assert (e.values["back"], e.arrays.written) == (4, " ")
    e.controls["text"].value = "a slow river"
    assert e.values["back"] == 11  # the chosen value is back
    e.set(back=0)
    assert "nothing is written there yet" in e.readout
    e.set(text="x" * 40)
    assert "The models read the last 32 characters." in e.message.value
    assert len(e.arrays.text) == 32


def test_the_leaky_models_maps_show_the_future_and_the_masked_ones_hide_it(explorer):
    e = explorer("TextExplorer")
    e.set(text="a slow river")
    masked, leaky = (len(re.findall("<title>[^<]* reads ", part.svg)) for part in e.picture(e.arrays)[0])
    assert (masked, leaky) == (4 * 78, 4 * 144)


@pytest.mark.parametrize("text", ["", "ü", "a\nbü"])
def test_a_text_that_no_model_can_read_is_explained_and_the_picture_stays(explorer, text):
    e = explorer("TextExplorer")
    e.set(text="a slow river", back=3)
    before = e.svg
    e.controls["text"].value = text
    assert "text must be some characters of" in e.message.value
    assert e.svg == before
    with pytest.raises(ValueError, match="text must be some characters of"):
        e.set(text=text)
    with pytest.raises(ValueError, match="text must be a string, got 3"):
        e.set(text=3)
    e.controls["text"].value = "a slow river!"[:-1] + "s"
    assert e.message.value == ""
    assert e.arrays.text == "a slow rivers"


def test_more_key_heads_than_query_heads_are_explained(explorer):
    e = explorer("VariantsExplorer")
    e.set(num_heads=8, num_kv_heads=4)
    before = e.svg
    e.controls["num_heads"].value = 2
    assert "4 KV heads can&#x27;t be shared by 2 query heads" in e.message.value
    assert e.svg == before
    e.controls["num_kv_heads"].value = 1
    assert (e.message.value, len(e.arrays.weights)) == ("", 2)

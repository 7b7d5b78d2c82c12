"""Every explorer over its controls: what it shows is what the layers compute, and no state raises."""

import html
import random
import re
import xml.etree.ElementTree as ET

import explorer_checks_01_06 as first_checks
import explorer_checks_07_14 as later_checks
import pytest
import torch
from course import LESSONS, read
from explorer_page import SVG, figures, tooltips, tree_of, words_of
from ipywidgets import SelectionSlider
from made import SENTENCE, make, reset, settings_of

from attention_course import explorers
from attention_course.explorers.words import plain
from attention_helpers import Sentence, load_sentence

NAMES = explorers.__all__
CHECKS = vars(first_checks) | vars(later_checks)


def check(explorer):
    """Check what an explorer shows against its layer, and its picture against the common format; returns its sizes."""
    name = type(explorer).__name__.removesuffix("Explorer").lower()
    with torch.random.fork_rng(devices=[]):
        CHECKS[f"check_{name}"](explorer, **explorer.values)
    root = tree_of(explorer)
    assert (root.get("role"), root.get("aria-label")) == ("img", explorer.alt)
    assert explorer.alt.startswith(plain(explorer.said).rstrip("."))
    assert "nan" not in re.sub('base64,[^"]*', "", explorer.svg + explorer.readout).lower()
    sliders = [each for each in explorer.controls.values() if hasattr(each, "min") or isinstance(each, SelectionSlider)]
    # In Colab, a slider with one option isn't there.
    assert all(len(settings_of(slider)) > 1 for slider in sliders)
    return [part.get("viewBox") for part in root.iter(f"{SVG}svg")]


def draw_states(explorer, count):
    """Random states that spread over each control's range; some ask for what others then make impossible."""
    chance = random.Random(0)
    places = {name: chance.sample(range(count), count) for name in explorer.controls}
    for n in range(count):
        lists = {name: settings_of(control) for name, control in explorer.controls.items()}
        yield {name: values[places[name][n] * len(values) // count] for name, values in lists.items()}


def move(explorer, state):
    """Show the possible state nearest to another; False if there's none, and then nothing has changed."""
    before = explorer.svg, explorer.values
    try:
        explorer.update(**state)
    except ValueError:
        assert (explorer.svg, explorer.values) == before
        return False
    given = state.keys() - explorer.choices(state).keys()
    assert {name: explorer.values[name] for name in given} == {name: state[name] for name in given}
    return True


@pytest.mark.parametrize("name", NAMES)
def test_any_state_shows_what_the_layers_compute(explorer, name):
    """All pictures have one size, so that nothing jumps."""
    e = explorer(name)
    count = 60 if name == "LayerExplorer" else 12  # most of its states are impossible: heads must divide d_out
    sizes = [check(e) for state in draw_states(e, count) if move(e, state)]
    assert len(sizes) >= 5
    assert sizes == sizes[:1] * len(sizes)


@pytest.mark.parametrize("name", NAMES)
def test_no_slider_has_a_single_option_in_any_state(explorer, name):
    """Colab's widgets would not draw it."""
    e = explorer(name)
    for state in draw_states(e, 12):
        move(e, state)
        assert min([len(c._options_full) for c in e.controls.values() if isinstance(c, SelectionSlider)], default=2) > 1


def test_a_stored_picture_tells_how_to_move_it_and_where_its_controls_stand(explorer):
    e = explorer("MaskExplorer")
    e.set(mask=True, place=2)
    still = ET.fromstring(e._repr_mimebundle_()["image/svg+xml"])
    assert words_of(still)[:5] == ["▶ Run this cell (Shift+Enter) to move it", "causal mask", "on", "place of B ?", "2"]


@pytest.mark.parametrize("name", ["CacheExplorer", "LengthExplorer"])
def test_a_greyed_control_does_nothing_and_says_why(explorer, name):
    e, greyed = explorer(name), 0
    tooltips = {control: each.tooltip for control, each in make(name).controls.items() if not each.disabled}
    for state in draw_states(e, 24):
        e.update(**state)
        for control in [control for control in e.controls if e.controls[control].disabled]:
            assert e.controls[control].tooltip not in ("", tooltips.get(control))
            shown, greyed = e.view.html, greyed + 1
            e.set(**{control: settings_of(e.controls[control])[-1]})
            assert e.view.html == shown
    assert greyed


@pytest.mark.parametrize("name", NAMES)
def test_each_control_of_a_new_explorer_changes_what_it_shows_and_no_random_number_moves(name, monkeypatch):
    e, random_state = make(name), torch.get_rng_state()
    if name != "LayerExplorer":  # a learner's class may draw; on a second thread, while a cell draws on the first
        for changes in ("manual_seed", "set_rng_state", "random.fork_rng"):
            monkeypatch.setattr(f"torch.{changes}", lambda *_, **__: pytest.fail("it changes them for a moment"))
    for control in e.controls.values():
        shown, usable = e.view.html, control.value != settings_of(control)[-1] and not control.disabled
        control.value = settings_of(control)[-1]
        if name != "Playground":  # some of its controls show in training only
            assert (e.view.html != shown) == usable, control.description
    monkeypatch.undo()
    assert "⚠" not in e.message
    assert torch.equal(torch.get_rng_state(), random_state)


def test_a_page_gets_new_options_while_its_slider_stands_where_both_have_one(monkeypatch):
    """Or it puts the slider within the new ones itself, and sends that as if the learner had moved it."""
    e, sent = make("CostExplorer"), []
    heads = e.controls["num_heads"]
    monkeypatch.setattr(heads.comm, "kernel", True, raising=False)  # another test may have imported ipykernel's comms
    monkeypatch.setattr(heads.comm, "send", lambda data, **_: sent.append(data["state"]))
    e.set(width=1024)
    told = [(state.get("index"), "_options_labels" in state) for state in sent]
    assert told[:2] + told[-1:] == [(0, False), (None, True), (heads.index, False)]


IMPOSSIBLE = [  # a control, a value that it can't have in the first state, and one that it can
    ("TextExplorer", "text", "ßß", "a", "text must have a character of the course's text"),
    ("ReadingExplorer", "text", "x" * 65, "x" * 64, "text must hold at most 64 tokens, got 65"),
    ("LayerExplorer", "context_length", 5, 6, "x can have 5 tokens, got 6"),
]


@pytest.mark.parametrize(("name", "control", "bad", "good", "said"), IMPOSSIBLE)
def test_an_impossible_state_is_explained_and_the_dimmed_picture_stays(explorer, name, control, bad, good, said):
    e = explorer(name)
    before = e.arrays, e.svg
    e.controls[control].value = bad
    assert said in html.unescape(e.message)
    assert "attention-refused" in e.message
    assert (e.arrays, e.svg) == before
    e.controls[control].value = good
    assert "attention-refused" not in e.message
    check(e)


def test_an_impossible_wish_gives_the_nearest_possible_value_and_comes_back(explorer):
    e = explorer("SplitExplorer")
    for wanted, shown in ((5, 2), (1, 1)):  # there are two sentences with matrices made by hand
        e.set(num_heads=4, weights="trained", d_out=8, example=wanted)  # in any order
        e.set(weights="hand-made")
        assert (e.values["num_heads"], e.values["example"]) == (3, shown)
        assert "num_heads is 3 for now: 4 isn" in e.message
        e.set(weights="trained")
        assert e.values["example"] == wanted
    with pytest.raises(ValueError, match="example must be from 1 to 8 in steps of 1, got 9"):
        e.set(example=9)


def test_what_the_models_do_not_know_or_is_too_long_is_left_out_and_the_position_goes_with_the_letters(explorer):
    e = explorer("TextExplorer")
    for text, back, place in (("hßave", 3, 0), ("have a jar", 5, 4)):  # five back, where there are so many
        e.controls["text"].value = text
        assert (e.values["back"], e.arrays.place) == (back, place)
    e.controls["text"].value = "ß@a town lies by a slow green\t river."
    assert e.arrays.text == "town lies by a slow green river."
    assert all(part in e.message for part in ("ß, @, \\t.", "last 32 characters."))


def test_a_sentence_of_ones_own_is_typed_and_its_new_words_are_made_of_the_entries_names():
    e = explorers.ScoresExplorer(load_sentence("lookup"), entries=list("ABC123?"), query=3, changed={(0, 0): 0.5})
    e.controls["sentence"].value = "B 3, A 3,C ?"
    x = torch.tensor([[0, 1, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 1, 0], [0, 0, 1, 0, 0, 0, 1]]).float()
    assert torch.equal(e.arrays.embeddings, x)
    assert (e.values["query"], [label for label, _ in e.controls["query"].options]) == (2, ["0 B 3", "1 A 3", "2 C ?"])
    shown, made = e.svg, "made of A 3, B 1, C 2, B ?, or of A B C 1 2 3 ?, got 'D 4'"
    for bad, said in ({"sentence": "D 4"}, made), ({"sentence": " , "}, "1 to 8 tokens"), ({"query": 3}, "2, got 3"):
        with pytest.raises(ValueError, match=re.escape(said)):
            e.set(**bad)
    assert e.svg == shown
    reset(e)
    assert (e.arrays.tokens, e.values["query"]) == (["A 3", "B 1", "C 2", "B ?"], 3)
    assert e.arrays.embeddings[0].tolist() == [0.5, 0, 0, 0, 0, 1, 0]
    with pytest.raises(ValueError, match="entries must hold one name for each of 3, got 2"):
        explorers.ScoresExplorer(SENTENCE, entries=["size", "age"])


FIGURES = [  # of the headlines that `check` leaves out; worked out by hand, or of the models in data/
    ("ScoresExplorer", {"query": 5, "temperature": 0.01}, ["“step”", "“journey”", "0.93", "0.17"]),
    ("ScoresExplorer", {"temperature": 5}, ["“journey”", "“starts”", "0.18", "0.17"]),
    ("QKVExplorer", {"made": "matrices"}, ["“B ?”", "1.000", "“B 1”", "0.000"]),
    ("WrapperExplorer", {}, ["“BC ?”", "“B 1”", "“C 2”", "0.498"]),
    ("SplitExplorer", {"num_heads": 2}, ["“BC ?”", "“B 1”", "1", "0.99", "“C 2”", "2", "0.99"]),
    ("ModelsExplorer", {"model": "Gemma 4 31B"}, ["131,072", "4", "31", "86.2", "10.78"]),
    ("CacheExplorer", {}, ["131,072", "68.7", "524.3"]),
    ("MachinesExplorer", {"processes": 8, "num_tokens": 2**15}, ["8", "2.4", "1.9"]),
]


@pytest.mark.parametrize(("name", "state", "said"), FIGURES)
def test_a_headlines_figures_are_those_worked_out_by_hand(explorer, name, state, said):
    e = explorer(name)
    e.set(**state)
    assert figures(e.said) == said


def test_a_sentence_of_ones_own_is_shown_whatever_its_words():
    tokens = ["<img onerror=x>", 'a "quoted" one', "$x$", "a | b", "a\nb", "&amp;"]
    embeddings = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    e = explorers.ScoresExplorer(Sentence(tokens, embeddings))
    assert "<img" not in e.svg + e.readout
    assert len(tooltips(e, "<img onerror=x> looks at")) == 6
    for control in e.controls.values():
        control.value = settings_of(control)[-1]


def test_a_page_that_still_has_former_options_is_told_the_new_ones(monkeypatch):
    """A page names an option by its number; fast keys can name one that another control has just taken away."""
    e, sent = make("CostExplorer"), []
    e.set(width=768)
    heads, before = e.controls["num_heads"], e.values
    monkeypatch.setattr(type(heads), "send_state", lambda *_: sent.append(heads.index))
    heads.set_state({"index": 12})  # the last one of a width of 1600
    assert (e.values, sent[-1]) == (before, heads.index)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_controls_that_a_page_names_are_there(explorer, path):
    """What it says to set, drag or move to a value."""
    cells = read(path).cells
    code, text = (" ".join(cell.source for cell in cells if cell.cell_type == kind) for kind in ("code", "markdown"))
    shown = [explorer(name) for name in NAMES if f"{name}(" in code]
    there = {name for e in shown for name in (*e.controls, *(each.description for each in e.controls.values()))}
    text = " ".join(re.sub(r"[*]|</?i>", "", text).split())
    said = re.findall(r"\b(?:set|drag|move) ([a-z_ ]+?) to\b", text, re.I) + re.findall(r"'s control ([a-z_]+)", text)
    assert {*said} - {"it", "these weights"} <= there

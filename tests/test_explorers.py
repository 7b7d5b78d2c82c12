"""Every explorer over its controls: what it shows is what the layers compute, and no state raises."""

import html
import re
import xml.etree.ElementTree as ET

import pytest
import torch
from explorer_checks import check, impossible, naming, states
from explorer_page import check_claim, told, tree_of
from made import MADE_FROM, SENTENCE, make, settings_of

from attention_course import explorers
from attention_course.explorers.base import Markup
from attention_helpers import Sentence
from tools.notebooks import live_pages

NAMES = explorers.__all__


def test_each_step_of_training_drops_weights_of_its_own(explorer):
    e = explorer("DropoutExplorer")
    e.set(p=0.5, step=100)
    before = e.arrays.dropped
    e.set(step=105)
    assert not torch.equal(e.arrays.dropped, before)


@pytest.mark.parametrize("name", NAMES)
def test_any_state_shows_what_the_layers_compute(explorer, name):
    """An impossible state is refused, and changes nothing; all pictures have one size, so that nothing jumps."""
    e, sizes = explorer(name), set()
    for state in states(e, name, 12):
        with naming(name, state):
            before = e.svg, e.values
            if said := impossible(name, state):
                with pytest.raises(ValueError, match=said):
                    e.set(**state)
                assert (e.svg, e.values) == before
            else:
                e.set(**state)
                assert e.values == state
                sizes.add(str(check(e, name)))
    assert len(sizes) == 1
    fresh = make(name)
    fresh.set(**e.values)
    assert fresh.svg == e.svg  # whatever was shown before


@pytest.mark.parametrize("name", ["CacheExplorer", "LengthExplorer"])
def test_a_greyed_control_does_nothing_and_the_message_names_it(explorer, name):
    e, greyed = explorer(name), set()
    for state in [state for state in states(e, name, 40) if not impossible(name, state)]:
        e.set(**state)
        for control in [control for control in e.controls if e.controls[control].disabled]:
            assert control in e.message.value
            shown = e.view.value
            e.set(**{control: settings_of(e.controls[control])[-1]})
            assert e.view.value == shown
            greyed.add(control)
    assert greyed


def family(widget):
    """A widget's children and theirs."""
    for child in getattr(widget, "children", ()):
        yield from (child, *family(child))


@pytest.mark.parametrize("name", NAMES)
def test_a_new_explorer_moved_to_its_ends_and_reset(name):
    """Without widgets there is a picture; Reset restores the first one; the notebook's random numbers don't change."""
    random_state = torch.get_rng_state()
    e = make(name)
    check(e, name)
    first, values = e.svg, e.values
    bundle = e._repr_mimebundle_()
    assert bundle["text/plain"].startswith(f"{type(e).__name__}: run this cell to ")
    root = ET.fromstring(bundle["image/svg+xml"])
    assert root[0].get("fill") == "#fff"
    assert re.search(r"\d\.\d", root.get("aria-label"))
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert all(control.label for control in e.controls.values() if hasattr(control, "options"))
    for control in e.controls.values():
        control.value = settings_of(control)[-1]
    assert e.values != values
    check(e, name)
    [reset] = [child for child in family(e) if getattr(child, "description", "") == "Reset"]
    reset.click()
    assert e.values == values
    assert e.svg == first
    assert torch.equal(torch.get_rng_state(), random_state)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "LayerExplorer"])  # a learner's class may draw
def test_a_move_never_touches_the_notebooks_random_numbers(name, monkeypatch):
    """Outside the course's Lab, a slider's callbacks run on a second thread, while a cell draws on the first."""
    e = make(name)
    for changes in ("manual_seed", "set_rng_state", "random.fork_rng"):
        monkeypatch.setattr(f"torch.{changes}", lambda *_, **__: pytest.fail("it changes them for a moment"))
    for control in e.controls.values():
        control.value = settings_of(control)[-1]
    assert "⚠" not in e.message.value


IMPOSSIBLE = [  # a control, a value that it can't have in the first state, and one that it can
    ("TextExplorer", "text", "ßß", "a", "text must have a character of the course's text"),
    ("ReadingExplorer", "text", "x" * 65, "x" * 64, "text must hold at most 64 tokens, got 65"),
    ("ReadingExplorer", "text", "", "abc", "at least one token"),
    ("LayerExplorer", "context_length", 5, 6, "x can have 5 tokens, got 6"),
]


@pytest.mark.parametrize(("name", "control", "bad", "good", "said"), IMPOSSIBLE)
def test_an_impossible_state_is_explained_and_the_dimmed_picture_stays(explorer, name, control, bad, good, said):
    e = explorer(name)
    before = e.values, e.arrays, e.svg, e.message.value
    with pytest.raises(ValueError, match=said):
        e.set(**{control: bad})
    assert (e.values, e.arrays, e.svg, e.message.value) == before
    e.controls[control].value = bad
    assert said in html.unescape(e.message.value)
    assert "attention-dimmed" in e.view._dom_classes
    assert (e.arrays, e.svg) == (before[1], before[2])
    e.controls[control].value = good
    assert "⚠" not in e.message.value
    assert "attention-dimmed" not in e.view._dom_classes
    check(e, name)


@pytest.mark.parametrize(("name", "heads"), [("WrapperExplorer", 2), ("SplitExplorer", 3)])
def test_an_impossible_wish_gives_the_nearest_possible_value_and_comes_back(explorer, name, heads):
    e = explorer(name)
    for wanted, shown in ((5, 2), (1, 1)):  # there are two sentences with matrices made by hand
        e.set(num_heads=4, weights="trained", d_out=8, example=wanted)  # in any order
        e.set(weights="hand-made")
        assert (e.values["num_heads"], e.values["example"]) == (heads, shown)
        wide = f" d_out is {e.values['d_out']} for now: 8 isn't …"
        more = f" example is {shown} for now: {wanted} isn't …" if wanted != shown else ""
        check_claim(Markup(e.message.value), f"num_heads is {heads} for now: 4 isn't … hand-made weights.{wide}{more}")
        e.set(weights="trained")
        assert e.values["example"] == wanted
    before = e.values, e.svg
    with pytest.raises(ValueError, match="example must be from 1 to 8 in steps of 1, got 9"):
        e.set(num_heads=1, example=9)
    assert (e.values, e.svg) == before


HOSTILE = ["<img onerror=x>", 'a "quoted" one', "$x$", "a | b", "a\nb", "&amp;"]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in MADE_FROM])
def test_a_sentence_of_ones_own_is_shown_whatever_its_words(name):
    embeddings = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    e = getattr(explorers, name)(Sentence(HOSTILE, embeddings))
    assert "<img" not in e.svg + e.readout
    assert any(words.startswith("<img onerror=x> reads") for words, _ in told(tree_of(e)))
    for control in e.controls.values():
        control.value = settings_of(control)[-1]


def test_an_explorer_opens_in_the_state_that_it_was_given_and_reset_leads_back():
    names = ["size", "age", "speed"]
    e = explorers.ScoresExplorer(SENTENCE, entries=names, query=3)
    e.set(query=1, temperature=2)
    e._reset(None)
    assert e.values == {"query": 3, "temperature": 1}
    assert e.arrays.query == 3
    assert all(name in e.svg for name in names)
    with pytest.raises(ValueError, match="query must be one of 0, 1, 2, 3, 4, 5, got 6"):
        explorers.ScoresExplorer(SENTENCE, query=6)
    with pytest.raises(ValueError, match="entries must hold one name for each of 3, got 2"):
        explorers.ScoresExplorer(SENTENCE, entries=names[:2])


def test_a_page_that_still_has_former_options_is_told_the_new_ones(monkeypatch):
    """A page names an option by its number; fast keys can name one that another control has just taken away."""
    e, sent = make("CostExplorer"), []
    e.set(width=768)
    monkeypatch.setattr(type(e.controls["num_heads"]), "send_state", lambda self, *_: sent.append(self.index))
    before = e.values
    e.controls["num_heads"].set_state({"index": 12})  # the last one of a width of 1600
    assert e.values == before
    assert sent[-1] == e.controls["num_heads"].index
    e.controls["num_heads"].set_state({"index": 0})
    assert e.values == before | {"num_heads": 1}


@pytest.mark.parametrize(
    ("name", "control", "labels"),
    [
        ("ScoresExplorer", "query", {2: "2 starts"}),
        ("MaskExplorer", "mask", {True: "on", False: "off"}),
        ("CostExplorer", "bytes", {4: "float32", 2: "bfloat16", 1: "int8"}),
    ],
)
def test_on_the_site_a_label_leads_to_its_value(name, control, labels, monkeypatch):
    monkeypatch.setattr(live_pages, "GRIDS", {name: {control: live_pages.EVERY}})
    monkeypatch.setattr(live_pages, "shown_by", lambda _: make(name))
    live, found = live_pages.Live([], name), {}
    for place, label in enumerate(live.described(control)["values"]):
        live.move([place])
        found[live.explorer.values[control]] = label
    assert all(found[value].startswith(label) for value, label in labels.items())

"""LayerExplorer, over layers that are not ours: what it shows of a learner's class, and how errors are told."""

import html
import re
import xml.etree.ElementTree as ET
from functools import partial

import pytest
import torch
from explorer_page import SVG, check_maps, paths, told, tree_of, words_of
from IPython.core.interactiveshell import InteractiveShell
from made import reset
from other_layers import DROPPED, JOINED, MASKED, RESULT, WRONG, layer_with, more
from torch import nn

from attention_course.explorers import LayerExplorer
from attention_course.judge.sizes import kinds_of
from attention_course.judge.verdicts import headline
from attention_course.plots import WRONG_TEXT
from attention_helpers import Sentence

SENTENCE = Sentence(["a", "b", "c", "d"], torch.randn(4, 4, generator=torch.Generator().manual_seed(1)))
Causal, Dropping = layer_with(), layer_with(*more("self.p = 0.5"))
Random = layer_with(DROPPED, "F.dropout(weights, 0.01)")
HidesTooMuch = layer_with("future(n)", "future(n, 0)")
ThrowsAway = layer_with(MASKED, f"scores; {MASKED}")


class Mine(Causal):
    """A learner's layer, which prints, and seeds torch."""

    def __init__(self, d_in, d_out, num_heads, qkv_bias=False, dropout=0.1):
        super().__init__(d_in, d_out, num_heads)
        assert d_out > num_heads, "heads must be wider"
        torch.default_generator.manual_seed(123)
        print("made")

    def forward(self, x):
        print(x.shape)
        return super().forward(x)


def test_controls_come_from_the_constructor():
    e = LayerExplorer(Mine, SENTENCE)
    assert list(e.controls) == ["d_out", "num_heads", "qkv_bias", "dropout", "training", "seed"]
    assert e.values["dropout"] == 0.1
    named = LayerExplorer(nn.MultiheadAttention, SENTENCE, batch_first=True, add_bias_kv=False)
    assert list(named.controls) == ["num_heads", "dropout", "bias", "add_zero_attn", "training", "seed"]
    assert (len(named.arrays.maps), named.message) == (2, "")
    narrow = Sentence(["a", "b"], torch.ones(2, 3))  # two heads can't share its width
    assert LayerExplorer(nn.MultiheadAttention, narrow, batch_first=True).values["num_heads"] == 3
    joined = layer_with(JOINED, "torch.cat([*context.transpose(0, 1)], dim=1)")
    assert "4 in all, got" in LayerExplorer(joined, SENTENCE).message  # with one head, its fault wouldn't show


def test_an_error_is_shown_with_its_line_and_the_last_picture_stays():
    e = LayerExplorer(Mine, SENTENCE)
    before, arrays = e.svg, e.arrays
    e.controls["num_heads"].value = 3
    assert re.search("⚠ your layer fails in line \\d+, <code>assert .*</code>: AssertionError: heads must", e.message)
    assert (e.svg, e.arrays) == (before, arrays)
    e.controls["num_heads"].value = 1
    assert e.message == ""


def test_only_widths_are_offered_that_the_heads_can_share():
    e = LayerExplorer(Causal, SENTENCE, num_heads=[1, 2, 3])
    assert e.controls["d_out"].max == 24  # a list of one's own is no number of heads that we know of
    e = LayerExplorer(Causal, SENTENCE)
    e.controls["num_heads"].value = 3
    assert list(e.controls["d_out"].options) == [3, 6, 9, 12, 15, 18, 21, 24]
    assert e.message == "<span>d_out is 3 for now: 3 heads can&#x27;t share 4 evenly.</span>"
    e.controls["num_heads"].value = 1
    assert (e.values["d_out"], e.message) == (4, "")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            RESULT,
            "return vlaues",
            r"your layer fails in line \d+, <code>return vlaues</code>: NameError: name 'vlaues'",
        ),
        (RESULT, "", "your layer returns None: end <code>forward</code> with a <code>return</code>"),
        ("super().__init__()", "", r"fails in line \d+, .*: begin <code>__init__</code> with <code>super\(\).__init__"),
        (RESULT, "return weights", r"layer must return one row per token, 4 in all, got \(1, 2, 4, 4\)"),
    ],
)
def test_a_class_that_fails_from_the_start_is_told_in_one_line(old, new, said):
    e = LayerExplorer(layer_with(old, new), SENTENCE)
    assert re.search(rf"⚠ .*{said}.*\. Fix it, and run the cell again", html.unescape(e.message))
    assert e.said == "Layer has no picture yet"
    e.controls["seed"].value = 5
    reset(e)
    assert re.search(said, html.unescape(e.message))
    picture = ET.fromstring(e._repr_mimebundle_()["image/svg+xml"])
    assert re.search(said.split("<code>")[0], " ".join(picture.itertext()).replace("\n", " "))


def test_nothing_is_printed_and_neither_random_numbers_nor_the_sentence_change(capsys):
    torch.manual_seed(99)  # another than the learner's own
    random_state, x = torch.get_rng_state(), SENTENCE.embeddings.clone()
    LayerExplorer(Mine, SENTENCE).set(d_out=8, training=False)
    assert capsys.readouterr().out == ""
    LayerExplorer(Random, SENTENCE).set(seed=7)
    LayerExplorer(partial(nn.MultiheadAttention, dropout=0.5), SENTENCE, batch_first=True).set(seed=7)
    assert torch.equal(torch.get_rng_state(), random_state)
    e = LayerExplorer(layer_with("x.shape", "x.add_(1).shape"), SENTENCE)
    e.set(seed=5)
    assert torch.equal(e.embeddings, x)


@pytest.mark.parametrize(
    ("attention", "more", "said"),
    [
        (Causal, {"window": 3}, r"Layer takes d_in, d_out, num_heads, dropout, got window"),
        (lambda d_in, window: None, {}, r"needs window, .*: write LayerExplorer\(<lambda>, sentence, window=4\)"),
        (nn.Linear(4, 4), {}, r"must be a class that makes a layer, got an object of class Linear: write its class"),
    ],
)
def test_a_class_that_cannot_be_asked_is_refused(attention, more, said):
    with pytest.raises(TypeError, match=said):
        LayerExplorer(attention, SENTENCE, **more)


def test_what_a_class_takes_is_known_by_its_arguments_names():
    def kinds(attention, **given):
        return {name: kind for name, (kind, _) in kinds_of(attention, given).items()}

    assert kinds(lambda d_in, dim, num_kv_heads=None, **more: None, window=3) == {"d_in": "d_in", "dim": "d_out"}
    assert kinds(lambda dim, n_heads=2, causal=True: None) == {"dim": "d_in", "n_heads": "num_heads", "causal": "flag"}


def test_a_sentence_without_a_future_is_refused_and_a_class_that_makes_no_layer():
    with pytest.raises(ValueError, match="sentence must have at least 2 tokens"):
        LayerExplorer(Mine, Sentence(["a"], torch.ones(1, 4)))
    message = LayerExplorer(lambda d_in: d_in, SENTENCE).message
    assert "&lt;lambda&gt; must make a layer that can be called, got 4" in message


@pytest.mark.parametrize("attention", [nn.Linear, HidesTooMuch, Random])
def test_the_picture_has_one_size_whatever_the_layer(attention):
    e, mine = LayerExplorer(attention, SENTENCE), LayerExplorer(Mine, SENTENCE, d_out=24)
    boxes = [[part.get("viewBox") for part in tree_of(each).iter(f"{SVG}svg")] for each in (e, mine)]
    assert boxes[0] == boxes[1]
    assert "nan" not in re.sub("NaN", "", e.svg + e.readout)
    assert ("no attention map was found" in e.svg) == (attention is nn.Linear)


@pytest.mark.parametrize("attention", [Causal, ThrowsAway, Random])
def test_each_verdict_is_shown_with_its_sign_and_told_in_the_alternative_text(attention):
    e = LayerExplorer(attention, SENTENCE)
    verdicts = e.arrays.verdicts.values()
    found = [part for part in tree_of(e).iter(f"{SVG}text") if part.text in {*"✓✗?•"}]
    signs = [(part.text, part.get("fill") == WRONG_TEXT) for part in found]
    said = [(verdict.sign, verdict.sign == "✗") for verdict in verdicts]  # a fault is red
    assert signs == sorted(said, key=lambda sign: "✗?•✓".index(sign[0]))
    tooltips = [words for words, _ in told(tree_of(e))]
    for sign, claim, words, *_ in verdicts:
        assert f"{claim}: {words}".replace("`", "") in tooltips
        assert f"{sign} {claim}: {words}." in e.alt
    assert e.said == headline(e.arrays.verdicts, "Layer")


def test_a_cross_marks_each_weight_that_dropout_took_and_what_only_one_head_hides_is_shown():
    e = LayerExplorer(Dropping, SENTENCE, num_heads=2)
    dropped = (e.arrays.shown == 0) & torch.ones(4, 4).tril().bool()
    assert paths(tree_of(e), stroke_width="1.5") == dropped.sum(dim=(1, 2)).tolist()
    e = LayerExplorer(layer_with(*WRONG["one head masked"][1:]), SENTENCE, num_heads=2)
    check_maps(e, e.arrays.shown, SENTENCE.tokens, limit=1)


def test_what_was_not_measured_or_is_not_a_number_is_not_drawn_as_zero():
    hiding, random = LayerExplorer(HidesTooMuch, SENTENCE), LayerExplorer(Random, SENTENCE)
    assert "not drawn: a row is NaN" in words_of(tree_of(hiding))
    for each, why in (hiding, "a row is NaN"), (random, "it's random in eval mode"):
        assert {"not measured, because", why} <= {*words_of(tree_of(each))}
        assert "red: the future" not in words_of(tree_of(each))
        assert "erturbing d" not in each.alt + each.svg


def test_of_many_heads_the_first_twelve_are_shown():
    wide = Sentence(["a", "b"], torch.randn(2, 16, generator=torch.Generator().manual_seed(0)))
    e = LayerExplorer(Causal, wide, d_out=32, num_heads=16)
    assert len(e.arrays.maps) == 16
    assert f"<summary>{e.arrays.size}</summary>16 attention maps, the first 12 are shown<pre>" in e.readout
    check_maps(e, e.arrays.shown[:12], wide.tokens, hidden=torch.ones(2, 2).triu(1).bool(), limit=1)


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """Where cells run, as in a notebook."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def test_no_verdict_outlives_its_class(notebook):
    notebook.push({"Layer": Causal})
    e = LayerExplorer(Causal, SENTENCE)
    of_no_name = LayerExplorer(HidesTooMuch, SENTENCE)  # the notebook never had it under this name
    notebook.run_cell("other = 1")
    assert e.arrays.verdicts
    notebook.run_cell("class Layer: pass")
    for _ in range(2):
        assert "Layer was defined again after this cell ran" in e.view.html
        assert "✓" not in e.view.html
        assert "Run this cell again" in e.message
        assert "✓" not in e._repr_mimebundle_()["image/svg+xml"]
        e.controls["seed"].value += 1
    assert of_no_name.arrays.verdicts
    notebook.push({"Layer": Causal})
    of_a_partial = LayerExplorer(partial(Causal, num_heads=2), SENTENCE)
    notebook.run_cell("def Layer(): pass")
    assert "Layer was defined again" in of_a_partial.said

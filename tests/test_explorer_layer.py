"""LayerExplorer, over layers that are not ours: its maps are theirs, its verdicts are right, errors are told."""

import html
import re
import xml.etree.ElementTree as ET
from functools import partial

import other_layers
import pytest
import torch
from explorer_page import SVG, check_maps, figures, paths, told, tree_of, words_of
from other_layers import made
from torch import nn

from attention_course.any_layer.recorder import record
from attention_course.any_layer.sizes import kinds_of
from attention_course.any_layer.verdicts import headline
from attention_course.explorers import LayerExplorer
from attention_course.plots import ABOVE
from attention_helpers import Sentence

SENTENCE = Sentence(["a", "b", "c", "d"], torch.randn(4, 4, generator=torch.Generator().manual_seed(1)))
X = SENTENCE.embeddings[None]  # (1, 4, 4): as many features as tokens, so that a shape alone proves nothing


CAUSAL = "Einsum FusedCausal ByHand Renormalised Dropping"


@pytest.mark.parametrize("name", CAUSAL.split())
def test_the_maps_are_those_by_which_the_layer_mixes(name):
    """All of them have the same projections, so one softmax by the book serves as the truth for all."""
    layer, x = made(getattr(other_layers, name)).eval().double(), X.double()
    queries, keys, _ = layer.heads(x)
    scores = (queries @ keys.mT / 2**0.5).masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf)
    expected = torch.softmax(scores, dim=-1)[0].detach()
    maps = record(layer, x, again=True).maps
    torch.testing.assert_close(torch.cat([found.used for found in maps]), expected)


def test_weights_that_are_changed_in_place_are_followed():
    def layer(x):
        weights = (x @ x.mT).softmax(-1)
        weights[:, torch.ones(4, 4).triu(1).bool()] = 0
        weights /= weights.sum(-1, keepdim=True)
        return weights @ x

    [found] = record(layer, X, again=True).maps
    expected = (X @ X.mT).softmax(-1).tril()
    torch.testing.assert_close(found.used, expected / expected.sum(-1, keepdim=True))


def test_weights_that_no_token_moves_are_a_map_only_if_they_average_something():
    [found] = record(lambda x: shares(torch.ones(x.shape[-2], x.shape[-2]).tril()) @ x, X, again=True).maps
    assert found.made.name == "div"
    [found] = record(lambda x: ((x @ x.mT) - 9 * torch.eye(x.shape[-2])).softmax(-1) @ x, X, again=True).maps
    assert found.made.name == "softmax"


def shares(table, total=1.0):
    return total * table / table.sum(-1, keepdim=True)


NO_MAPS = {
    "numbers below 0, though its rows sum to 1": lambda x: shares(x @ x.mT) @ x,
    "rows that sum to 1.01": lambda x: shares((x @ x.mT).exp(), 1.01) @ x,
    "NaN all over": lambda x: (torch.nan * (x @ x.mT)).softmax(-1) @ x,
}


def test_what_is_no_map():
    assert [name for name, layer in NO_MAPS.items() if record(layer, X, again=True).maps] == []


# What a learner may type, and what they are told.


class Mine(nn.Module):
    """A learner's layer, with a fault where one is asked for."""

    def __init__(self, d_in, d_out, num_heads, qkv_bias=False, dropout=0.1, fault=""):
        if fault != "super":
            super().__init__()
        if d_out % num_heads:
            raise AssertionError("heads must divide")
        torch.default_generator.manual_seed(123)
        print("made")
        self.fault, self.W_value = fault, nn.Linear(d_in, d_out, bias=qkv_bias)

    def forward(self, x):
        print(x.shape)
        values = self.W_value(x)
        if self.fault == "name":
            return vlaues  # noqa: F821
        if self.fault == "none":
            return None
        if self.fault == "weights":
            return torch.stack([values @ values.mT] * 2, dim=1).softmax(-1)
        return (values @ values.mT).softmax(-1) @ values


def test_controls_come_from_the_constructor():
    e = LayerExplorer(Mine, SENTENCE, fault="")
    assert list(e.controls) == ["d_out", "num_heads", "qkv_bias", "dropout", "training", "seed"]
    assert e.values["dropout"] == 0.1
    named = LayerExplorer(nn.MultiheadAttention, SENTENCE, batch_first=True, add_bias_kv=False)
    assert list(named.controls) == ["num_heads", "dropout", "bias", "add_zero_attn", "training", "seed"]
    assert len(named.arrays.maps) == 2
    narrow = Sentence(["a", "b"], torch.ones(2, 3))  # two heads can't share its width
    assert LayerExplorer(nn.MultiheadAttention, narrow, batch_first=True).values["num_heads"] == 3
    joined = LayerExplorer(other_layers.JoinedAsRows, SENTENCE)
    assert "4 in all, got" in joined.message  # with one head, its fault wouldn't show
    assert named.message == ""


def test_an_error_is_shown_with_its_line_and_the_last_picture_stays():
    e = LayerExplorer(Mine, SENTENCE)
    before, arrays = e.svg, e.arrays
    e.controls["num_heads"].value = 3
    assert re.search("⚠ your layer fails in line \\d+, <code>raise .*</code>: AssertionError", e.message)
    assert (e.svg, e.arrays) == (before, arrays)
    e.controls["num_heads"].value = 1
    assert e.message == ""


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("name", r"your layer fails in line \d+, <code>return vlaues .*</code>: NameError: name 'vlaues' is not"),
        ("none", r"your layer returns None: end <code>forward</code> with a <code>return</code>"),
        ("super", r"your layer fails in line \d+, .*: begin <code>__init__</code> with <code>super\(\).__init__\(\)"),
        ("weights", r"your layer returns its attention weights, \(1, 2, 4, 4\): return them times the values"),
    ],
)
def test_a_class_that_fails_from_the_start_is_told_in_one_line(fault, said):
    e = LayerExplorer(Mine, SENTENCE, fault=fault)
    message = html.unescape(e.message)
    assert re.search(rf"⚠ {said}.*\. Fix it, and run the cell again", message)
    assert e.said == "Mine has no picture yet"
    e.controls["seed"].value = 5
    e.children[1].children[0].click()  # Reset
    assert re.search(said, html.unescape(e.message))
    picture = ET.fromstring(e._repr_mimebundle_()["image/svg+xml"])
    assert re.search(said.split("<code>")[0], " ".join(picture.itertext()).replace("\n", " "))


def test_nothing_is_printed_and_no_random_number_moves(capsys):
    torch.manual_seed(99)  # another than the learner's own
    random_state = torch.get_rng_state()
    e = LayerExplorer(Mine, SENTENCE)
    e.set(d_out=8, training=False)
    assert capsys.readouterr().out == ""
    LayerExplorer(other_layers.AlwaysDropping, SENTENCE).set(seed=7)
    LayerExplorer(partial(nn.MultiheadAttention, dropout=0.5), SENTENCE, batch_first=True).set(seed=7)
    assert torch.equal(torch.get_rng_state(), random_state)


@pytest.mark.parametrize(
    ("attention", "more", "said"),
    [
        (other_layers.Einsum, {"window": 3}, r"Einsum takes d_in, d_out, num_heads, got window=3"),
        (lambda d_in, window: None, {}, r"needs window, .*: write LayerExplorer\(<lambda>, sentence, window=4\)"),
        (nn.Linear(4, 4), {}, r"must be a class that makes a layer, got an object of class Linear: write Linear"),
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


@pytest.mark.parametrize("name", ["Convolution", "HidesTooMuch", "AlwaysDropping"])
def test_the_picture_has_one_size_whatever_the_layer(name):
    e, other = LayerExplorer(getattr(other_layers, name), SENTENCE), LayerExplorer(Mine, SENTENCE)
    e.set(d_out=24)
    assert sizes_of(e) == sizes_of(other)
    assert "nan" not in re.sub("NaN", "", e.svg + e.readout)
    assert ("no attention map was found" in e.svg) == (name == "Convolution")


def sizes_of(explorer):
    return [part.get("viewBox") for part in tree_of(explorer).iter(f"{SVG}svg")]


# What the picture shows.


@pytest.mark.parametrize("name", ["Causal", "MaskThrownAway", "AlwaysDropping"])
def test_each_verdict_is_shown_with_its_sign_and_told_in_the_alternative_text(name):
    e = LayerExplorer(getattr(other_layers, name), SENTENCE)
    verdicts = e.arrays.verdicts.values()
    signs = [(part.text, part.get("fill") == ABOVE) for part in tree_of(e).iter(f"{SVG}text") if part.text in {*"✓✗?•"}]
    assert signs == [(verdict.sign, verdict.sign == "✗") for verdict in verdicts]  # a fault is red
    tooltips = [words for words, _ in told(tree_of(e))]
    for sign, claim, words, *_ in verdicts:
        assert f"{claim}: {words}".replace("`", "") in tooltips
        assert f"{sign} {claim}: {words}." in e.alt
    assert e.said == headline(e.arrays.verdicts, name)


def test_a_cross_marks_each_weight_that_dropout_took_and_what_only_one_head_hides_is_shown():
    e = LayerExplorer(other_layers.Dropping, SENTENCE, num_heads=2)
    dropped = (e.arrays.shown == 0) & torch.ones(4, 4).tril().bool()
    assert paths(tree_of(e), stroke_width="1.5") == dropped.sum(dim=(1, 2)).tolist()
    e = LayerExplorer(other_layers.OneHeadMasked, SENTENCE, num_heads=2)
    check_maps(e, e.arrays.shown, SENTENCE.tokens, limit=1)


def test_the_readout_says_what_goes_in_and_out():
    e = LayerExplorer(other_layers.WeightsFirst, SENTENCE, d_out=6, num_heads=2)
    summary = re.search("<summary>(.*)</summary>2 attention maps<pre>", e.readout)[1]
    parameters = str(3 * (4 * 6 + 6))
    assert figures(summary) == [*"144", *"146", *"22", parameters]  # result 2 of 2


def test_what_was_not_measured_or_is_not_a_number_is_not_drawn_as_zero():
    e = LayerExplorer(other_layers.HidesTooMuch, SENTENCE)
    random = LayerExplorer(other_layers.AlwaysDropping, SENTENCE)
    assert "not drawn: a row is NaN" in words_of(tree_of(e))
    for each, why in (e, "a row is NaN"), (random, "it's random in eval mode"):
        assert {"not measured, because", why} <= {*words_of(tree_of(each))}
        assert "red: the future" not in words_of(tree_of(each))
        assert "erturbing d" not in each.alt + each.svg


def test_of_many_heads_the_first_twelve_are_shown():
    wide = Sentence(["a", "b"], torch.randn(2, 16, generator=torch.Generator().manual_seed(0)))
    e = LayerExplorer(other_layers.Causal, wide, d_out=32, num_heads=16)
    assert len(e.arrays.maps) == 16
    assert "16 attention maps, the first 12 are shown<pre>" in e.readout
    check_maps(e, e.arrays.shown[:12], wide.tokens, hidden=torch.ones(2, 2).triu(1).bool(), limit=1)


def test_an_input_that_the_layer_writes_into_is_the_same_for_its_next_call():
    e = LayerExplorer(other_layers.WritesIntoItsInput, SENTENCE)
    e.set(seed=5)
    assert torch.equal(e.embeddings, SENTENCE.embeddings)

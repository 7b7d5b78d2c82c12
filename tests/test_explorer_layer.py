"""LayerExplorer, over layers that are not ours: its maps are theirs, its verdicts are right, errors are told."""

import re
import xml.etree.ElementTree as ET
from functools import partial
from types import SimpleNamespace

import other_layers
import pytest
import torch
from torch import nn

from attention_helpers import (
    CausalAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttention_v1,
    SelfAttention_v2,
    Sentence,
)
from attention_helpers.any_layer.inspection import look_at
from attention_helpers.any_layer.maps import find_maps
from attention_helpers.any_layer.signature import kinds_of
from attention_helpers.any_layer.verdicts import RANDOM, mask_in_words, on_the_course
from attention_helpers.explorers import LayerExplorer
from attention_helpers.probes import perturbation_influence
from attention_helpers.seeded import DrawnFrom, seeded

SENTENCE = Sentence(["a", "b", "c", "d"], torch.randn(4, 4, generator=torch.Generator().manual_seed(1)))
X = SENTENCE.embeddings[None]  # (1, 4, 4): as many features as tokens, so that a shape alone proves nothing
SIZES = {"d_in": 4, "d_out": 4, "num_heads": 2, "context_length": 4, "dropout": 0.0}

NO, LEAK, YES = "no leak found", "row 0 reads the future: ", "yes, in each of 2 maps"
HERE = "weights after the diagonal"
ELSEWHERE = "No map has a weight there"
PAST = "hides the past"
NO_MAP = "no map found"
QUERIES = "softmax over the queries"
# Of each layer: how many maps, and a part of what is said of the future and of the rows' sums.
VERDICTS = {
    "TorchModule": (2, HERE, YES),
    "TorchModuleMasked": (2, NO, YES),
    "Einsum": (2, NO, YES),
    "EinsumKeysFirst": (2, NO, YES),
    "Grouped": (2, NO, YES),
    "GroupedFused": (2, NO, YES),
    "FusedCausal": (2, NO, YES),
    "FusedFloat": (2, NO, YES),
    "FusedWrongWay": (2, PAST, YES),
    "ByHand": (2, NO, YES),
    "ByHandMaskedLate": (2, ELSEWHERE, YES),
    "MaskThrownAway": (2, HERE, YES),
    "MaskedAfterwards": (2, ELSEWHERE, "taken away after softmax"),
    "Renormalised": (2, ELSEWHERE, YES),
    "OneTooLate": (2, "one token too far", YES),
    "HidesTooMuch": (2, "must be finite, got 4 entries", "no: row 0 is NaN"),
    "OverTime": (2, HERE, QUERIES),
    "OverFeatures": (0, NO, NO_MAP),
    "HeadsMixed": (2, ELSEWHERE, YES),
    "AlwaysDropping": (2, RANDOM, "yes, before some are dropped"),
    "HalfLook": (1, HERE, "yes"),
    "Dropping": (2, NO, YES),
    "SoftmaxTwice": (2, HERE, YES),
    "HeadByHead": (2, NO, YES),
    "FixedContext": (2, NO, YES),
    "Convolution": (0, LEAK, NO_MAP),
}


def made(layer_class, seed=0):
    names = layer_class.__init__.__code__.co_varnames[1 : layer_class.__init__.__code__.co_argcount]
    return seeded(layer_class, seed, **{name: SIZES[name] for name in names if name in SIZES})


@pytest.mark.parametrize("name", VERDICTS)
def test_the_verdicts_on_a_layer_that_is_not_ours(name):
    maps, future, sums = VERDICTS[name]
    state = look_at(made(getattr(other_layers, name)), SENTENCE.embeddings, seed=0, training=False)
    assert len(state.maps) == maps
    assert future in state.verdicts["reads the future?"]
    assert sums in state.verdicts["rows sum to 1?"]
    assert ("masked_fill in line" in state.verdicts["results nobody used"]) == (name == "MaskThrownAway")
    assert state.verdicts["takes fewer tokens?"].startswith("no: line" if name == "FixedContext" else "yes")


CAUSAL = "Einsum EinsumKeysFirst FusedCausal ByHand Renormalised HeadByHead Dropping"


@pytest.mark.parametrize("name", CAUSAL.split())
def test_the_maps_are_those_by_which_the_layer_mixes(name):
    """All of them have the same projections, so one softmax by the book serves as the truth for all."""
    layer, x = made(getattr(other_layers, name)).eval().double(), X.double()
    queries, keys, _ = layer.heads(x)
    scores = (queries @ keys.mT / 2**0.5).masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf)
    expected = torch.softmax(scores, dim=-1)[0].detach()
    maps = find_maps(layer, x).maps
    torch.testing.assert_close(torch.cat([found.used for found in maps]), expected)


def test_torchs_module_is_computed_again_as_it_would_return_its_weights():
    layer = made(other_layers.TorchModuleMasked).eval()
    hide = torch.ones(4, 4).triu(1).bool()
    _, expected = layer.attention(X, X, X, attn_mask=hide, average_attn_weights=False)
    [found] = find_maps(layer, X).maps
    torch.testing.assert_close(found.weights, expected[0].detach())


def test_torchs_module_has_its_weights_from_before_dropout_in_training_too():
    layer = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True)
    [found] = find_maps(lambda x: layer(x, x, x), X).maps
    torch.testing.assert_close(found.weights.sum(dim=-1), torch.ones(2, 4))


def test_weights_that_are_changed_in_place_are_followed():
    def layer(x):
        weights = (x @ x.mT).softmax(-1)
        weights[:, torch.ones(4, 4).triu(1).bool()] = 0
        weights /= weights.sum(-1, keepdim=True)
        return weights @ x

    [found] = find_maps(layer, X).maps
    expected = (X @ X.mT).softmax(-1).tril()
    torch.testing.assert_close(found.used, expected / expected.sum(-1, keepdim=True))


def test_a_masked_copy_of_the_weights_that_is_thrown_away_is_not_used():
    def layer(x):
        weights = (x @ x.mT).softmax(-1)
        weights.tril()
        context = weights @ x
        weights.triu()
        return context

    [found] = find_maps(layer, X).maps
    assert torch.equal(found.used, found.weights)
    assert found.used.all()


def test_scores_that_are_filled_in_one_by_one_still_follow_from_the_input():
    def layer(x):
        scores = torch.empty(1, x.shape[1], x.shape[1])
        for i in range(x.shape[1]):
            for j in range(x.shape[1]):
                scores[0, i, j] = x[0, i] @ x[0, j]
        return scores.softmax(-1) @ x

    [found] = find_maps(layer, X).maps
    torch.testing.assert_close(found.used, (X @ X.mT).softmax(-1))


def test_a_fused_call_is_computed_again_with_its_own_scale_and_mask():
    layer = made(other_layers.FusedFloat).eval()
    queries, keys, _ = layer.heads(X)
    expected = (queries @ keys.mT + torch.full((4, 4), -torch.inf).triu(1)).softmax(-1)[0].detach()
    [found] = find_maps(layer, X).maps
    torch.testing.assert_close(found.weights, expected)


def shares(table, total=1.0):
    return total * table / table.sum(-1, keepdim=True)


NO_MAPS = {
    "numbers below 0, though its rows sum to 1": lambda x: shares(x @ x.mT) @ x,
    "rows that sum to 1.01": lambda x: shares((x @ x.mT).exp(), 1.01) @ x,
    "complex numbers": lambda x: torch.complex(x @ x.mT, x @ x.mT).abs() @ x,
    "NaN all over": lambda x: (torch.nan * (x @ x.mT)).softmax(-1) @ x,
    "not from the input, in memory that was": lambda x: (
        [x.exp() for _ in range(9)] and shares(torch.ones(x.shape[1], x.shape[1]).tril()) @ x
    ),
    "not from the input": lambda x: shares(torch.ones(x.shape[1], x.shape[1]).tril()) @ x,
}


@pytest.mark.parametrize("layer", NO_MAPS.values(), ids=NO_MAPS)
def test_what_is_no_map(layer):
    assert find_maps(layer, X).maps == []


def test_a_mask_that_begins_two_diagonals_too_late_is_not_said_to_begin_one_too_late():
    assert HERE in mask_in_words([SimpleNamespace(used=torch.ones(1, 4, 4).tril(2))])


def test_grouped_heads_have_a_map_for_each_head_of_queries():
    by_hand, fused = (
        seeded(layer, 0, 4, 4, num_heads=4) for layer in (other_layers.Grouped, other_layers.GroupedFused)
    )
    torch.testing.assert_close(find_maps(by_hand, X).maps[0].used, find_maps(fused, X).maps[0].used)


def test_what_dropout_took_is_told_from_what_softmax_made():
    state = look_at(made(other_layers.Dropping), SENTENCE.embeddings, seed=3, training=True)
    assert torch.equal(state.shown, torch.where(state.shown == 0, 0.0, state.maps * 2))
    assert ((state.shown == 0) & (state.maps > 0)).any()
    still = look_at(made(other_layers.Dropping), SENTENCE.embeddings, seed=3, training=False)
    assert torch.equal(still.shown, still.maps)
    assert state.verdicts == still.verdicts  # of eval mode, both


@pytest.mark.parametrize(
    "layer_class", [SelfAttention_v1, SelfAttention_v2, CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper]
)
@pytest.mark.parametrize("qkv_bias", [False, True])
def test_the_courses_layers_are_equal_to_themselves(layer_class, qkv_bias, monkeypatch):
    monkeypatch.setitem(SIZES, "qkv_bias", qkv_bias)
    layer = made(layer_class).eval()
    assert on_the_course(layer, X, layer(X)) == f"equal to {layer_class.__name__} with the same weights"


def test_the_number_of_heads_can_come_from_elsewhere_if_it_divides_the_width():
    layer, bare = made(MultiHeadAttention).eval(), nn.Module()
    for name, part in layer.named_children():
        bare.add_module(name, part)
    assert on_the_course(bare, X, layer(X), 2) == "equal to MultiHeadAttention with the same weights"
    assert on_the_course(bare, X, layer(X), 3).startswith("not compared")


def test_a_layer_with_the_courses_parameters_and_other_numbers_is_told_by_how_much():
    layer = made(CausalAttention).eval()
    said = on_the_course(layer, X, layer(X) + 0.001)
    assert said == "its parameters fit CausalAttention, which returns other numbers: they differ by 0.001"
    wider = torch.cat([layer(X), layer(X)], dim=-1)
    for odd in (wider, layer(X) * torch.nan):
        assert on_the_course(layer, X, odd).endswith("another shape, or NaN is about")
    assert on_the_course(nn.Linear(4, 4), X, X).startswith("not compared: its parameters are those of no layer")


# What a learner may type, and what they are told.


class Mine(nn.Module):
    """A learner's layer, with a fault where one is asked for."""

    def __init__(self, d_in, d_out, num_heads, qkv_bias=False, dropout=0.1, fault=""):
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
        weights = (values @ values.mT).softmax(-1)
        return (weights @ values, weights) if self.fault == "tuple" else weights @ values


def test_controls_come_from_the_constructor():
    e = LayerExplorer(Mine, SENTENCE, fault="")
    assert list(e.controls) == ["d_out", "num_heads", "qkv_bias", "dropout", "training", "seed"]
    assert e.values["dropout"] == 0.1
    named = LayerExplorer(nn.MultiheadAttention, SENTENCE, batch_first=True, add_bias_kv=False)
    assert list(named.controls) == ["num_heads", "dropout", "bias", "add_zero_attn", "training", "seed"]
    assert len(named.arrays.maps) == 2


def test_heads_that_the_class_refuses_at_first_are_made_fewer():
    narrow = Sentence(["a", "b"], torch.ones(2, 3))
    assert LayerExplorer(nn.MultiheadAttention, narrow, batch_first=True).values["num_heads"] == 1


def test_an_error_is_shown_with_its_line_and_the_last_picture_stays():
    e = LayerExplorer(Mine, SENTENCE)
    before, arrays = e.svg, e.arrays
    e.controls["num_heads"].value = 3
    said = "⚠ your layer fails in line [0-9]+, `raise AssertionError(.*heads must divide.*)`: AssertionError: heads"
    assert re.search(said, e.message.value)
    assert (e.svg, e.arrays) == (before, arrays)
    e.controls["num_heads"].value = 1
    assert e.message.value == ""


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("name", r"your layer fails in line \d+, `return vlaues .*`: NameError: name 'vlaues' is not defined"),
        ("none", r"^layer must return one row per token, 4 in all, got NoneType$"),
    ],
)
def test_a_layer_that_fails_from_the_start_is_a_clear_error(fault, said):
    with pytest.raises(ValueError, match=said):
        LayerExplorer(Mine, SENTENCE, fault=fault)


def test_the_first_of_a_tuple_is_the_context_and_what_comes_with_it_counts_as_used():
    alone, both = (LayerExplorer(Mine, SENTENCE, fault=fault).arrays for fault in ("", "tuple"))
    assert torch.equal(alone.context, both.context)
    assert both.verdicts["results nobody used"] == "none"


def test_nothing_is_printed_and_no_random_number_moves(capsys):
    torch.manual_seed(99)  # another than the learner's own
    random_state = torch.get_rng_state()
    e = LayerExplorer(Mine, SENTENCE)
    e.set(d_out=8, training=False)
    assert capsys.readouterr().out == ""
    LayerExplorer(other_layers.AlwaysDropping, SENTENCE).set(seed=7)
    LayerExplorer(partial(nn.MultiheadAttention, dropout=0.5), SENTENCE, batch_first=True).set(seed=7)
    assert torch.equal(torch.get_rng_state(), random_state)


def test_the_seed_draws_what_manual_seed_would():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        expected = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True)
        torch.manual_seed(5)
        context = expected(X, X, X)[0]
    layer = seeded(nn.MultiheadAttention, 5, 4, 2, dropout=0.5, batch_first=True)
    with DrawnFrom(torch.Generator().manual_seed(5)):
        torch.testing.assert_close(layer(X, X, X)[0], context)


def test_the_influence_is_that_of_pokes():
    layer = seeded(MultiHeadAttention, 0, 4, 4, 6, 0.0, 2)
    state = look_at(layer, SENTENCE.embeddings, seed=0)
    assert torch.equal(state.influence, perturbation_influence(layer, SENTENCE.embeddings[None], 1.0))
    assert state.parameters == 4 * 4 * 4 + 4


@pytest.mark.parametrize(
    ("attention", "more", "said"),
    [
        (other_layers.Einsum, {"window": 3}, r"Einsum takes d_in, d_out, num_heads, got window=3"),
        (lambda d_in, window: None, {}, r"needs window: write LayerExplorer\(<lambda>, sentence, window=\.\.\.\)"),
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
    with pytest.raises(ValueError, match="<lambda> must make a layer that can be called, got 4"):
        LayerExplorer(lambda d_in: d_in, SENTENCE)


def sizes_of(explorer):
    sizes = [part.get("viewBox") for part in ET.fromstring(explorer.svg).iter() if part.get("viewBox")]
    assert len(sizes) == 3
    return sizes


@pytest.mark.parametrize("name", ["Convolution", "HidesTooMuch", "AlwaysDropping", "MaskThrownAway"])
def test_the_picture_has_one_size_whatever_the_layer(name):
    e = LayerExplorer(getattr(other_layers, name), SENTENCE)
    sizes = sizes_of(e)
    e.set(d_out=24)
    assert sizes_of(e) == sizes
    assert sizes_of(e) == sizes_of(LayerExplorer(Mine, SENTENCE))
    assert "nan" not in re.sub("NaN", "", e.svg + e.readout)
    assert ("no attention map was found" in e.svg) == (name == "Convolution")


def test_the_line_of_a_map_stands_in_the_readout_as_code():
    readout = LayerExplorer(other_layers.MaskThrownAway, SENTENCE).readout
    assert "`" not in readout
    assert re.search(r"softmax in line \d+, <code>[^<]*softmax[^<]*</code>", readout)


@pytest.mark.parametrize("again", [lambda weights: weights, shares], ids=["made", "made again"])
def test_a_map_keeps_the_weights_that_the_layer_changes_in_place_afterwards(again):
    def halved(x):
        weights = again((x @ x.transpose(-2, -1)).softmax(dim=-1))
        weights *= 0.5
        context = weights @ x
        weights.zero_()
        return context

    [found] = find_maps(halved, X).maps
    torch.testing.assert_close(found.weights.sum(dim=-1), torch.ones(1, 4))
    torch.testing.assert_close(found.used.sum(dim=-1), torch.full((1, 4), 0.5))


def test_a_layer_that_returns_nothing_is_told_so():
    class Empty(nn.Module):
        def __init__(self, d_in, d_out):
            super().__init__()

        def forward(self, x):
            return ()

    with pytest.raises(ValueError, match="got tuple"):
        LayerExplorer(Empty, SENTENCE)

"""Verdicts on layers that are not ours, right and wrong ones, and the headline that is made from them."""

import re

import other_layers
import pytest
import torch
from other_layers import made
from torch.nn import functional

from attention_helpers import (
    CausalAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttention_v1,
    SelfAttention_v2,
)
from attention_helpers.any_layer.inspection import look_at
from attention_helpers.any_layer.verdicts import headline
from attention_helpers.seeded import seeded

X = torch.randn(4, 4, generator=torch.Generator().manual_seed(1))  # as wide as long: a shape alone proves nothing

# For each layer: how many maps; its signs, in the order future, past, sums, unused, course, fewer, batch (one sign for
# all that can't be judged, if it's random or NaN); and the cause that its headline names.
ALL = "✓✓✓✓✓✓✓"
FUTURE, FINE = "It reads the future: ", "No fault found: it reads only the past, each token reads its whole past"
SCALE = "The scores' scale is wrong: times {}, they would match MultiHeadAttention".format
HEAD_BY_HEAD = """Einsum EinsumKeysFirst FusedCausal ByHand Dropping HeadByHead Causal WeightsFirst
    ScoresFirst HeadAfterHead"""
PROJECTED = "TorchModuleMasked Renamed KeysFirst OneMatrix"
LAYERS = {
    # sound ones, in many ways of writing
    **dict.fromkeys(HEAD_BY_HEAD.split(), (2, ALL, "computes what the course's MultiHeadAttentionWrapper")),
    **dict.fromkeys(PROJECTED.split(), (2, ALL, "computes what the course's MultiHeadAttention computes")),
    **dict.fromkeys(["Grouped", "GroupedFused", "Rotated"], (2, "✓✓✓✓?✓✓", f"{FINE}, rows sum to 1")),
    # the future
    "TorchModule": (2, "✗✓✓✓?✓✓", FUTURE + "no weight after the diagonal is 0"),
    "HalfLook": (1, "✗✓✓✓✓✓?", FUTURE + "no weight after"),
    "FusedWrongWay": (2, "✗?✓✓?✓✓", FUTURE + "its mask hides the past instead"),
    "ByHandMaskedLate": (2, "✗✓✓✓✓✓✓", FUTURE + "a large score there takes all: mask the scores before exp"),
    "Renormalised": (2, "✗✓✓✓✓✓✓", FUTURE + "a large score there takes all"),
    "MaskThrownAway": (2, "✗✓✓✗?✓✓", FUTURE + r"line \d+ computes masked_fill and throws it away"),
    "MaskedAfterwards": (2, "✗✓✗✓?✓✓", FUTURE + "its mask comes after softmax, which has counted"),
    "OneTooLate": (2, "✗✓✓✓?✓✓", FUTURE + "its mask begins one diagonal too late"),
    "OverTime": (2, "✗✓✗✓?✓✓", FUTURE + r"softmax in line \d+ runs over the queries"),
    "HeadsMixed": (2, "✗✗✓✓?✓✓", FUTURE + "its maps don't, so does a view or reshape"),
    "Convolution": (0, "✗??✓?✓✓", FUTURE + "row 0 moves by 0.64 when token 1 is set to zero"),
    # the past
    "ViewWithoutTranspose": (2, "✓✗✓✓?✓✓", "Tokens miss part of their past: token 3 never reads tokens 0, 1$"),
    "HeadsAsTokens": (0, "✓✗?✓?✓✓", "Each token reads only itself"),
    "Window": (2, "✓?✓✓?✓✓", "It has a sliding window of 2: each token reads itself and the token before it$"),
    # weights and scale
    "FusedFloat": (2, "✓✓✓✓✗✓✓", SCALE(0.707)),
    "Unscaled": (2, "✓✓✓✓✗✓✓", SCALE(0.707)),
    "ScaledByWidth": (2, "✓✓✓✓✗✓✓", SCALE(1.41)),
    "HidesTooMuch": (2, "✗✗✓✓", r"Row 0 is NaN: softmax in line \d+ makes the first NaN"),
    "OverHeads": (0, "✗?✓✓", r"Row 0 is NaN: softmax in line \d+ makes the first NaN"),
    # what's left
    "ProjectionForgotten": (2, "✓✓✓✗?✓✓", "A parameter is never used: o_proj.weight$"),
    "AlwaysDropping": (2, "✗✓✓✓", r"It's random in eval mode too: dropout in line \d+ stays on$"),
    "FixedContext": (2, "✓✓✓✓✓✗✓", r"It fails on fewer tokens: line \d+ raises RuntimeError$"),
    "OneSentence": (2, "✓✓✓✓✓✓✗", r"Sentences of a batch mix"),
    "TakesOne": (1, "✓✓✓✓✓✓✗", r"It fails on a batch of sentences: line \d+, `scores = torch.mm"),
    "WritesIntoItsInput": (2, "?✓✓✓", "can't be judged: layer must leave x as it is, but writes into it"),
}  # fmt: skip


def judged(layer, x=X):
    return look_at(layer, x, seed=0).verdicts


@pytest.mark.parametrize("name", LAYERS)
def test_the_verdicts_on_a_layer_that_is_not_ours(name):
    maps, signs, said = LAYERS[name]
    state = look_at(made(getattr(other_layers, name)), X, seed=0)
    assert len(state.maps) == maps
    assert "".join(verdict.sign for verdict in state.verdicts.values()) == signs
    assert re.search(said, headline(state.verdicts, name))


@pytest.mark.parametrize(("returned", "number"), [("WeightsFirst", 2), ("ScoresFirst", 2)])
def test_a_layer_is_judged_by_its_output_and_told_what_was_ignored(returned, number):
    expected, state = (look_at(made(getattr(other_layers, name)), X, seed=0) for name in ("Causal", returned))
    assert torch.equal(state.result, expected.result)
    assert torch.equal(state.influence, expected.influence)
    assert f"result {number} of 2" in state.ignored
    assert (state.returned, expected.ignored) == ((1, 4, 4), "")


@pytest.mark.parametrize(
    "layer_class", [SelfAttention_v1, SelfAttention_v2, CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper]
)
@pytest.mark.parametrize("qkv_bias", [False, True])
def test_the_courses_layers_are_equal_to_themselves(layer_class, qkv_bias):
    sign, _, words, cause = judged(made(layer_class, qkv_bias=qkv_bias))["course"]
    assert sign == "✓"
    assert re.search(rf"\b{layer_class.__name__}\b.* returns the same numbers", words)
    assert cause == f"computes what the course's {layer_class.__name__} computes"


class Shifted(CausalAttention):
    """One of the course's layers, and a little more, or wider."""

    def __init__(self, more, times=1):
        super().__init__(4, 4, 4, 0.0)
        self.more, self.times = more, times

    def forward(self, x):
        return torch.cat([super().forward(x) + self.more] * self.times, dim=-1)


def test_a_layer_with_the_courses_parameters_and_other_numbers_is_told_by_how_much():
    fits = "its parameters fit CausalAttention, but "
    assert judged(seeded(Shifted, 0, 0.001))["course"][::2] == ("?", f"{fits}the numbers differ by 0.001")
    assert judged(seeded(Shifted, 0, 0.0, 2))["course"][::2] == ("?", f"{fits}it returns another shape")
    assert judged(seeded(Shifted, 0, 1e-6))["course"].sign == "✓"  # rounding


@pytest.mark.parametrize("num_heads", [1, 2, 4])
def test_scores_of_any_scale_are_told_by_what_factor_they_match(num_heads):
    sign, _, words, _ = judged(made(other_layers.Unscaled, d_out=12, num_heads=num_heads))["course"]
    assert sign == "✗"
    assert float(re.search(r"times ([\d.]+)", words)[1]) == pytest.approx((12 // num_heads) ** -0.5, rel=0.01)


def test_what_cannot_be_compared_is_not_said_to_differ():
    sign, _, words, _ = judged(lambda x: functional.softmax(x @ x.mT, dim=-1) @ x)["course"]
    assert (sign, words) == ("?", "not compared: its parameters fit no layer of the course")

"""Verdicts on layers that are not ours, right and wrong ones, and the headline that is made from them."""

import inspect
import re

import other_layers
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from other_layers import made
from sizes import ALL as NAMES
from sizes import SIZES as ANY_SIZES
from torch.nn import functional
from torch.nn.functional import batch_norm

from attention_course.any_layer.inspection import look_at
from attention_course.any_layer.verdicts import headline
from attention_course.build import build_layer
from attention_helpers import layers

X = torch.randn(4, 4, generator=torch.Generator().manual_seed(1))  # as wide as long: a shape alone proves nothing

SOUND = "computes what the course's {}".format
WRAPPER, WHOLE = SOUND("MultiHeadAttentionWrapper"), SOUND("MultiHeadAttention computes")
FUTURE, FINE = "It reads the future: ", "No fault found: it reads only the past, each token reads its whole past"
SCALE = "The scores' scale is wrong: times {}, they would match MultiHeadAttention".format
LAYERS = {  # for each layer: how many maps, its signs except ✓, and what its headline says
    "TorchModuleMasked": (2, "", WHOLE),
    "Einsum": (2, "", WRAPPER),
    "FusedCausal": (2, "", WRAPPER),
    "ByHand": (2, "", WRAPPER),
    "Dropping": (2, "", WRAPPER),
    "Causal": (2, "", WRAPPER),
    "WeightsFirst": (2, "", WRAPPER),
    "WeightsLast": (2, "", WRAPPER),
    "Renamed": (2, "", WHOLE),
    "OverQueriesAndBack": (2, "", WRAPPER),
    "InOne": (2, "", WRAPPER),
    "SoftmaxOfOutput": (2, "•", FINE),
    "Grouped": (2, "", f"{FINE}, rows sum to 1"),
    "TorchModule": (2, "•", WHOLE + " without its mask$"),
    "HalfLook": (1, "•", SOUND("SelfAttention_v2 computes$")),
    "FusedWrongWay": (2, "✗?•", FUTURE + "its mask hides the past instead"),
    "Renormalised": (2, "✗", FUTURE + "a large score there takes all"),
    "MaskThrownAway": (2, "✗✗", FUTURE + r"line \d+ computes masked_fill and throws it away"),
    "MaskedAfterwards": (2, "✗✗•", FUTURE + "its mask comes after softmax, which"),
    "OneTooLate": (2, "✗•", FUTURE + "its mask begins one diagonal too late"),
    "OneHeadMasked": (2, "✗•", FUTURE + "its mask hides only some of it"),
    "OverTime": (2, "✗✗•", FUTURE + r"softmax in line \d+ runs over the queries"),
    "WeightsTurned": (2, "✗✗•", FUTURE + r"its weights are transposed by transpose in line \d+"),
    "HeadsMixed": (2, "✗✗✗", FUTURE + "the reshape in line .* mixes the rows"),
    "Convolution": (0, "✗•?", FUTURE + "conv1d in line"),
    "ViewWithoutTranspose": (2, "✗•", "Tokens miss part of their past: token 3 never reads tokens 0, 1; does "),
    "LastRowEmptied": (2, "✗•", "Tokens miss part of their past: token 3 never reads tokens 0.*3$"),
    "HeadsAsTokens": (0, "✗?", "only itself: .*; softmax in line .* runs over the heads of each token"),
    "TokensFirst": (2, "•", WHOLE + " with the tokens first$"),
    "OnlyItself": (2, "✗•", r"Each token reads only itself: no perturbation of another token moves a row$"),
    "OverFeatures": (0, "✗?✗", "Each token reads only itself"),
    "Unscaled": (2, "✗", SCALE(0.707)),
    "Exchanged": (2, "✗", "Queries and keys are exchanged: with `queries @ keys.T`, it would match Mul.*per$"),
    "ExchangedUnscaled": (2, "✗", "Queries and keys are exchanged: with `queries @ keys.T` times 0.707, it"),
    "DividedAfterwards": (2, "✗•", "Rows don't sum to 1: after softmax all weights are multiplied by 0.71$"),
    "Fading": (2, "✗•", "Rows don't sum to 1: after softmax some weights are changed$"),
    "OverHeads": (0, "✗✗", FUTURE + r"softmax in line \d+ runs over neither keys nor queries$"),
    "NoSoftmax": (0, "?", "No fault found, but no attention weights either: it reads only the past, ea.*past$"),
    "HidesTooMuch": (2, "✗", "Row 0 is NaN: softmax in .* makes the first NaN, because all"),
    "ReturnsWeights": (2, "✗✗", "It returns its attention weights: softmax in .*; return them times the values"),
    "ProjectionForgotten": (2, "✗•", "A parameter is never used: o_proj.weight$"),
    "AlwaysDropping": (2, "✗", r"random in eval mode too: dropout in line \d+ draws at each call"),
    "FusedDropping": (2, "✗", r"scaled_dot_product_attention in line \d+ draws at each call"),
    "Noisy": (2, "✗", r"mode too: randn_like in line \d+ draws at each call"),
    "HeadsInAList": (2, "✗✗", r"aren't registered: `parameters\(\)` lacks 60 trainable numbers, .*ModuleList"),
    "FixedContext": (2, "✗", r"It fails on fewer tokens: line \d+ raises RuntimeError$"),
    "OneSentence": (2, "✗", r"Sentences of a batch mix: next to other sentences, a row moves by 0.81$"),
    "TakesOne": (1, "✗", r"It fails on a batch of sentences: line \d+, `scores = torch.mm"),
    "WritesIntoItsInput": (2, "✗•", "It writes into its input"),
}  # fmt: skip


def judged(layer, x=X):
    return look_at(layer, x, seed=0).verdicts


@pytest.mark.parametrize("name", LAYERS)
def test_the_verdicts_on_a_layer_that_is_not_ours(name):
    maps, signs, said = LAYERS[name]
    state = look_at(made(getattr(other_layers, name)), X, seed=0)
    assert len(state.maps) == maps
    assert "".join(verdict.sign for verdict in state.verdicts.values()).replace("✓", "") == signs
    assert re.search(said, headline(state.verdicts, name))


STEPS = [  # one changed step of Causal, and what the headline says
    ("weights", lambda _, s: s.masked_fill(other_layers.future(len(s[0, 0]), 0), -1e9).softmax(-1), "diagonal too ear"),
    ("parts", lambda self, x: (self.to_q(x), self.to_v(x), self.to_k(x)), "Keys and values are exchanged: with"),
    (
        "join",
        lambda s, c: batch_norm(c[:, 0].mT, *torch.eye(2), training=s.training).mT,
        "^In training, .*: batch_norm",
    ),
]


@pytest.mark.parametrize(("method", "change", "said"), STEPS)
def test_a_fault_of_one_step_is_named(method, change, said):
    layer = made(other_layers.variant(other_layers.Causal, **{method: change}))
    assert re.search(said, headline(judged(layer, X[:3]), "Faulty"))


def test_a_headline_names_the_line_of_the_fault():
    source = [line.strip() for line in inspect.getsource(other_layers).splitlines()]
    said = headline(judged(made(other_layers.MaskThrownAway)), "")
    line = source.index("scores.masked_fill(future(scores.shape[-1]), -torch.inf)") + 1
    assert re.findall(r"line (\d+)", said) == [str(line)]


@pytest.mark.parametrize(("returned", "number"), [("WeightsFirst", 2), ("WeightsLast", 1)])
def test_a_layer_is_judged_by_its_output_and_says_by_which(returned, number):
    expected, state = (look_at(made(getattr(other_layers, name)), X, seed=0) for name in ("Causal", returned))
    assert torch.equal(state.result, expected.result)
    assert torch.equal(state.influence, expected.influence)
    assert f"(1, 4, 4) out (result {number} of 2)" in state.size
    assert "(1, 4, 4) out, 60 parameters" in expected.size


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("qkv_bias", [False, True])
def test_the_courses_layers_are_equal_to_themselves(name, qkv_bias):
    verdicts = judged(made(getattr(layers, name), qkv_bias=qkv_bias))
    assert verdicts["course"].sign == "✓"
    assert headline(verdicts, name) == f"{name} computes what the course's {name} computes"


@pytest.mark.parametrize(("change", "sign", "said"), [(1e-6, "✓", "the same"), (1e-3, "•", "differ by 0.001")])
def test_a_layer_with_the_courses_parameters_and_other_numbers_is_told_by_how_much(change, sign, said):
    layer = made(layers.CausalAttention)
    layer.register_forward_hook(lambda _, x, y: y + change)
    verdict = judged(layer)["course"]
    assert verdict.sign == sign
    assert said in verdict.words


class Masked(other_layers.Renamed):
    """Torch's fused function with any mask and scale; the parameters have names of their own."""

    def __init__(self, d_in, d_out, num_heads, keep, scale=None):
        super().__init__(d_in, d_out, num_heads)
        self.keep, self.scale = keep, scale

    def forward(self, x):
        n = x.shape[1]
        return self.o_proj(self.attended(x, attn_mask=self.keep[:n, :n], scale=self.scale))


def drawn(s):
    """A sentence of 2 to 7 tokens."""
    return s.draw(s.num_tokens + 1, s.d_in, dtype=torch.float32)


@given(s=ANY_SIZES, factor=st.sampled_from([0.1, 0.25, 0.5, 2.0, 3.0, 8.0]))
def test_scores_of_any_scale_are_told_by_what_factor_they_match(s, factor):
    assume(s.num_tokens > 1 and s.d_in > 1 and s.head_dim > 1)  # of a few numbers, the factor can't be measured
    keep = torch.ones(s.num_tokens + 1, s.num_tokens + 1).tril().bool()
    scaled = [build_layer(Masked, 0, s.d_in, s.d_out, s.num_heads, keep, f * s.head_dim**-0.5) for f in (factor, 1.0)]
    layer, right = (each(drawn(s)[None]) for each in scaled)
    assume((layer - right).abs().max() > 1e-3)  # scores near 0 look the same at any scale
    verdict = judged(scaled[0], drawn(s))["course"]
    found = re.match(r"times ([\d.]+), they would match MultiHeadAttention: they", verdict.words)
    assert verdict.sign == "✗"
    assert float(found[1]) == pytest.approx(1 / factor, rel=0.01)


@given(s=ANY_SIZES, width=st.integers(1, 7))
def test_a_window_of_any_width_is_named(s, width):
    places = torch.arange(s.num_tokens + 1)
    distance = places[:, None] - places
    keep = (distance >= 0) & (distance < width)
    verdict = judged(build_layer(Masked, 0, s.d_in, s.d_out, s.num_heads, keep), drawn(s))["past"]
    if torch.equal(keep, distance >= 0):
        assert verdict.sign == "✓"
    elif width == 1:
        assert (verdict.sign, verdict.claim) == ("✗", "Each token reads only itself")
    else:
        assert (verdict.sign, verdict.claim) == ("•", f"It has a sliding window of {width}")
        assert verdict.words.endswith(f" the {'token' if width == 2 else f'{width - 1} tokens'} before it")


@pytest.mark.parametrize(
    ("hides", "said"),
    [
        (lambda d: d // 3 != 0, "It has a sliding window of 3: each token reads itself and the 2 tokens before it"),
        (lambda d: (d < 0) | (d == 1), "No fault found, but token 3 never reads token 2"),
        (lambda d: (d < 0) | (d == 1) | (d == 3), "No fault found, but token 3 never reads tokens 0, 2"),
        (lambda d: d < -2, "It reads the future: its mask hides only some of it"),
    ],
)
def test_a_past_that_a_mask_hides_is_no_fault_but_said_and_a_late_mask_is_one(hides, said):
    distance = torch.arange(4)[:, None] - torch.arange(4)
    layer = build_layer(Masked, 0, 4, 4, 2, ~hides(distance))
    assert headline(judged(layer), "Masked") == said


def test_an_operation_is_not_blamed_for_what_another_does():
    def wasteful(x):
        x.exp()
        return (x @ x.mT).softmax(-1) @ x

    verdicts = judged(wasteful, X[:, :3])
    assert (verdicts["future"].sign, verdicts["future"].claim) == ("•", "It has no mask")
    assert re.match(r"exp in line \d+, `x.exp\(\)`$", verdicts["unused"].words)
    layer = made(other_layers.FusedCausal)
    layer.register_forward_hook(lambda _, x, y: functional.dropout(y, 0.5))
    assert re.search(r"too: dropout in line \d+ draws", headline(judged(layer), "FusedCausal"))


def test_what_cannot_be_compared_is_not_said_to_differ():
    for layer in (made(other_layers.Grouped), lambda x: functional.softmax(x @ x.mT, dim=-1) @ x):
        assert "course" not in judged(layer)

"""Kinds of layers that public code has: the right ones get no fault and no advice, and faults get their cause."""

import html
import inspect
import random
import re

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from other_layers import (
    CUT,
    DROPPED,
    JOINED,
    MASKED,
    OWN,
    PARTS,
    PROJECTION,
    RESIDUAL,
    RESULT,
    RIGHT,
    SCALED,
    SOFTMAX,
    UNMASKED,
    fused,
    future,
    layer_with,
    make_layer,
    more,
)  # fmt: skip
from sizes import ALL, SIZES
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

from attention_course.any_layer.calling import Unsuited
from attention_course.any_layer.inspection import look_at
from attention_course.any_layer.verdicts import headline
from attention_course.build import build_layer
from attention_course.explorers import LayerExplorer
from attention_helpers import Sentence, find_leak, influence, layers

X = torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
SENTENCE = Sentence([*"abcde"], X)


def verdicts_on(layer, x=X):
    return look_at(layer, x, seed=0).verdicts


def said_of(layer, x=X):
    return headline(verdicts_on(layer, x), "Mine")


def faults(layer, x=X):
    return [verdict for verdict in verdicts_on(layer, x).values() if verdict.sign in "✗?"]


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("num_tokens", [2, 4, 5])
def test_a_right_layer_has_no_fault_and_gets_no_advice(name, num_tokens):
    edits, said = RIGHT[name]
    x = X[:num_tokens, : 4 if num_tokens == 4 else 8]  # as wide as long: a shape alone proves nothing
    verdicts = verdicts_on(make_layer(*edits, width=x.shape[1]), x)
    assert [verdict for verdict in verdicts.values() if verdict.sign in "✗?"] == []
    assert re.search(said, headline(verdicts, "Mine"))


@pytest.mark.parametrize("edits", [(), OWN])
def test_a_right_layer_in_half_precision_has_no_fault(edits):
    layer = make_layer(*edits).bfloat16()
    assert faults(layer, X.bfloat16()) == []
    assert verdicts_on(layer)["future"].sign != "✗"  # float32 is cast to what the layer has


@pytest.mark.parametrize("seed", range(3))
def test_a_sharp_softmax_is_no_fault_and_hides_no_wrong_scale(seed):
    x = torch.randn(6, 8, generator=torch.Generator().manual_seed(seed))
    unscaled = SCALED, "q @ k.mT"
    for edits, size, said in ((), 9, "computes what"), (unscaled, 3, "The scores' scale is wrong: times 0.5"):
        layer = make_layer(*edits)
        for parameter in layer.parameters():
            parameter.data *= size
        assert said in said_of(layer, x)
        assert [verdict.claim for verdict in faults(layer, x)] == ["The scores' scale is wrong"] * bool(edits)


@pytest.mark.parametrize("name", ALL)
def test_the_courses_layers_are_equal_to_themselves(name):
    sizes = {"context_length": 8, "dropout": 0.0, "num_heads": 2, "qkv_bias": True}
    takes = inspect.signature(getattr(layers, name)).parameters
    layer = build_layer(getattr(layers, name), 0, 8, 8, **{key: size for key, size in sizes.items() if key in takes})
    assert headline(verdicts_on(layer), name) == f"{name} computes what the course's {name} computes"


@pytest.mark.parametrize(("change", "said"), [(1e-6, "the same"), (1e-3, "differ by 0.001")])
def test_other_numbers_than_the_courses_are_told_by_how_much(change, said):
    assert said in verdicts_on(make_layer(RESULT, f"return context + {change}"))["course"].words


GETS = "def forward(self, x)", "def forward(self, {})".format
CALLED = {  # how `forward` can be called
    "values, keys, x, mask=None": (),
    "x, context": (RESULT, "return context + 0 * x.sum()"),
    "x, *, memory": (RESULT, "return context + 0 * memory"),
    "x, attn_mask": (MASKED, "scores.masked_fill(attn_mask, -torch.inf)"),
    "x, mask": (MASKED, "scores.masked_fill(mask.view(b, 1, *mask.shape[1:]) == 0, -torch.inf)"),
    "x, key_padding_mask": (RESULT, "return context if key_padding_mask is None else 1 / 0"),
    "x, key_value_states": (),
}


@pytest.mark.parametrize("arguments", CALLED)
def test_forward_gets_the_sentence_by_any_name_and_the_mask_that_it_needs(arguments):
    layer = make_layer(*CALLED[arguments], GETS[0], GETS[1](arguments))
    assert faults(layer) == []
    assert verdicts_on(layer)["future"].sign == "✓"


def test_what_forward_needs_besides_is_no_fault_of_the_class():
    message = html.unescape(LayerExplorer(layer_with(GETS[0], GETS[1]("x, cos, sin")), SENTENCE).message)
    assert re.search(r"Layer's forward also needs cos, sin.*super\(\).forward\(x, cos, sin\)", message)
    assert "Fix it" not in message


def test_the_mask_that_would_hide_the_future_is_named():
    said = said_of(build_layer(nn.MultiheadAttention, 0, 8, 2, batch_first=True, bias=False))
    assert said.endswith("course's MultiHeadAttention computes without its mask: `forward` got no `attn_mask`")


@pytest.mark.slow  # loads the compiler
def test_a_compiled_layer_is_judged_as_it_was_written_and_flex_attention_gets_one_sentence():
    assert "computes what" in said_of(torch.compile(make_layer(), backend="eager"))
    with pytest.raises(Unsuited, match="can't look inside flex_attention"):
        look_at(lambda x: flex_attention(x[None], x[None], x[None])[0], X, 0)


# Faults, each with what the headline says of it.


def filled(value):
    return MASKED, MASKED.replace("-torch.inf", value)


def hiding(mask):
    return "future(n)", mask


def dropping(weights):
    return DROPPED, weights


KEPT = "(torch.rand_like(scores) > self.p if self.training else 1)"
SCRAMBLED = JOINED, "context.reshape(b, n, -1)"
LAST = "torch.arange(n) == n - 1"
NO_GRADIENT = "A parameter gets no gradient: {}".format
OTHER_SCALE = "In training, its weights have another scale: .* {}".format
WRONG = {
    "thrown away": ((MASKED, f"scores; {MASKED}"), r"line \d+ computes masked_fill and throws it away"),
    "-1e4": (filled("-1e4"), r"It reads the future: it hides by a score of -1e\+04, not far"),
    "times 0": ((MASKED, "scores.tril()"), "it hides by a score of 0,"),
    "softcap after the mask": ((SOFTMAX, "(20 * torch.tanh(scores / 20)).softmax(-1)"), "it hides by a score of -20,"),
    "the past hidden": (hiding(f"~(future(n) | torch.diag({LAST}))"), "its mask hides the past instead"),
    "0 and 1 added": (fused("attn_mask=torch.ones(n, n).tril()"), "adds its mask of 0 and 1"),
    "renormalised after the mask": (
        (*UNMASKED, DROPPED, "(w := weights.tril()) / w.sum(-1, keepdim=True)"), "a large score there takes all",
    ),
    "masked afterwards": ((*UNMASKED, DROPPED, "weights.tril()"), "its mask comes after softmax, which has counted"),
    "too late": (hiding("future(n, 2)"), "its mask begins one diagonal too late"),
    "too early": ((*hiding("future(n, 0)"), "-torch.inf", "-1e9"), "one diagonal too early"),
    "one head masked": (hiding("future(n) & torch.tensor([True, False]).view(2, 1, 1)"), "its mask hides only some of"),
    "over the queries": ((*UNMASKED, SOFTMAX, "scores.softmax(-2)"), r"softmax in line \d+ runs over the queries, not"),
    "over the heads": ((*UNMASKED, SOFTMAX, "scores.softmax(1)"), "softmax in line .* runs over neither keys nor quer"),
    "leaks in training": (
        (MASKED, f"scores if self.training else {MASKED}"), r"^In training, .*reads the future: softmax in line \d+",
    ),
    "leaks in eval": ((MASKED, f"{MASKED} if self.training else scores"), "^In eval mode, it reads the future"),
    "normed over tokens": (
        (DROPPED, "weights", RESULT,
         "return F.batch_norm(context[0], *torch.ones(2, 8), training=self.training)[None]"),
        "^In training, .*: batch_norm",
    ),
    "turned by mT": ((SOFTMAX, "scores.softmax(-1).mT"), "its weights are transposed by mT in"),
    "turned by einsum": (
        ("weights @ v", "torch.einsum('...qk,...qd->...kd', weights, v)"), "transposed by einsum in line",
    ),
    "turned, values first": (("weights @ v", "(v.mT @ weights).mT"), "transposed by matmul"),
    "summed": (("weights @ v", "(weights[..., None] * v[:, :, :, None]).sum(2)"), "sum in line"),
    "all heads' values": (
        ("weights @ v", "torch.einsum('bhqk,bgkd->bhqd', weights, v)"),
        r"A product sums too much: einsum in line \d+ adds the values of 2 heads",
    ),
    "heads mixed": (SCRAMBLED, "It reads the future: the reshape in line .* mixes the rows"),
    "heads mixed, unmasked": ((*SCRAMBLED, *UNMASKED), r"joined without a transpose: .*; it's the reshape"),
    "heads mixed, with a residual": ((*SCRAMBLED, *UNMASKED, *RESIDUAL), "the reshape in line"),
    "heads cut by view": (
        (*SCRAMBLED, CUT, "part.view(b, self.num_heads, n, -1)"), "Tokens miss .*; does the view in line .* need a",
    ),
    "a mean over the tokens": ((RESULT, "return context * context.mean(1, keepdim=True)"), r"mean in line \d+ mixes"),
    "the last row emptied": (
        (RESULT, f"return context * ~({LAST})[:, None]"), "Tokens miss part of their past: token 4 never",
    ),
    "within tokens": (
        (*UNMASKED, CUT, CUT.replace(".transpose(1, 2)", ""), JOINED, "context.flatten(2)"), "only itself: .*; softmax",
    ),
    "only itself": (hiding("~torch.eye(n).bool()"), "only itself: no perturbation .* a row$"),
    "unscaled": ((SCALED, "q @ k.mT"), "scale is wrong: times 0.5, they would match Multi"),
    "exchanged": ((SCALED, "k @ q.mT / 2"), "Queries and keys are exchanged: with `queries @ keys.T`, it"),
    "exchanged, unscaled": ((SCALED, "k @ q.mT"), "with `queries @ keys.T` times 0.5, it would"),
    "values exchanged": ((PARTS, "self.to_q(x), self.to_v(x), self.to_k(x)"), "Keys and values are exchanged: with"),
    "divided afterwards": (dropping("weights / 2"), "all weights are multiplied by 0.5$"),
    "fading": (dropping("weights * 0.9 ** torch.arange(n)"), "sum to 1: after softmax some weights are changed$"),
    "no softmax": ((SOFTMAX, "scores.exp() / 9"), "^No fault found, but no attention weights either"),
    "all hidden": (hiding("future(n, 0)"), "Row 0 is NaN: softmax in .* makes the first NaN, b"),
    "returned weights": ((RESULT, "return weights.mean(1)"), "It returns its attention weights: softmax in .* times"),
    "a forgotten projection": (PROJECTION, "A parameter is never used: o_proj.weight$"),
    "keys as values": (
        (*OWN, "scores = q @", "v = k; scores = q @"), "A result is never used|1 of 3 parts of `qkv` have no effect",
    ),
    "always dropping": (dropping("F.dropout(weights, 0.01)"), r"random in eval mode too: dropout in line \d+ draws"),
    "fused dropping": (fused("is_causal=True, dropout_p=0.1"), "scaled_dot_product.* draws at each"),
    "heads in a list": (
        (*more("del self.to_q; self.lost = [nn.Linear(d_in, d_out)]"), PARTS, PARTS.replace("to_q", "lost[0]")),
        r"aren't registered: `parameters\(\)` lacks 72 trainable numbers",
    ),
    "a fixed mask": (hiding("future(5)"), "It fails on fewer tokens: line .* raises RuntimeErr"),
    "one sentence": ((CUT, "part.view(1, n, 2, -1).transpose(1, 2)"), "Sentences of a batch mix: next to other sent"),
    "takes one": (
        (RESULT, "return torch.mm(context.squeeze(0), torch.eye(8))[None]"), r"It fails on a batch .*: line \d+",
    ),
    "writes": (("b, n, _ = x.shape", "b, n, _ = x.add_(1).shape"), "It writes into its input"),
    "counts": (
        (*more("self.calls = 0"), RESULT, "self.calls += 1; return context * self.calls"),
        "^It keeps something between calls: .*`calls`",
    ),
    "softmax twice": (dropping("weights.softmax(-1)"), "^Softmax runs twice: .* already made"),
    "drops scores": (
        (SOFTMAX, "F.dropout(scores, self.p, self.training).softmax(-1)"), "^In training, it drops scores: dropout in",
    ),
    "drops without dividing": (dropping(f"weights * {KEPT}"), OTHER_SCALE("aren't")),
    "drops twice": (
        dropping(f"{DROPPED} * {KEPT}"), OTHER_SCALE("both drop weights, and their sum is 0.8 of what it was"),
    ),
    "divides by p": (dropping(f"weights * {KEPT} / (self.p or 1)"), OTHER_SCALE("by p, not by 1 - p")),
    "renormalises": (
        dropping(f"(w := {DROPPED}) / w.sum(-1, keepdim=True)"), "^In training with dropout, .*is NaN: div",
    ),
    "another scale in training": ((SCALED, f"{SCALED} / (1 + self.training)"), "in training, without dropout, rows"),
    "queries cut": ((SCALED, f"q.detach(){SCALED[1:]}"), NO_GRADIENT("detach in .*, so to_q.weight, to_q.bias can't")),
    "x cut": ((PARTS, PARTS.replace("x", "x.detach()")), "gradients of x aren't"),
    "rounded": ((SCALED, f"({SCALED} * 8).round() / 8"), NO_GRADIENT("some step's slope is 0 every")),
    "argmax": ((SOFTMAX, "F.one_hot(scores.argmax(-1), n).float()"), NO_GRADIENT("argmax")),
    "turned along the heads": (
        (SCALED, f"1; q, k = (part * torch.tensor([[[1.0]], [[-1.0]]]) for part in (q, k)); scores = {SCALED}"),
        "mul in line .* multiplies by numbers that differ from place",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_is_named_with_its_cause(name):
    edits, said = WRONG[name]
    verdicts = verdicts_on(make_layer(*edits))
    assert re.search(said, headline(verdicts, "Mine"))
    assert not {("future", "✗"), ("course", "✓")} <= {(topic, each.sign) for topic, each in verdicts.items()}


HIDDEN = {"the past": "~future(n)", "all": "future(n, -n)", "the diagonal": "future(n, 0)"}


@pytest.mark.parametrize("name", HIDDEN)
def test_no_second_fault_contradicts_the_picture(name):
    verdicts = verdicts_on(make_layer(*hiding(HIDDEN[name]), DROPPED, "weights.nan_to_num(0.0)")).values()
    said = " ".join(f"{verdict.claim} {verdict.words}" for verdict in verdicts)
    assert "multiplied by 1" not in said
    assert name != "the past" or "reads only itself" not in said


def test_an_operation_is_not_blamed_for_what_another_does():
    def wasteful(x):
        x.exp()
        return (x @ x.mT).softmax(-1) @ x

    verdicts = verdicts_on(wasteful)
    assert (verdicts["future"].sign, verdicts["future"].claim) == ("•", "It has no mask")
    line = inspect.getsourcelines(wasteful)[1] + 1
    assert verdicts["unused"].words == f"exp in line {line}, `x.exp()`"


@pytest.mark.parametrize(("name", "number"), [("weights first", 2), ("weights last", 1)])
def test_a_layer_is_judged_by_its_output_and_says_by_which(name, number):
    expected, state = (look_at(make_layer(*edits), X, seed=0) for edits in ((), RIGHT[name][0]))
    assert torch.equal(state.result, expected.result)
    assert torch.equal(state.influence, expected.influence)
    assert f"(1, 5, 8) out (result {number} of 2)" in state.size


def masked_by(s, keep, scale=None):
    """torch's fused function with any mask and scale."""
    layer_class = layer_with(
        *fused("self.keep[:n, :n], scale=self.scale"), *PROJECTION, RESULT, "return self.o_proj(context)"
    )
    layer = build_layer(layer_class, 0, s.d_in, s.d_out, s.num_heads)
    layer.keep, layer.scale = keep, scale
    return layer


def draw(s):
    """A sentence of 2 to 7 tokens."""
    return s.draw(s.num_tokens + 1, s.d_in, dtype=torch.float32)


@given(s=SIZES, factor=st.sampled_from([0.1, 0.25, 0.5, 2.0, 3.0, 8.0]))
def test_scores_of_any_scale_are_told_by_what_factor_they_match(s, factor):
    assume(s.num_tokens > 1 and s.d_in > 1 and s.head_dim > 1)  # of a few numbers, the factor can't be measured
    layer, right = (masked_by(s, ~future(s.num_tokens + 1), f * s.head_dim**-0.5) for f in (factor, 1.0))
    assume((layer(draw(s)[None]) - right(draw(s)[None])).abs().max() > 1e-3)  # near 0, they look the same at any scale
    verdict = verdicts_on(layer, draw(s))["course"]
    found = re.match(r"times ([\d.]+), they would match MultiHeadAttention: they", verdict.words)
    assert verdict.sign == "✗"
    assert float(found[1]) == pytest.approx(1 / factor, rel=0.01)


@given(s=SIZES, width=st.integers(1, 7))
def test_a_window_of_any_width_is_named(s, width):
    places = torch.arange(s.num_tokens + 1)
    distance = places[:, None] - places
    keep = (distance >= 0) & (distance < width)
    verdict = verdicts_on(masked_by(s, keep), draw(s))["past"]
    expected = ("✗", "Each token reads only itself") if width == 1 else ("•", f"It has a sliding window of {width}")
    assert verdict[:2] == (("✓", "Each token reads its whole past") if torch.equal(keep, distance >= 0) else expected)


def test_what_a_mask_hides_of_the_past_is_no_fault_but_said():
    layer = make_layer(*hiding("future(n) | torch.diag(torch.ones(n - 1), -1).bool()"))
    assert said_of(layer) == "No fault found, but token 4 never reads token 3"


def test_scripted_modules_are_refused_and_lazy_ones_are_judged():
    lazy = layer_with("nn.Linear(d_in, d_out)", "nn.LazyLinear(d_out)")
    assert "computes what" in LayerExplorer(lazy, SENTENCE, d_out=8).said
    message = LayerExplorer(lambda: torch.jit.trace(nn.Linear(8, 8), X[None]), SENTENCE).message
    assert "look inside a scripted or traced module" in message
    assert "Fix it" not in message


def test_find_leak_starts_from_larger_sentences_too():
    for seed in range(5):
        assert "times as large" in find_leak(make_layer(*filled("-100.0"), seed=seed), X[None]).what
        assert not find_leak(make_layer(seed=seed), 100 * X[None])


# Names, and the first state.


def test_names_of_public_code_get_sliders_and_a_config_too():
    layer_class = layer_with()
    assert list(LayerExplorer(lambda h, num_hiddens: layer_class(num_hiddens, num_hiddens, h), SENTENCE).controls) == [
        "h", "training", "seed",
    ]  # fmt: skip

    class Configured(layer_class):
        def __init__(self, config):
            super().__init__(config.n_embd, config["hidden_size"], config.num_attention_heads)
            self.drop = nn.Dropout(getattr(config, "drop_rate", 0.1) + getattr(config, "no_such_size", 0))

    e = LayerExplorer(Configured, SENTENCE)
    assert list(e.controls) == ["num_attention_heads", "drop_rate", "training", "seed"]
    e.set(num_attention_heads=4)
    assert len(e.arrays.maps) == 4
    chosen = LayerExplorer(lambda a, b: layer_class(8, a, b), SENTENCE, a=8, b=[2, 4])
    chosen.controls["b"].value = 4
    assert len(chosen.arrays.maps) == 4


class Rotary(layer_with("b, n, _ = x.shape", "b, n, d = x.shape; assert d // self.num_heads % 2 == 0, 'odd'")):
    """Refuses odd heads, and keys' heads that don't divide the others."""

    def __init__(self, dim, heads=8, n_kv_heads=2):
        assert dim % heads == 0
        assert heads % n_kv_heads == 0
        super().__init__(dim, dim, heads)


@pytest.mark.parametrize("width", [3, 6, 7, 8])
def test_sizes_that_we_chose_are_not_blamed(width):
    e = LayerExplorer(Rotary, Sentence([*"abcde"], torch.randn(5, width)))
    assert "Fix it" not in e.message
    assert ("but width 8 runs" in e.message) == (width % 2 == 1)
    assert ("computes what" in e.said) == (width % 2 == 0)
    assert width != 8 or e.values["heads"] == 4  # not one wide


def test_a_wrong_scale_is_seen_where_heads_are_one_wide():
    unscaled = layer_with(SCALED, "q @ k.mT")
    e = LayerExplorer(lambda dim, heads=2: unscaled(dim, dim, heads), Sentence([*"abcde"], X[:, :7]))
    assert e.values["heads"] == 7
    assert "The scores' scale is wrong" in e.said


# What stays as it was.


class Disturbing(layer_with()):
    """Its forward changes all that it can reach."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.seen, self.norm = [], nn.BatchNorm1d(8)
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x):
        torch.manual_seed(3)
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        random.random()
        np.random.random()
        self.count += 1
        self.seen.append(len(self.seen))
        self.last = x
        self.to_q.weight.data = self.to_q.weight.data * 1.0
        self.to_k.register_forward_hook(lambda *_: None)
        self.norm.train()(x.flatten(0, 1).float())
        return super().forward(x) + self.count.sum() * 0


def everything(layer):
    state = {name: each.tolist() for name, each in layer.state_dict().items()}
    modes, hooks = [each.training for each in layer.modules()], len(layer.to_k._forward_hooks)
    drawn = torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()
    own = sorted(vars(layer)), layer.seen.copy(), layer.to_q.weight.data_ptr()
    return state, modes, hooks, drawn, own, torch.is_grad_enabled(), torch.get_default_dtype()


PROBES = {
    "find_leak": lambda layer: find_leak(layer, X[None]),
    "influence": lambda layer: influence(layer, X[None]),
    "LayerExplorer": lambda layer: LayerExplorer(lambda d_in: layer, SENTENCE).set(training=False),
}


@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize("training", [True, False])
def test_nothing_is_changed_in_the_notebook(name, training):
    layer = build_layer(Disturbing, 0, 8, 8, 2)
    layer.train(training)
    before = everything(layer)
    PROBES[name](layer)
    assert everything(layer) == before

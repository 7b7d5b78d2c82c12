"""Kinds of layers that public code has: the right ones get no fault and no advice, and faults get their cause."""

import html
import inspect
import random
import re

import numpy as np
import other_layers as other
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from other_layers import RIGHT, Causal, Fused, Own, Renamed, Unmasked, drop, fill, future, make_layer, residual, variant
from sizes import ALL, SIZES
from torch import nn
from torch.nn import functional
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
    layer_class, said = RIGHT[name]
    x = X[:num_tokens, : 4 if num_tokens == 4 else 8]  # as wide as long: a shape alone proves nothing
    verdicts = verdicts_on(make_layer(layer_class, x.shape[1]), x)
    assert [verdict for verdict in verdicts.values() if verdict.sign in "✗?"] == []
    assert re.search(said, headline(verdicts, "Mine"))


@pytest.mark.parametrize("base", [Own, Causal])
def test_a_right_layer_in_half_precision_has_no_fault(base):
    layer = make_layer(base).bfloat16()
    assert faults(layer, X.bfloat16()) == []
    assert verdicts_on(layer)["future"].sign != "✗"  # float32 is cast to what the layer has


@pytest.mark.parametrize("seed", range(6))
def test_a_sharp_softmax_is_no_fault_and_hides_no_wrong_scale(seed):
    x = torch.randn(6, 8, generator=torch.Generator().manual_seed(seed))
    unscaled = {"scaled": lambda _, scores, __: scores}
    for steps, size, said in ({}, 9, "computes what"), (unscaled, 3, "The scores' scale is wrong: times 0.5"):
        layer = make_layer(variant(Causal, **steps))
        for parameter in layer.parameters():
            parameter.data *= size
        assert said in said_of(layer, x)
        assert [verdict.claim for verdict in faults(layer, x)] == ["The scores' scale is wrong"] * bool(steps)


@pytest.mark.parametrize("name", ALL)
def test_the_courses_layers_are_equal_to_themselves(name):
    sizes = {"context_length": 8, "dropout": 0.0, "num_heads": 2, "qkv_bias": True}
    takes = inspect.signature(getattr(layers, name)).parameters
    layer = build_layer(getattr(layers, name), 0, 8, 8, **{key: size for key, size in sizes.items() if key in takes})
    assert headline(verdicts_on(layer), name) == f"{name} computes what the course's {name} computes"


@pytest.mark.parametrize(("change", "said"), [(1e-6, "the same"), (1e-3, "differ by 0.001")])
def test_other_numbers_than_the_courses_are_told_by_how_much(change, said):
    layer = make_layer(Causal)
    layer.register_forward_hook(lambda _, x, y: y + change)
    assert said in verdicts_on(layer)["course"].words


def attend(self, x, context):
    return Causal.forward(self, x) + 0 * context


def hide(self, x, mask):
    q, k, v = self.heads(x)
    return self.join((q @ k.mT / 2).masked_fill(mask, -torch.inf).softmax(-1) @ v)


def expect_none(self, x, mask):
    return Causal.forward(self, x) if mask is None else mask.no_such_thing


CALLED = {  # how `forward` can be called
    "values first": lambda s, values, keys, query, mask=None: Causal.forward(s, query),
    "context": attend,
    "memory": lambda s, tgt, *, memory: attend(s, tgt, memory),
    "a mask that hides": lambda s, x, attn_mask: hide(s, x, attn_mask),
    "a mask that keeps": lambda s, x, mask: hide(s, x, ~mask),
    "a mask for each sentence": lambda s, x, mask: hide(s, x, ~mask.view(len(x), 1, *mask.shape[1:])),
    "a mask that's None": expect_none,
    "padding's mask too": lambda s, x, key_padding_mask: expect_none(s, x, key_padding_mask),
    "a config's names": lambda s, hidden_states, key_value_states: Causal.forward(s, hidden_states),
}


@pytest.mark.parametrize("name", CALLED)
def test_forward_gets_the_sentence_by_any_name_and_the_mask_that_it_needs(name):
    layer = make_layer(variant(Causal, forward=CALLED[name]))
    assert faults(layer) == []
    assert verdicts_on(layer)["future"].sign == "✓"


def test_what_forward_needs_besides_is_no_fault_of_the_class():
    rotary = variant(Causal, forward=lambda s, x, cos, sin: Causal.forward(s, x))
    message = html.unescape(LayerExplorer(rotary, SENTENCE).message)
    assert re.search(r"Variant's forward also needs cos, sin.*super\(\).forward\(x, cos, sin\)", message)
    assert "Fix it" not in message


def test_the_mask_that_would_hide_the_future_is_named():
    said = said_of(build_layer(nn.MultiheadAttention, 0, 8, 2, batch_first=True, bias=False))
    assert said.endswith("course's MultiHeadAttention computes without its mask: `forward` got no `attn_mask`")


@pytest.mark.slow  # loads the compiler
def test_a_compiled_layer_is_judged_as_it_was_written_and_flex_attention_gets_one_sentence():
    assert "computes what" in said_of(torch.compile(make_layer(Causal), backend="eager"))
    flex = make_layer(variant(Causal, forward=lambda s, x: s.join(flex_attention(*s.heads(x)))))
    with pytest.raises(Unsuited, match="can't look inside flex_attention"):
        look_at(flex, X, 0)


# Faults, each with what the headline says of it.

NO_GRADIENT = "A parameter gets no gradient: {}".format
OTHER_SCALE = "In training, its weights have another scale: .* {}".format
WRONG = {
    "thrown away": (Unmasked, {"weights": other.throw_away}, r"line \d+ computes masked_fill and throws it away"),
    "-1e4": (Causal, fill(-1e4), r"It reads the future: it hides by a score of -1e\+04, not far"),
    "times 0": (Causal, {"masked": lambda _, s: s.tril()}, "it hides by a score of 0,"),
    "-1e4 added": (Causal, {"masked": lambda _, s: s - 1e4 * future(s.shape[-1])}, "it hides by a score of -"),
    "softcap after the mask": (
        Causal, {"weights": lambda _, s: (20 * torch.tanh(s / 20)).softmax(-1)}, "it hides by a score of -20,",
    ),
    "the past hidden": (Fused, {"options": {"attn_mask": other.hide_last(5)}}, "its mask hides the past instead"),
    "0 and 1 added": (Fused, {"options": {"attn_mask": torch.ones(5, 5).tril()}}, "adds its mask of 0 and 1"),
    "renormalised after the mask": (Unmasked, {"weights": other.renormalise}, "a large score there takes all"),
    "masked afterwards": (Unmasked, {"weights": lambda _, s: s.softmax(-1).tril()}, "its mask comes after softmax, w"),
    "too late": (Causal, {"hidden": lambda _, n: future(n, 2)}, "its mask begins one diagonal too late"),
    "too early": (
        Causal, {"masked": lambda _, s: s.masked_fill(future(s.shape[-1], 0), -1e9)}, "one diagonal too early",
    ),
    "one head masked": (Causal, {"hidden": other.mask_one_head}, "its mask hides only some of it"),
    "over the queries": (Unmasked, {"weights": lambda _, s: s.softmax(-2)}, r"softmax in line \d+ runs over the quer"),
    "over the heads": (Unmasked, {"weights": lambda _, s: s.softmax(1)}, "runs over neither keys nor queries$"),
    "leaks in training": (
        Causal, {"masked": lambda s, t: t if s.training else Causal.masked(s, t)},
        r"^In training, .*: softmax in line \d+ has no mask",
    ),
    "leaks in eval": (
        Causal, {"masked": lambda s, t: Causal.masked(s, t) if s.training else t}, "^In eval mode, it reads the future",
    ),
    "normed over tokens": (
        Causal,
        {"join": lambda s, c: functional.batch_norm(c[:, 0].mT, *torch.ones(2, 4), training=s.training).mT},
        "^In training, .*: batch_norm",
    ),
    "turned by transpose": (Causal, {"weights": lambda _, s: s.softmax(-1).mT}, "its weights are transposed by mT in"),
    "turned by einsum": (
        Causal, {"mix": lambda _, w, v: torch.einsum("...qk,...qd->...kd", w, v)}, "transposed by einsum",
    ),
    "turned, values first": (Causal, {"mix": lambda _, w, v: (v.mT @ w).mT}, "transposed by matmul"),
    "summed": (Causal, {"mix": lambda _, w, v: (w[..., None] * v[:, :, :, None]).sum(2)}, "sum in line"),
    "all heads' values": (
        Causal, {"mix": lambda _, w, v: torch.einsum("bhqk,bgkd->bhqd", w, v)},
        r"A product sums too much: einsum in line \d+ adds the values of 2 heads",
    ),
    "heads mixed": (Causal, {"join": other.scramble}, "It reads the future: the reshape in line .* mixes the rows"),
    "heads mixed, unmasked": (Unmasked, {"join": other.scramble}, r"joined without a transpose: .*; it's the reshape"),
    "heads mixed, with a residual": (Unmasked, {"join": other.scramble, "forward": residual}, "the reshape in line"),
    "heads cut by view": (
        Causal, {"heads": other.cut_by_view, "join": other.scramble}, "Tokens miss .*; does the view in line .* need a",
    ),
    "a mean over the tokens": (
        Causal, {"join": lambda _, c: c.transpose(1, 2).flatten(2) * c.mean((1, 2))[:, None, :1]},
        r"It reads the future: mean in line \d+ mixes later tokens",
    ),
    "a convolution": (other.Convolution, {}, "It reads the future: conv1d in line"),
    "the last row emptied": (
        Causal, {"join": lambda s, c: Causal.join(s, c) * (torch.arange(c.shape[2]) < c.shape[2] - 1)[:, None]},
        "Tokens miss part of their past: token 4 never reads tokens 0.*4$",
    ),
    "within tokens": (Unmasked, {"forward": other.attend_within_tokens}, "only itself: .*; softmax in line .* runs ov"),
    "only itself": (Causal, {"hidden": lambda _, n: ~torch.eye(n).bool()}, "only itself: no perturbation .* a row$"),
    "over the features": (Causal, {"forward": lambda s, x: s.to_v(x).softmax(-1)}, "Each token reads only itself"),
    "unscaled": (Causal, {"scaled": lambda _, s, n: s}, "scale is wrong: times 0.5, they would match Multi"),
    "the root of all heads' width": (Unmasked, {"scaled": lambda _, s, n: s / 8**0.5}, "scale is wrong: times 1.41"),
    "the same, with a residual": (
        Unmasked, {"scaled": lambda _, s, n: s / 8**0.5, "forward": residual},
        "multiplied by 0.354, which is 1/√8, the root of all heads' width, not by 1/√4 = 0.5",
    ),
    "exchanged": (Causal, other.exchange(1, 0, 2), "Queries and keys are exchanged: with `queries @ keys.T`, it"),
    "exchanged, unscaled": (
        Causal, other.exchange(1, 0, 2) | {"scaled": lambda _, s, n: s}, "with `queries @ keys.T` times 0.5, it would",
    ),
    "values exchanged": (Causal, other.exchange(0, 2, 1), "Keys and values are exchanged: with"),
    "divided afterwards": (Causal, {"weights": lambda _, s: s.softmax(-1) / 2}, "all weights are multiplied by 0.5$"),
    "fading": (Causal, {"weights": other.fade}, "Rows don't sum to 1: after softmax some weights are changed$"),
    "no softmax": (Causal, {"weights": lambda _, s: s.exp() / 9}, "^No fault found, but no attention weights either"),
    "all hidden": (Causal, {"hidden": lambda _, n: future(n, 0)}, "Row 0 is NaN: softmax in .* makes the first NaN, b"),
    "returned weights": (
        other.WeightsFirst, {"forward": lambda s, x: other.WeightsFirst.forward(s, x)[0]},
        "It returns its attention weights: softmax in .*; return them times the values",
    ),
    "a forgotten projection": (Renamed, {"join": Causal.join}, "A parameter is never used: o_proj.weight$"),
    "keys as values": (
        Own, {"parts": lambda s, x: [x @ s.qkv.chunk(3)[n].T + 0 * s.position.sum() for n in (0, 1, 1)]},
        "1 of 3 parts of `qkv` have no effect",
    ),
    "one projection for all": (Causal, {"parts": lambda s, x: [s.to_q(x)] * 2 + [s.to_q(x)]}, "never used: to_k"),
    "always dropping": (
        Causal, {"weights": lambda _, s: functional.dropout(s.softmax(-1), 0.01)},
        r"random in eval mode too: dropout in line \d+ draws at each call",
    ),
    "fused dropping": (Fused, {"options": {"is_causal": True, "dropout_p": 0.1}}, "scaled_dot_product.* draws at each"),
    "normalised and random": (
        Causal,
        {"weights": lambda _, t: functional.normalize(w := t.softmax(-1), p=1, dim=-1) * torch.bernoulli(0 * w + 0.9)},
        "random in eval mode too: bernoulli in line",
    ),
    "heads in a list": (other.HeadsInAList, {}, r"aren't registered: `parameters\(\)` lacks 216 trainable numbers"),
    "a fixed mask": (Causal, {"hidden": lambda _, n: future(5)}, "It fails on fewer tokens: line .* raises RuntimeErr"),
    "one sentence": (
        Causal,
        {"heads": lambda s, x: [part.view(1, x.shape[1], 2, -1).transpose(1, 2) for part in s.parts(x)]},
        "Sentences of a batch mix: next to other sentences, a row moves by",
    ),
    "takes one": (Causal, {"forward": other.take_one}, r"It fails on a batch of sentences: line \d+, `return \(self"),
    "writes": (Causal, {"forward": other.write_into_input}, "It writes into its input"),
    "counts": (Causal, {"parts": other.count_calls}, "^It keeps something between calls: .*`calls`"),
    "softmax twice": (Causal, {"weights": lambda _, s: s.softmax(-1).softmax(-1)}, "softmax in .* already made"),
    "softmax twice, unmasked": (Unmasked, {"weights": lambda _, s: s.softmax(-1).softmax(-1)}, "^Softmax runs twice"),
    "drops scores": (
        Causal, {"weights": lambda s, t: functional.dropout(t, s.p, s.training).softmax(-1)},
        "^In training, it drops scores: dropout in line",
    ),
    "drops without dividing": (
        Causal, {"weights": lambda s, t: t.softmax(-1) * drop(t, s.p * s.training)}, OTHER_SCALE("aren't"),
    ),
    "drops twice": (
        Causal, {"weights": lambda s, t: other.half_dropping(s, t) * drop(t, s.p * s.training)},
        OTHER_SCALE("both drop weights, and their sum is 0.8 of what it was"),
    ),
    "divides by p": (
        Causal, {"weights": lambda s, t: t.softmax(-1) * drop(t, s.p * s.training) / (s.p or 1)},
        OTHER_SCALE("by p, not by 1 - p"),
    ),
    "renormalises": (
        Causal, {"weights": lambda s, t: (w := other.half_dropping(s, t)) / w.sum(-1, keepdim=True)},
        "^In training with dropout, .*is NaN: div",
    ),
    "another scale in training": (
        Causal, {"scaled": lambda s, t, n: t if s.training else t / n**0.5}, "in training, without dropout, rows",
    ),
    "queries cut": (Causal, other.detach(0), NO_GRADIENT("detach in line .*, so to_q.weight, to_q.bias can't learn")),
    "x cut": (Causal, {"parts": lambda s, x: Causal.parts(s, x.detach())}, "gradients of x aren't"),
    "no grad": (Causal, {"parts": torch.no_grad()(lambda s, x: Causal.parts(s, x))}, NO_GRADIENT("linear in line")),
    "rounded": (
        Causal, {"scaled": lambda _, t, n: (t * 8 / n**0.5).round() / 8}, NO_GRADIENT("some step's slope is 0 every"),
    ),
    "argmax": (
        Causal, {"weights": lambda _, s: functional.one_hot(s.argmax(-1), s.shape[-1]).float()}, NO_GRADIENT("argmax"),
    ),
    "turned along the heads": (
        Causal, {"heads": other.turn_along_heads}, "mul in line .* multiplies by numbers that differ from place",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_is_named_with_its_cause(name):
    base, steps, said = WRONG[name]
    verdicts = verdicts_on(make_layer(variant(base, **steps)))
    assert re.search(said, headline(verdicts, "Mine"))
    assert not {("future", "✗"), ("course", "✓")} <= {(topic, each.sign) for topic, each in verdicts.items()}


HIDDEN = {"the past": lambda n: ~future(n), "all": lambda n: future(n, -n), "the diagonal": lambda n: future(n, 0)}


@pytest.mark.parametrize("name", HIDDEN)
def test_no_second_fault_contradicts_the_picture(name):
    weights = {"hidden": lambda s, n: HIDDEN[name](n), "weights": lambda s, t: t.softmax(-1).nan_to_num(0.0)}
    verdicts = verdicts_on(make_layer(variant(Causal, **weights))).values()
    said = " ".join(f"{verdict.claim} {verdict.words}" for verdict in verdicts)
    assert "multiplied by 1" not in said
    assert name != "the past" or "reads only itself" not in said


def test_a_headline_names_the_line_of_the_fault():
    source = [line.strip() for line in inspect.getsource(other).splitlines()]
    line = source.index("scores.masked_fill(future(scores.shape[-1]), -torch.inf)") + 1
    assert re.findall(r"line (\d+)", said_of(make_layer(variant(Unmasked, weights=other.throw_away)))) == [str(line)]


def test_an_operation_is_not_blamed_for_what_another_does():
    def wasteful(x):
        x.exp()
        return (x @ x.mT).softmax(-1) @ x

    verdicts = verdicts_on(wasteful)
    assert (verdicts["future"].sign, verdicts["future"].claim) == ("•", "It has no mask")
    assert re.match(r"exp in line \d+, `x.exp\(\)`$", verdicts["unused"].words)
    layer = make_layer(Fused)
    layer.register_forward_hook(lambda _, x, y: functional.dropout(y, 0.5))
    assert re.search(r"too: dropout in line \d+ draws", said_of(layer))


@pytest.mark.parametrize(("name", "number"), [("weights first", 2), ("weights last", 1)])
def test_a_layer_is_judged_by_its_output_and_says_by_which(name, number):
    expected, state = (look_at(make_layer(each), X, seed=0) for each in (Causal, RIGHT[name][0]))
    assert torch.equal(state.result, expected.result)
    assert torch.equal(state.influence, expected.influence)
    assert f"(1, 5, 8) out (result {number} of 2)" in state.size


class Masked(Renamed):
    """torch's fused function with any mask and scale."""

    def forward(self, x):
        keep = self.keep[: x.shape[1], : x.shape[1]]
        return self.join(functional.scaled_dot_product_attention(*self.heads(x), keep, scale=self.scale))


def masked_by(s, keep, scale=None):
    return build_layer(variant(Masked, keep=keep, scale=scale), 0, s.d_in, s.d_out, s.num_heads)


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
    distance = torch.arange(5)[:, None] - torch.arange(5)
    layer = make_layer(variant(Causal, hidden=lambda s, n: ((distance < 0) | (distance == 1))[:n, :n]))
    assert said_of(layer) == "No fault found, but token 4 never reads token 3"


@pytest.mark.parametrize("p", [0.0, 0.3])
def test_right_dropout_is_no_fault(p):
    layer = make_layer(variant(Causal, weights=other.half_dropping))
    layer.p = p
    assert said_of(layer).endswith("computes what the course's MultiHeadAttentionWrapper computes")


def test_scripted_modules_are_refused_and_lazy_ones_are_judged():
    class Lazy(Causal):
        def __init__(self, dim, heads=2):
            nn.Module.__init__(self)
            self.num_heads = heads
            self.to_q, self.to_k, self.to_v = (nn.LazyLinear(dim) for _ in range(3))

    assert "computes what" in LayerExplorer(Lazy, SENTENCE).said
    message = LayerExplorer(lambda: torch.jit.trace(nn.Linear(8, 8), X[None]), SENTENCE).message
    assert "look inside a scripted or traced module" in message
    assert "Fix it" not in message


def test_find_leak_starts_from_larger_sentences_too():
    for seed in range(5):
        assert "times as large" in find_leak(make_layer(variant(Causal, **fill(-100.0)), seed=seed), X[None]).what
        assert not find_leak(make_layer(Fused, seed=seed), 100 * X[None])


# Names, and the first state.


def test_names_of_public_code_get_sliders_and_a_config_too():
    def annotated(h, num_hiddens):
        return Causal(num_hiddens, num_hiddens, h)

    assert list(LayerExplorer(annotated, SENTENCE).controls) == ["h", "training", "seed"]

    class Configured(Causal):
        def __init__(self, config):
            super().__init__(config.n_embd, config["hidden_size"], config.num_attention_heads)
            self.drop = nn.Dropout(getattr(config, "attn_pdrop", 0.1) + getattr(config, "no_such_size", 0))

    e = LayerExplorer(Configured, SENTENCE)
    assert list(e.controls) == ["num_attention_heads", "attn_pdrop", "training", "seed"]
    e.set(num_attention_heads=4)
    assert len(e.arrays.maps) == 4
    chosen = LayerExplorer(lambda a, b: Causal(8, a, b), SENTENCE, a=8, b=[2, 4])
    chosen.controls["b"].value = 4
    assert len(chosen.arrays.maps) == 4


class Rotary(Causal):
    """Refuses odd heads, and keys' heads that don't divide the others."""

    def __init__(self, dim, heads=8, n_kv_heads=2):
        assert dim % heads == 0
        assert heads % n_kv_heads == 0
        super().__init__(dim, dim, heads)

    def heads(self, x):
        assert self.to_q.out_features // self.num_heads % 2 == 0, "odd"
        return super().heads(x)


@pytest.mark.parametrize("width", [3, 6, 7, 8])
def test_sizes_that_we_chose_are_not_blamed(width):
    e = LayerExplorer(Rotary, Sentence([*"abcde"], torch.randn(5, width)))
    assert "Fix it" not in e.message
    assert ("but width 8 runs" in e.message) == (width % 2 == 1)
    assert ("computes what" in e.said) == (width % 2 == 0)
    assert width != 8 or e.values["heads"] == 4  # not one wide


def test_a_wrong_scale_is_seen_where_heads_are_one_wide():
    unscaled = variant(Causal, scaled=lambda _, scores, n: scores)
    e = LayerExplorer(lambda dim, heads=2: unscaled(dim, dim, heads), Sentence([*"abcde"], X[:, :7]))
    assert e.values["heads"] == 7
    assert "The scores' scale is wrong" in e.said


# What stays as it was.


class Disturbing(Causal):
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
    layer = make_layer(Disturbing)
    layer.train(training)
    before = everything(layer)
    PROBES[name](layer)
    assert everything(layer) == before

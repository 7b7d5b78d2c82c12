"""Kinds of layers that public code has: the right ones get no fault and no advice, and faults get their cause."""

import html
import random
import re
from dataclasses import dataclass

import numpy as np
import other_layers
import pytest
import torch
from other_layers import Causal, FusedCausal, Unmasked, Unscaled, future
from torch import nn
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

from attention_course.any_layer.calling import Unsuited
from attention_course.any_layer.inspection import look_at
from attention_course.any_layer.verdicts import headline
from attention_course.build import build_layer
from attention_course.explorers import LayerExplorer
from attention_helpers import Sentence, find_leak, influence

X = torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
SENTENCE = Sentence([*"abcde"], X)


def changed(base=Causal, **steps):
    """A layer like `base`, d_in and d_out 8, two heads, with some of its steps changed."""
    return build_layer(other_layers.variant(base, **steps), 0, 8, 8, 2)


def verdicts_on(layer, x=X):
    return look_at(layer, x, seed=0).verdicts


def said_of(layer, x=X):
    return headline(verdicts_on(layer, x), "Mine")


def faults(layer, x=X):
    return [verdict for verdict in verdicts_on(layer, x).values() if verdict.sign in "✗?"]


# Right ones.


class Own(Causal):
    """Its matrices are parameters without nn.Linear, which forward reads through views."""

    def __init__(self, d_in, d_out, num_heads):
        nn.Module.__init__(self)
        self.num_heads, self.qkv = num_heads, nn.Parameter(torch.randn(3 * d_out, d_in) / 4)
        self.position, self.gain = nn.Parameter(torch.randn(1, 9, d_in) / 9), nn.Parameter(torch.ones(d_out))
        self.sharpness = nn.Parameter(torch.ones(()))

    def parts(self, x):
        x = x + self.position[:, : x.shape[1]]
        return [x @ part.T for part in self.qkv.chunk(3)]

    def scaled(self, scores, head_dim):
        return scores * head_dim**-0.5 * self.sharpness

    def join(self, context):
        return super().join(context) * self.gain.unsqueeze(0)


class TalkingHeads(Causal):
    """A learned mixture of the heads' weights, whose rows don't sum to 1."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__(d_in, d_out, num_heads)
        self.mix = nn.Conv2d(num_heads, num_heads, 1, bias=False)

    def weights(self, scores):
        return self.mix(scores.softmax(-1))


class Sink(Causal):
    """A key more, whose weight is dropped."""

    def weights(self, scores):
        sink = torch.zeros(*scores.shape[:-1], 1)
        return torch.cat((scores, sink), -1).softmax(-1)[..., :-1]


def in_half(layer, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return Causal.forward(layer, x).float()


def residual(layer, x):
    return x + Causal.forward(layer, functional.layer_norm(x, x.shape[-1:]))


def filled(value):
    return lambda self, scores: scores.where(~future(scores.shape[-1]), value).softmax(-1)


def values_first(self, x):
    q, k, v = self.heads(x)
    weights = self.weights((q @ k.mT / 2).masked_fill(future(x.shape[1]), -torch.inf))
    return self.join((v.mT @ weights.mT).mT)


@dataclass
class Output:
    last_hidden_state: torch.Tensor


def rotated(self, x):
    """Queries and keys turned by complex numbers, as rotary positions often are."""
    q, k, v = Causal.heads(self, x)
    turn = torch.polar(torch.ones(x.shape[1], 2), torch.arange(x.shape[1])[:, None] * torch.tensor([1.0, 0.1]))
    turned = (torch.view_as_complex(each.unflatten(-1, (2, 2)).contiguous()) * turn for each in (q, k))
    return *(torch.view_as_real(each).flatten(-2) for each in turned), v


RIGHT = {
    "rotated by complex numbers": lambda: changed(heads=rotated),
    "a dataclass as its result": lambda: changed(forward=lambda s, x: Output(Causal.forward(s, x))),
    "values first": lambda: changed(forward=values_first),
    "parameters that are read through views": lambda: changed(Own),
    "tokens first": lambda: build_layer(other_layers.TokensFirst, 0, 8, 2),
    "talking heads": lambda: changed(TalkingHeads),
    "a sink": lambda: changed(Sink),
    "a residual": lambda: changed(forward=residual),
    "half precision inside": lambda: changed(forward=in_half),
    "a rounded scale": lambda: changed(scaled=lambda _, scores, n: scores * (1.0003 / n**0.5)),
    "a mask of -1e9": lambda: changed(Unmasked, weights=filled(-1e9)),
    "a mask of -1e9 that's added": lambda: changed(
        Unmasked, weights=lambda _, s: (s - 1e9 * future(s.shape[-1])).softmax(-1)
    ),
    "a copy that's never used": lambda: changed(join=lambda _, c: (c.clone(), c.transpose(1, 2).flatten(2))[1]),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("num_tokens", [2, 5])
def test_a_right_layer_has_no_fault_and_gets_no_advice(name, num_tokens):
    assert faults(RIGHT[name](), X[:num_tokens]) == []


@pytest.mark.parametrize("base", [Own, Causal])
def test_a_right_layer_in_half_precision_has_no_fault(base):
    layer = changed(base).bfloat16()
    assert faults(layer, X.bfloat16()) == []
    assert verdicts_on(layer)["future"].sign != "✗"  # float32 is cast to what the layer has


@pytest.mark.parametrize("seed", range(6))
def test_a_sharp_softmax_is_no_fault_and_hides_no_wrong_scale(seed):
    x = torch.randn(6, 8, generator=torch.Generator().manual_seed(seed))
    unscaled = {"scaled": lambda _, scores, __: scores}
    for steps, size, said in ({}, 9, "computes what"), (unscaled, 3, "The scores' scale is wrong: times 0.5"):
        layer = changed(**steps)
        for parameter in layer.parameters():
            parameter.data *= size
        assert said in said_of(layer, x)
        assert [verdict.claim for verdict in faults(layer, x)] == ["The scores' scale is wrong"] * bool(steps)


# How `forward` is called.

CALLED = {
    "values first": lambda s, values, keys, query, mask=None: Causal.forward(s, query),
    "context": lambda s, x, context: s.attend(x, context),
    "memory": lambda s, tgt, *, memory: s.attend(tgt, memory),
    "a mask that hides": lambda s, x, attn_mask: s.masked(x, attn_mask),
    "a mask that keeps": lambda s, x, mask: s.masked(x, ~mask),
    "a mask for each sentence": lambda s, x, mask: s.masked(x, ~mask.view(len(x), 1, *mask.shape[1:])),
    "a mask that's None": lambda s, x, mask: Causal.forward(s, x) if mask is None else mask.no_such_thing,
    "padding's mask too": lambda s, x, key_padding_mask: CALLED["a mask that's None"](s, x, key_padding_mask),
    "a config's names": lambda s, hidden_states, key_value_states: Causal.forward(s, hidden_states),
}


def attend(self, x, context):
    q, k, v = (part.unflatten(-1, (2, 4)).mT for part in (self.to_q(x), self.to_k(context), self.to_v(context)))
    q, k, v = (part.permute(0, 3, 1, 2) for part in (q, k, v))
    return self.join((q @ k.mT / 2).softmax(-1) @ v)


def masked(self, x, hide):
    q, k, v = self.heads(x)
    return self.join((q @ k.mT / 2).masked_fill(hide, -torch.inf).softmax(-1) @ v)


@pytest.mark.parametrize("name", CALLED)
def test_forward_gets_the_sentence_by_any_name_and_the_mask_that_it_needs(name):
    layer = changed(forward=CALLED[name], attend=attend, masked=masked)
    assert faults(layer) == []
    assert verdicts_on(layer)["future"].sign == "✓"


def test_what_forward_needs_besides_is_no_fault_of_the_class():
    rotary = other_layers.variant(Causal, forward=lambda s, x, cos, sin: Causal.forward(s, x))
    message = html.unescape(LayerExplorer(rotary, SENTENCE).message)
    assert re.search(r"Variant's forward also needs cos, sin.*super\(\).forward\(x, cos, sin\)", message)
    assert "Fix it" not in message


def test_the_mask_that_would_hide_the_future_is_named():
    said = said_of(build_layer(nn.MultiheadAttention, 0, 8, 2, batch_first=True, bias=False))
    assert said.endswith("course's MultiHeadAttention computes without its mask: `forward` got no `attn_mask`")
    words = verdicts_on(build_layer(nn.MultiheadAttention, 0, 8, 2, batch_first=True))["future"].words
    assert "`forward` got no `attn_mask`" in words


@pytest.mark.slow  # loads the compiler
def test_a_compiled_layer_is_judged_as_it_was_written_and_flex_attention_gets_one_sentence():
    compiled = torch.compile(changed(), backend="eager")
    assert "computes what" in said_of(compiled)
    flex = changed(forward=lambda s, x: s.join(flex_attention(*s.heads(x))))
    with pytest.raises(Unsuited, match="can't look inside flex_attention"):
        look_at(flex, X, 0)


# Faults, each with what the headline says of it.


def capped(_, scores):
    return (20 * torch.tanh(scores.masked_fill(future(scores.shape[-1]), -torch.inf) / 20)).softmax(-1)


def mask_in_eval(self, scores):
    return scores.masked_fill(future(scores.shape[-1]) & (not self.training), -torch.inf).softmax(-1)


def mask_in_training(self, scores):
    return scores.masked_fill(future(scores.shape[-1]) & self.training, -torch.inf).softmax(-1)


def mixed_by(mix):
    def forward(self, x):
        q, k, v = self.heads(x)
        return self.join(mix(self.weights((q @ k.mT / 2).masked_fill(future(x.shape[1]), -torch.inf)), v))

    return forward


def scrambled(_, context):
    return context.reshape(len(context), context.shape[2], -1)


def mask_thrown_away(_, scores):
    torch.where(future(scores.shape[-1]), -torch.inf, scores)
    return scores.softmax(-1)


FAULTS = {
    "thrown away by where": (Unmasked, {"weights": mask_thrown_away}, r"computes where and throws it away"),
    "-1e4": (Unmasked, {"weights": filled(-1e4)}, r"It reads the future: it hides by a score of -1e\+04, not far"),
    "times 0": (Unmasked, {"weights": lambda _, s: s.tril().softmax(-1)}, "it hides by a score of 0,"),
    "-1e4 added": (
        Unmasked,
        {"weights": lambda _, s: (s - 1e4 * future(s.shape[-1])).softmax(-1)},
        "it hides by a score of -",
    ),
    "softcap after the mask": (Unmasked, {"weights": capped}, "it hides by a score of -20,"),
    "leaks in training": (Unmasked, {"weights": mask_in_eval}, r"^In training, .*: softmax in line \d+ has no mask"),
    "leaks in eval": (Unmasked, {"weights": mask_in_training}, "^In eval mode, it reads the future"),
    "turned": (Causal, {"forward": mixed_by(lambda w, v: torch.einsum("...qk,...qd->...kd", w, v))}, "by einsum"),
    "summed": (Causal, {"forward": mixed_by(lambda w, v: (w[..., None] * v[:, :, :, None]).sum(2))}, "sum in line"),
    "values first, turned": (Causal, {"forward": mixed_by(lambda w, v: (v.mT @ w).mT)}, "transposed by matmul"),
    "all heads' values": (
        Causal,
        {"forward": mixed_by(lambda w, v: torch.einsum("bhqk,bgkd->bhqd", w, v))},
        r"A product sums too much: einsum in line \d+ adds the values of 2 heads",
    ),
    "scrambled": (Unmasked, {"join": scrambled}, r"joined without a transpose: .* MultiHeadAttentionW.*the reshape in"),
    "scrambled, with a residual": (Unmasked, {"join": scrambled, "forward": residual}, "the reshape in line .* joins"),
    "the root of all heads' width": (Unmasked, {"scaled": lambda _, s, n: s / 8**0.5}, "scale is wrong: times 1.41"),
    "the same, with a residual": (
        Unmasked,
        {"scaled": lambda _, s, n: s / 8**0.5, "forward": residual},
        "multiplied by 0.354, which is 1/√8, the root of all heads' width, not by 1/√4 = 0.5",
    ),
    "a mean over the tokens": (
        Causal,
        {"join": lambda _, c: c.transpose(1, 2).flatten(2) * c.mean((1, 2))[:, None, :1]},
        r"It reads the future: mean in line \d+ mixes later tokens",
    ),
    "keys as values": (
        Own,
        {"parts": lambda s, x: [x @ s.qkv.chunk(3)[n].T + 0 * s.position.sum() for n in (0, 1, 1)]},
        "1 of 3 parts of `qkv` have no effect",
    ),
    "one projection for all": (Causal, {"parts": lambda s, x: [s.to_q(x)] * 2 + [s.to_q(x)]}, "never used: to_k"),
    "attends over the heads": (
        Causal,
        {
            "heads": lambda s, x: [part.unflatten(-1, (2, -1)) for part in s.parts(x)],
            "hidden": lambda *_: future(2), "join": lambda _, c: c.flatten(2),
        },
        r"softmax in line \d+ runs over the heads of each token",
    ),
}  # fmt: skip


class Dropped(Causal):
    """Dropout at 0.0 to begin with, as an attribute."""

    p = 0.0

    def __init__(self, d_in, d_out, num_heads):
        super().__init__(d_in, d_out, num_heads)
        self.p = 0.0

    def keep(self, weights):
        return torch.rand_like(weights) > self.p if self.training and self.p else torch.ones_like(weights)

    def weights(self, scores):
        return functional.dropout(scores.softmax(-1), self.p, self.training)


class Counting(Causal):
    def parts(self, x):
        self.calls = getattr(self, "calls", 0) + 1
        return super().parts(x * self.calls)


def rounded(_, scores, n):
    return (scores * 8 / n**0.5).round() / 8


def cut(*numbers):
    """Queries, keys and values, some without gradients."""
    parts = Causal.parts
    return {"parts": lambda s, x: [each.detach() if n in numbers else each for n, each in enumerate(parts(s, x))]}


def dropped_scores(s, scores):
    return functional.dropout(scores, s.p, s.training).softmax(-1)


def twice(_, scores):
    return scores.softmax(-1).softmax(-1)


NO_GRADIENT = "A parameter gets no gradient: {}".format
OTHER_SCALE = "In training, its weights have another scale: .* {}".format
FAULTS |= {
    "drops scores": (Dropped, {"weights": dropped_scores}, "^In training, it drops scores: dropout in line"),
    "drops without dividing": (Dropped, {"weights": lambda s, t: t.softmax(-1) * s.keep(t)}, OTHER_SCALE("aren't")),
    "divides by p": (
        Dropped, {"weights": lambda s, t: t.softmax(-1) * s.keep(t) / (s.p or 1)}, OTHER_SCALE("by p, not by 1 - p"),
    ),
    "renormalises": (
        Dropped,
        {"weights": lambda s, t: (w := Dropped.weights(s, t)) / w.sum(-1, keepdim=True)},
        "^In training with dropout, .*is NaN: div",
    ),
    "another scale in training": (
        Causal, {"scaled": lambda s, t, n: t if s.training else t / n**0.5}, "in training, without dropout, rows",
    ),
    "queries cut": (Causal, cut(0), NO_GRADIENT("detach in line .*, so to_q.weight, to_q.bias can't learn")),
    "x cut": (Causal, {"parts": lambda s, x: Causal.parts(s, x.detach())}, "gradients of x aren't"),
    "no grad": (Causal, {"parts": torch.no_grad()(lambda s, x: Causal.parts(s, x))}, NO_GRADIENT("linear in line")),
    "rounded": (Causal, {"scaled": rounded}, NO_GRADIENT("some step's slope is 0 everywhere")),
    "counts": (Counting, {}, "^It keeps something between calls: .*`calls`"),
    "softmax twice": (Causal, {"weights": twice}, "It reads the future: softmax in .* already made"),
    "softmax twice, unmasked": (Unmasked, {"weights": twice}, "^Softmax runs twice"),
    "normalised and random": (
        Causal,
        {"weights": lambda _, t: functional.normalize(w := t.softmax(-1), p=1, dim=-1) * torch.bernoulli(0 * w + 0.9)},
        "random in eval mode too: bernoulli in line",
    ),
    "turned along the heads": (
        Causal, {"parts": lambda s, x: [part * 1.0 for part in Causal.parts(s, x)],
                 "heads": lambda s, x: [part * torch.tensor([[[1.0]], [[-1.0]]]) if n < 2 else part
                                        for n, part in enumerate(Causal.heads(s, x))]},
        "mul in line .* multiplies by numbers that differ from place to place",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_with_its_cause(name):
    base, steps, said = FAULTS[name]
    assert re.search(said, said_of(changed(base, **steps)))


HIDDEN = {  # layers that have nothing to say about sums, or only that rows are hidden
    "the past": lambda n: ~future(n),
    "all": lambda n: torch.ones(n, n, dtype=torch.bool),
    "the diagonal": lambda n: future(n, 0),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_no_second_fault_contradicts_the_picture(name):
    layer = changed(hidden=lambda s, n: HIDDEN[name](n), weights=lambda s, t: t.softmax(-1).nan_to_num(0.0))
    said = " ".join(f"{verdict.claim} {verdict.words}" for verdict in verdicts_on(layer).values())
    assert "multiplied by 1" not in said
    assert name == "all" or "reads only itself" not in said or name == "the diagonal"


@pytest.mark.parametrize("steps", [{}, {"p": 0.3}])
def test_right_dropout_is_no_fault(steps):
    assert said_of(changed(Dropped, **steps)).endswith("computes what the course's MultiHeadAttentionWrapper computes")


def test_scripted_modules_are_refused_and_lazy_ones_are_judged():
    class Lazy(Causal):
        def __init__(self, dim, heads=2):
            nn.Module.__init__(self)
            self.num_heads = heads
            self.to_q, self.to_k, self.to_v = (nn.LazyLinear(dim) for _ in range(3))

    class Plain(nn.Module):
        def forward(self, x):
            return (x @ x.mT).softmax(-1) @ x

    assert "computes what" in LayerExplorer(Lazy, SENTENCE).said
    message = LayerExplorer(lambda: torch.jit.trace(Plain(), X[None]), SENTENCE).message
    assert "look inside a scripted or traced module" in message
    assert "Fix it" not in message


def test_find_leak_starts_from_larger_sentences_too():
    for seed in range(5):
        layer = build_layer(other_layers.variant(Unmasked, weights=filled(-100.0)), seed, 8, 8, 2)
        assert "times as large" in find_leak(layer, X[None]).what
        assert not find_leak(build_layer(FusedCausal, seed, 8, 8, 2), 100 * X[None])


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


def test_the_first_heads_are_two_wide_at_least():
    def by_default(dim, num_heads=8):
        return Causal(dim, dim, num_heads)

    assert LayerExplorer(by_default, SENTENCE).values["num_heads"] == 4
    assert LayerExplorer(by_default, Sentence([*"ab"], X[:2, :6])).values["num_heads"] == 3


class Rotary(Causal):
    """Refuses odd heads, and keys' heads that don't divide the others."""

    def __init__(self, dim, heads=4, n_kv_heads=2):
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


def test_a_wrong_scale_is_seen_where_heads_are_one_wide():
    e = LayerExplorer(lambda dim, heads=2: Unscaled(dim, dim, heads), Sentence([*"abcde"], X[:, :7]))
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
    layer = build_layer(Disturbing, 0, 8, 8, 2)
    layer.train(training)
    before = everything(layer)
    PROBES[name](layer)
    assert everything(layer) == before

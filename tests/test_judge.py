"""Kinds of layers that public code has: the right ones get no fault and no advice, and faults get their cause."""

import html
import random
import re

import numpy as np
import other_layers as other
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from other_layers import RIGHT, WRONG, future, hiding, layer_with, make_layer
from sizes import ALL, SIZES, Sizes, build
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

from attention_course.build import build_layer
from attention_course.explorers import LayerExplorer
from attention_course.judge.calling import Unsuited
from attention_course.judge.inspection import look_at
from attention_course.judge.verdicts import headline
from attention_course.mistakes import mistakes_of, with_mistake
from attention_helpers import MultiHeadAttention, Sentence, find_leak, influence

X = torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
SENTENCE = Sentence([*"abcde"], X)


def verdicts_on(layer, x=X, twin=None):
    return look_at(layer, x, seed=0, twin=twin).verdicts


def said_of(layer, x=X):
    return headline(verdicts_on(layer, x), "Mine")


def faults(layer, x=X):
    return [verdict for verdict in verdicts_on(layer, x).values() if verdict.sign in "✗?"]


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("num_tokens", [2, 4, 5])
def test_a_right_layer_has_no_fault_and_gets_no_advice(name, num_tokens):
    said, *edits = RIGHT[name]
    x = X[:num_tokens, : 4 if num_tokens == 4 else 8]  # as wide as long: a shape alone proves nothing
    verdicts = verdicts_on(make_layer(*edits, width=x.shape[1]), x)
    assert [verdict for verdict in verdicts.values() if verdict.sign in "✗?"] == []
    assert re.search(said, headline(verdicts, "Mine"))


@pytest.mark.parametrize("edits", [(), other.OWN])
def test_a_right_layer_in_half_precision_has_no_fault(edits):
    layer = make_layer(*edits).bfloat16()
    assert faults(layer, X.bfloat16()) == []
    assert verdicts_on(layer)["future"].sign != "✗"  # float32 is cast to what the layer has


@pytest.mark.parametrize("seed", range(3))
def test_a_sharp_softmax_is_no_fault_and_hides_no_wrong_scale(seed):
    x = torch.randn(6, 8, generator=torch.Generator().manual_seed(seed))
    unscaled = other.SCALED, "q @ k.mT"
    for edits, size, said in ((), 9, "computes what"), (unscaled, 3, "the scores aren't scaled"):
        layer = make_layer(*edits)
        for parameter in layer.parameters():
            parameter.data *= size
        assert said in said_of(layer, x)
        assert [verdict.claim for verdict in faults(layer, x)] == ["It doesn't scale"] * bool(edits)


@pytest.mark.parametrize("name", ALL)
def test_the_courses_layers_are_equal_to_themselves(name):
    layer = build(name, Sizes(b=1, num_tokens=5, spare=3, d_in=8, num_heads=2, head_dim=4, qkv_bias=True, seed=0))
    assert headline(verdicts_on(layer), name) == f"{name} computes what the course's {name} computes"


@pytest.mark.parametrize(("change", "said"), [(1e-6, "the same"), (1e-3, "differ by 0.001")])
def test_other_numbers_than_the_courses_are_told_by_how_much(change, said):
    assert said in verdicts_on(make_layer(other.RESULT, f"return context + {change}"))["course"].words


GETS = "def forward(self, x)", "def forward(self, {})".format
CALLED = {  # how `forward` can be called
    "values, keys, x, mask=None": (),
    "x, context": (other.RESULT, "return context + 0 * x.sum()"),
    "x, *, memory": (other.RESULT, "return context + 0 * memory"),
    "x, attn_mask": (other.MASKED, "scores.masked_fill(attn_mask, -torch.inf)"),
    "x, mask": (other.MASKED, "scores.masked_fill(mask.view(b, 1, *mask.shape[1:]) == 0, -torch.inf)"),
    "x, key_padding_mask": (other.RESULT, "return context if key_padding_mask is None else 1 / 0"),
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


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_is_named_with_its_cause(name):
    said, *edits = WRONG[name]
    verdicts = verdicts_on(make_layer(*edits), twin=make_layer(*edits, dropout=0.2))
    assert re.search(said, headline(verdicts, "Mine"))
    assert not {("future", "✗"), ("course", "✓")} <= {(topic, each.sign) for topic, each in verdicts.items()}


@pytest.mark.parametrize("mistake", mistakes_of(MultiHeadAttention), ids=lambda mistake: mistake.name)
def test_each_row_of_the_list_is_named_or_leads_to_what_was_measured(mistake):
    layer = build_layer(with_mistake(MultiHeadAttention, mistake), 0, 10, 12, 9, 0.0, 3)
    x = 1.5 * torch.randn(7, 10, generator=torch.Generator().manual_seed(7))
    said = headline(look_at(layer, x, seed=0, hint=3).verdicts, "Mine")
    unlike = {"throws the masked copy away": "without its mask"}
    unlike |= {"averages keys": "A parameter is never used: W_value", "doesn't use out_proj": "is never used: out_proj"}
    unlike |= {"compares queries with queries": "is never used: W_key", "scales after softmax": "multiplied by 0.5"}
    assert unlike.get(mistake.name, mistake.reply[1:]) in said


class RootOfHeads(layer_with(other.SCALED, "q @ k.mT / self.num_heads ** 0.5")):
    pass


class RootOfTokens(layer_with(other.SCALED, "q @ k.mT / q.shape[-2] ** 0.5")):
    pass


@pytest.mark.parametrize("layer_class", [RootOfHeads, RootOfTokens])
def test_sizes_that_coincide_hide_no_mistake(layer_class):
    """With four tokens, two heads of width 2 and a d_out of 4, each of these scales is right."""
    e = LayerExplorer(layer_class, Sentence([*"abcd"], X[:4, :4]))
    assert "computes what" not in e.said
    assert e.arrays.verdicts["course"].sign == "?"


@pytest.mark.parametrize("leaks", [False, True])
def test_a_layer_that_starts_at_0_is_judged_with_random_numbers(leaks):
    edits = *other.PROJECTION, other.RESULT, "return self.o_proj(context)"
    layer = make_layer(*edits, *(other.UNMASKED if leaks else ()))
    torch.nn.init.zeros_(layer.o_proj.weight)
    verdicts = verdicts_on(layer)
    assert "o_proj.weight is 0" in verdicts["started"].words
    assert verdicts["future"].sign == ("•" if leaks else "✓")
    assert "✗" not in {verdict.sign for verdict in verdicts.values()}
    assert not layer.o_proj.weight.any()


def test_a_measurement_that_fails_is_a_verdict_and_hides_no_other():
    edits = "def forward", "@torch.inference_mode()\n    def forward"
    verdicts = verdicts_on(make_layer(*edits))
    assert verdicts["future"].sign == "✓"
    assert {verdict.sign for verdict in verdicts.values()} & {*"✗?"}


def test_weights_that_no_token_moves_are_a_fault_and_no_missing_picture():
    verdicts = verdicts_on(make_layer(other.SCALED, "0 * q @ k.mT"))
    assert "to_q.weight" in verdicts["unused"].words


def test_an_unmasked_layer_that_fails_on_fewer_tokens_is_not_said_to_accept_them():
    edits = *other.UNMASKED, *other.more("self.at = torch.zeros(5, d_in)"), "x.shape", "(x := x + self.at).shape"
    assert not any("shorter" in verdict.claim for verdict in verdicts_on(make_layer(*edits)).values())


HIDDEN = {"the past": "~future(n)", "all": "future(n, -n)", "the diagonal": "future(n, 0)"}


@pytest.mark.parametrize("name", HIDDEN)
def test_no_second_fault_contradicts_the_picture(name):
    verdicts = verdicts_on(make_layer(*hiding(HIDDEN[name]), other.DROPPED, "weights.nan_to_num(0.0)")).values()
    said = " ".join(f"{verdict.claim} {verdict.words}" for verdict in verdicts)
    assert "multiplied by 1" not in said
    assert name != "the past" or "reads only itself" not in said


SAME = dict.fromkeys(["by the book", "einsum", "fused", "exp by hand", "over queries and back"], "out")
SAME |= {"weights first": "out (result 2 of 2)", "weights last": "out (result 1 of 2)"}


@pytest.mark.parametrize(("name", "out"), SAME.items())
def test_maps_and_rows_are_the_layers_own_and_so_is_the_influence(name, out):
    state = look_at(make_layer(*RIGHT[name][1:]), X, seed=0)
    result, weights = make_layer(other.RESULT, "return context, weights")(X[None])
    expected = weights[0], result[0], influence(make_layer(), X[None])
    torch.testing.assert_close((state.shown, state.result, state.influence), expected)
    assert state.size == f"(1, 5, 8) in, (1, 5, 8) {out}, {3 * (8 * 8 + 8)} parameters"


def shares(table, total=1.0):
    return total * table / table.sum(-1, keepdim=True)


MAPS = {  # how many are found
    "weights that no token moves": (1, lambda x: shares(torch.ones(x.shape[-2], x.shape[-2]).tril()) @ x),
    "a softmax": (1, lambda x: ((x @ x.mT) - 9 * torch.eye(x.shape[-2])).softmax(-1) @ x),
    "numbers below 0, though its rows sum to 1": (0, lambda x: shares(x @ x.mT) @ x),
    "rows that sum to 1.01": (0, lambda x: shares((x @ x.mT).exp(), 1.01) @ x),
    "NaN all over": (0, lambda x: (torch.nan * (x @ x.mT)).softmax(-1) @ x),
}


@pytest.mark.parametrize("name", MAPS)
def test_what_is_a_map(name):
    number, layer = MAPS[name]
    assert len(look_at(layer, X[:, :5], seed=0).maps) == number


def masked_by(s, keep, scale=None):
    """torch's fused function with any mask and scale."""
    masked = other.fused("self.keep[:n, :n], scale=self.scale")
    layer_class = layer_with(*masked, *other.PROJECTION, other.RESULT, "return self.o_proj(context)")
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
    found = re.search(r"The scores are ([\d.]+) times", verdict.words)
    assert verdict.sign == "?"  # one of the list's rows, or by how much
    assert not found or float(found[1]) == pytest.approx(factor, rel=0.01)


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
    e = LayerExplorer(lambda dim, dropout=0.0: lazy(dim, dim), SENTENCE)  # whose twin is lazy, too
    assert "computes what" in e.said
    message = LayerExplorer(lambda: torch.jit.trace(nn.Linear(8, 8), X[None]), SENTENCE).message
    assert "look inside a scripted or traced module" in message
    assert "Fix it" not in message


def test_find_leak_starts_from_larger_sentences_too():
    for seed in range(5):
        assert "times as large" in find_leak(make_layer(*other.filled("-100.0"), seed=seed), X[None]).what
        assert not find_leak(make_layer(seed=seed), 100 * X[None])


# Names, and the first state.


def test_names_of_public_code_get_sliders_and_a_config_too():
    layer_class = layer_with()
    e = LayerExplorer(lambda h, num_hiddens: layer_class(num_hiddens, num_hiddens, h), SENTENCE)
    assert list(e.controls) == ["h", "training", "seed"]

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


def test_dropout_that_starts_at_0_hides_no_fault():
    drop = "self.drop = nn.Dropout(self.rate) if self.rate else nn.Identity()"
    wrong = layer_with(*other.more(drop), other.SOFTMAX, "self.drop(scores).softmax(-1)")
    e = LayerExplorer(lambda dim, dropout=0.0: type("Dropping", (wrong,), {"rate": dropout})(dim, dim), SENTENCE)
    assert e.said.startswith("In training, it drops scores")


def test_a_wrong_scale_is_seen_where_heads_are_one_wide():
    unscaled = layer_with(other.SCALED, "q @ k.mT")
    e = LayerExplorer(lambda dim, heads=2: unscaled(dim, dim, heads), Sentence([*"abcde"], X[:, :7]))
    assert e.values["heads"] == 7
    assert "the scores aren't scaled" in e.said


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


def test_a_set_that_a_layer_fills_is_no_result_that_is_thrown_away():
    edits = *other.more("self.lengths = set()"), other.RESULT, "self.lengths.add(n); return context"
    assert faults(make_layer(*edits)) == []

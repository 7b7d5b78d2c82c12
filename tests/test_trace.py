"""The trace: what it lists is right, it misses no result that nobody used, and it raises no false alarm."""

import weakref
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from attention_helpers import trace
from attention_helpers.layers import (
    CausalAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttention_v1,
    SelfAttention_v2,
)

INF, FLAGS = torch.inf, st.tuples(*[st.booleans()] * 3)


def unused(f, *args, **kwargs):
    return [row.operation for row in trace(f, *args, **kwargs).unused]


# ---- leaks: layers that mask a copy and throw it away

LEAKS = {
    "masked_fill": lambda scores, mask: scores.masked_fill(mask, -INF),
    "masked_fill_": lambda scores, mask: scores.clone().masked_fill_(mask, -INF),
    "where": lambda scores, mask: torch.where(mask, -INF, scores),
}


class Leaky(nn.Module):
    """Causal attention that masks in vain, in small steps as a learner writes it; `keep` binds the result to a name."""

    def __init__(self, width, num_heads, mask_in_vain, keep):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.dropout = nn.Dropout(0.2)
        self.num_heads, self.mask_in_vain, self.keep = num_heads, mask_in_vain, keep

    def forward(self, x):
        b, num_tokens, width = x.shape
        qkv = self.qkv(x).view(b, num_tokens, 3, self.num_heads, width // self.num_heads)
        queries, keys, values = qkv.permute(2, 0, 3, 1, 4)
        scores = queries @ keys.mT / keys.shape[-1] ** 0.5
        mask = torch.ones(num_tokens, num_tokens, dtype=torch.bool).triu(1).expand_as(scores)
        if self.keep:
            masked = self.mask_in_vain(scores, mask)
            assert masked.shape is not None  # asking for its shape does not use its values
        else:
            self.mask_in_vain(scores, mask)
        weights = self.dropout(scores.softmax(-1))
        return (weights @ values).transpose(1, 2).reshape(b, num_tokens, width)


@pytest.mark.parametrize("name", LEAKS)
@settings(max_examples=40, deadline=None)
@given(sizes=st.tuples(*[st.integers(1, most) for most in (3, 3, 4)]), num_tokens=st.integers(2, 8), flags=FLAGS)
def test_no_leak_is_missed(name, sizes, num_tokens, flags):
    (b, num_heads, head_dim), (train, grad, keep) = sizes, flags
    layer = Leaky(num_heads * head_dim, num_heads, LEAKS[name], keep).train(train)
    with torch.set_grad_enabled(grad):
        assert unused(layer, torch.randn(b, num_tokens, num_heads * head_dim)) == [name]


def assign_at_mask(scores, mask):
    scores[mask] = -INF
    return scores.softmax(-1)


def test_writing_into_the_scores_themselves_is_no_leak():
    mask = torch.eye(3, dtype=torch.bool)
    assert unused(assign_at_mask, torch.ones(3, 3), mask) == []
    assert unused(lambda: assign_at_mask(torch.ones(3, 3), mask)) == []  # scores that the call itself made


def waste_a_view(x):
    x.transpose(0, 1)
    return x * 2


def waste_in_a_cycle(x):
    cycle = [x * 2]
    cycle.append(cycle)
    return x + 1


class Wasteful(nn.Module):
    def forward(self, x):
        x.masked_fill(x > 0, 0)
        return x * 2


WASTED = {
    "a view": (waste_a_view, ["transpose"]),
    "held by a cycle of garbage only": (waste_in_a_cycle, ["mul"]),
    "several outputs": (lambda x: (x.max(0), x.sum())[1], ["max"]),
    "asked for its shape": (lambda x: ((x + 1).shape, (x + 2).dtype, len(x + 3), (x + 4).dim()), ["add"] * 4),
    "two of three calls": (lambda x: [nn.Softmax(dim=-1)(x) for _ in range(3)][2], ["softmax"] * 2),
    "within a module": (nn.Sequential(nn.ReLU(), Wasteful(), nn.Softmax(dim=-1)), ["masked_fill"]),
}


@pytest.mark.parametrize(("f", "expected"), WASTED.values(), ids=WASTED)
def test_other_wasted_results(f, expected):
    assert unused(f, torch.ones(3, 3)) == expected


# ---- no false alarm


def layers():
    torch.manual_seed(0)
    yield from (SelfAttention_v1(6, 4), SelfAttention_v2(6, 4, qkv_bias=True), CausalAttention(6, 4, 5, 0.3))
    yield from (MultiHeadAttentionWrapper(6, 4, 5, 0.3, 2), MultiHeadAttention(6, 4, 5, 0.3, 2))
    for norm_first in (True, False):
        yield nn.TransformerEncoderLayer(6, 2, 8, dropout=0.3, batch_first=True, norm_first=norm_first)
    yield nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True), nn.LayerNorm(6), nn.Dropout(0.3), nn.GELU())


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("grad", [True, False])
def test_no_false_alarm_and_the_same_result_on_correct_layers(train, grad):
    for layer in layers():
        layer.train(train)
        x = torch.randn(2, 4, 6)
        with torch.set_grad_enabled(grad):
            torch.default_generator.manual_seed(1)
            plain = layer(x)
            state = torch.get_rng_state()
            torch.default_generator.manual_seed(1)
            traced = trace(layer, x)
        assert traced.unused == [], layer
        torch.testing.assert_close(traced.result, plain, rtol=0, atol=1e-6)
        assert torch.equal(torch.get_rng_state(), state), "the trace draws nothing"


def test_steps_of_our_layers_and_their_construction_raise_no_alarm():
    for layer in layers():
        if hasattr(layer, "steps"):
            assert unused(layer.steps, torch.randn(2, 4, 6)) == []
    assert unused(lambda: list(layers())) == []


@dataclass
class Box:
    kept: torch.Tensor = None


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 8, 3))
        self.kept = None

    def forward(self, x):
        self.cache[:, : x.shape[1]] = x * 2
        self.kept = Box(x.exp())
        return x + 1


def fill_row_by_row(x):
    out = torch.empty(len(x), x.shape[1])
    for i, row in enumerate(x):
        out[i] = row * 2
    return out


def use_only_a_view(x):
    y = x * 2
    y.view(-1)[0] = 5
    return y.T[1:]


def train(x):
    for _ in range(2):
        if LINEAR.weight.grad is not None:  # as an optimizer's zero_grad does
            LINEAR.weight.grad = None
        loss = LINEAR(x).square().mean()
        loss.backward()
        with torch.no_grad():
            LINEAR.weight -= 0.1 * LINEAR.weight.grad
    return loss.item()


def copy_weights(x):
    layer = nn.Linear(3, 3)
    layer.weight.data = x.T.clone()  # which gives a tensor that was drawn other memory
    return layer(x)


LINEAR = nn.Linear(3, 3)
FINE = {
    "fill row by row": fill_row_by_row,
    "use only a view": use_only_a_view,
    "if": lambda x: 1 if (x > 0).any() else 2,
    "a training step": train,
    "weights that are replaced": copy_weights,
    "one of two outputs": lambda x: x.max(0).values,
    "nested results": lambda x: {"a": [x + 1, (x + 2, {"b": x + 3})], "c": Box(x * 2)},
    "item": lambda x: (x + 1).sum().item(),
    "a view asked for its shape": lambda x: x.T.shape[0] * x,
    "print": lambda x: f"{x + 1}",
    "an index that is computed": lambda x: x[: (x > 0).sum(1).max()],
    "dropout that is off": lambda x: F.dropout(x, 0.5, training=False),
}


@pytest.mark.parametrize("f", FINE.values(), ids=FINE)
def test_no_false_alarm_on_correct_code(f):
    assert unused(f, torch.rand(3, 3)) == []


def test_what_a_module_keeps_is_used():
    assert unused(Cached(), torch.rand(2, 3, 3)) == []


def test_what_a_list_or_a_closure_holds_is_used():
    kept = []
    assert unused(lambda: kept.append(torch.ones(3) + 1)) == []
    held = {}
    assert unused(lambda: held.update(a=torch.ones(3, 1).exp().T)) == []


def test_ids_that_python_gives_again_do_not_confuse_it():
    layer = MultiHeadAttention(6, 4, 5, 0.3, 2)
    leaky = Leaky(6, 2, LEAKS["masked_fill"], keep=False)
    for _ in range(50):
        x = torch.randn(2, 4, 6)
        assert unused(layer, x) == []
        assert unused(leaky, x) == ["masked_fill"]
        # One short-lived tensor after another, each of which may get the memory and the id of the one before.
        assert unused(lambda x=x: [x.exp() for _ in range(5)] and None) == ["exp"] * 5


# ---- rows, and how they look


def test_shapes_bytes_and_notes():
    def f(x, w):
        y = x @ w  # (2, 4) float32
        z = y.T.double()  # a view; then (4, 2) float64
        z += 1
        z[0] = 5
        values, indices = z.max(dim=0)
        F.relu(values, inplace=True)
        return values.contiguous(), indices, torch.add(z, 1, out=z).t_()

    rows = trace(f, torch.randn(2, 3), torch.randn(3, 4)).rows
    assert rows == [
        ("matmul", ((2, 3), (3, 4)), (2, 4), 32, ""),
        ("T", ((2, 4),), (4, 2), 0, "view"),
        ("double", ((4, 2),), (4, 2), 64, ""),
        ("add_", ((4, 2),), (4, 2), 0, "in place"),
        ("setitem", ((4, 2),), (4, 2), 0, "in place"),
        ("max", ((4, 2),), ((2,), (2,)), 32, ""),
        ("relu", ((2,),), (2,), 0, "in place"),
        ("contiguous", ((2,),), (2,), 0, "returns its input"),
        ("add", ((4, 2), (4, 2)), (4, 2), 0, "in place"),
        ("t_", ((4, 2),), (2, 4), 0, "in place"),
    ]


def test_a_gradient_was_there_before_the_call():
    w = torch.ones(2, 2, requires_grad=True)
    (w * 3).sum().backward()
    rows = trace(lambda: w.grad * 2).rows
    assert [(row.operation, row.bytes, row.note) for row in rows] == [("grad", 0, "was there before"), ("mul", 16, "")]


def test_multihead_attention_of_torch_says_that_it_is_opaque():
    x = torch.randn(2, 3, 4)
    for train in (True, False):
        traced = trace(nn.MultiheadAttention(4, 2, dropout=0.1, batch_first=True).train(train), x, x, x)
        (row,) = [row for row in traced.rows if row.operation == "multi_head_attention_forward"]
        assert "opaque" in row.note
        assert traced.unused == []


def test_the_table_in_text_and_markdown():
    traced = trace(LEAKS["masked_fill_"], torch.ones(2, 2), torch.eye(2, dtype=torch.bool))
    assert traced.unused == []  # it is the result here
    traced = trace(lambda x: (x.masked_fill_(x > 0, 0), x.exp(), x.T)[2], torch.ones(2, 2))
    summary = "4 operations, 20 bytes of new memory. Never used: row 3 (exp)."
    assert (
        str(traced)
        == repr(traced)
        == "\n".join(
            [
                "   row  operation     inputs          output  bytes  note",
                "   1    gt            (2, 2)          (2, 2)  4",
                "   2    masked_fill_  (2, 2), (2, 2)  (2, 2)  0      in place",
                "-> 3    exp           (2, 2)          (2, 2)  16     never used",
                "   4    T             (2, 2)          (2, 2)  0      view",
                summary,
            ]
        )
    )
    markdown = traced._repr_markdown_().splitlines()
    assert markdown[:2] == ["| row | operation | inputs | output | bytes | note |", "| --- " * 6 + "|"]
    assert markdown[3] == "| 2 | `masked_fill_` | (2, 2), (2, 2) | (2, 2) | 0 | in place |"
    assert markdown[4] == "| **→ 3** | **`exp`** | **(2, 2)** | **(2, 2)** | **16** | **never used** |"
    assert markdown[-2:] == ["", summary]
    assert str(trace(int)).endswith("0 operations, 0 bytes of new memory. Every result was used.")


# ---- manners


def test_errors():
    with pytest.raises(TypeError, match="got int"):
        trace(3)
    with pytest.raises(TypeError, match=r"got Tensor: write trace\(layer, x\)"):
        trace(torch.ones(2))
    error = KeyError("mine")

    def fail():
        torch.ones(2) + 1
        raise error

    with pytest.raises(KeyError) as caught:
        trace(fail)
    assert caught.value is error
    assert unused(lambda: torch.ones(2)) == []  # and the next trace starts afresh


def test_arguments_arrive_even_one_called_f():
    assert trace(lambda *args, **kwargs: (args, kwargs), 1, f=2, x=3).result == ((1,), {"f": 2, "x": 3})


def test_nothing_stays_alive_afterwards():
    gone = []

    def f(x):
        y = x * 2
        gone.append(weakref.ref(y.untyped_storage()))
        return y.sum()

    traced = trace(f, torch.ones(3))
    assert gone[0]() is None
    assert traced.rows[0].operation == "mul"

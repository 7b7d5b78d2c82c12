"""The trace: what it lists is right, it misses no result that nobody used, and it raises no false alarm."""

import gc
import subprocess
import sys
import weakref
from dataclasses import dataclass

import pytest
import torch
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

INF = torch.inf


def unused(f, *args, **kwargs):
    return [row.operation for row in trace(f, *args, **kwargs).unused]


# ---- leaks: layers that mask a copy and throw it away

LEAKS = {
    "masked_fill": lambda scores, mask: scores.masked_fill(mask, -INF),
    "masked_fill of a view": lambda scores, mask: scores.transpose(-1, -2).masked_fill(mask.mT, -INF),
    "fill_": lambda scores, mask: scores[mask].fill_(-INF),
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
        self.register_buffer("mask", torch.ones(8, 8, dtype=torch.bool).triu(1))

    def forward(self, x):
        b, num_tokens, width = x.shape
        qkv = self.qkv(x).view(b, num_tokens, 3, self.num_heads, width // self.num_heads)
        queries, keys, values = qkv.permute(2, 0, 3, 1, 4)
        scores = queries @ keys.mT / keys.shape[-1] ** 0.5
        mask = self.mask[:num_tokens, :num_tokens].expand_as(scores)
        if self.keep:
            masked = self.mask_in_vain(scores, mask)
            assert masked.shape is not None  # asking for its shape does not use its values
        else:
            self.mask_in_vain(scores, mask)
        weights = self.dropout(scores.softmax(-1))
        return (weights @ values).transpose(1, 2).reshape(b, num_tokens, width)


def check_leaks(seeds):
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        b, num_tokens, num_heads, head_dim, train, grad, keep = (
            int(torch.randint(low, high, (), generator=generator))
            for low, high in ((1, 4), (2, 9), (1, 4), (1, 5), (0, 2), (0, 2), (0, 2))
        )
        name = list(LEAKS)[seed % len(LEAKS)]
        layer = Leaky(num_heads * head_dim, num_heads, LEAKS[name], keep).train(bool(train))
        x = torch.randn(b, num_tokens, num_heads * head_dim, generator=generator)
        with torch.set_grad_enabled(bool(grad)):
            assert unused(layer, x) == [name.split()[0]], f"seed {seed}"


def test_no_leak_is_missed_in_200_runs():
    check_leaks(range(200))


@pytest.mark.slow
def test_no_leak_is_missed_in_5000_runs():
    check_leaks(range(200, 5200))


def assign_at_mask(scores, mask):
    scores[mask] = -INF
    return scores.softmax(-1)


def fill_a_view(scores, mask):
    scores[:2].fill_(0)
    return scores.softmax(-1)


@pytest.mark.parametrize("f", [assign_at_mask, fill_a_view])
def test_writing_into_the_scores_themselves_is_no_leak(f):
    mask = torch.eye(3, dtype=torch.bool)
    assert unused(f, torch.ones(3, 3), mask) == []
    assert unused(lambda: f(torch.ones(3, 3), mask)) == []  # scores that the call itself made


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


NORM, SPECTRAL = nn.BatchNorm1d(3), nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))


def waste_a_write(x):
    y = x * 2
    z = y + 1
    y.zero_()
    return z


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (waste_a_view, ["transpose"]),
        (waste_in_a_cycle, ["mul"]),
        (waste_a_write, ["zero_"]),
        (lambda x: (x.max(0), x.sum())[1], ["max"]),
        (lambda x: ((x + 1).shape, (x + 2).dtype, len(x + 3), (x + 4).dim()), ["add"] * 4),
        (lambda x: (x.to_sparse(), x.sum())[1], ["to_sparse"]),
        (lambda x: (torch.empty(0).exp(), x.sum())[1], ["exp"]),  # an empty storage is a storage
        (torch.vmap(lambda row: (row.masked_fill(row > 0, 0), row.sin())[1]), ["masked_fill"]),
        (lambda x: (x.split(1), (x + 1).chunk(2), x.unbind(), x.sum())[3], ["split", "chunk", "unbind"]),
        (lambda x: (F.softmax(x, dim=-1), x.sum())[1], ["softmax"]),  # through torch's own Python code
        (lambda x: [nn.Softmax(dim=-1)(x) for _ in range(3)][2], ["softmax"] * 2),  # one line, but three calls
        (lambda x: (F.relu(x * 2, inplace=True), x.sum())[1], ["relu"]),
        (lambda x: (NORM(x), x.sum())[1], ["batch_norm"]),  # though it also counted
        (lambda x: (SPECTRAL(x), x.sum())[1], ["linear"]),
        (nn.Sequential(nn.ReLU(), Wasteful(), nn.Softmax(dim=-1)), ["masked_fill"]),
    ],
)
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
    yield from (nn.LSTM(6, 4, 2, dropout=0.3), nn.GRU(6, 4, bidirectional=True), nn.BatchNorm1d(4))


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


def write_through_a_view(x):
    out = torch.zeros_like(x)
    out.view(-1).copy_(x.view(-1))
    return out


def use_only_a_view(x):
    y = x * 2
    y.view(-1)[0] = 5
    return y.T[1:]


def read_by_if(x):
    return 1 if (x > 0).any() else 2


class TrainingStep:
    def __init__(self):
        self.layer = nn.Linear(3, 3)

    def __call__(self, x):
        optimizer = torch.optim.AdamW(self.layer.parameters())  # its import costs a second
        for _ in range(2):
            loss = self.layer(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()


def train_a_layer_of_its_own(set_to_none):
    def f(x):
        layer = nn.Linear(3, 3)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad(set_to_none=set_to_none)
            loss = layer(x).square().mean()
            loss.backward()
            optimizer.step()
        return loss.item()

    return f


FINE = [
    Cached(),
    pytest.param(train_a_layer_of_its_own(True), marks=pytest.mark.slow),  # the import of optimizers costs a second
    pytest.param(train_a_layer_of_its_own(False), marks=pytest.mark.slow),
    lambda x: nn.LSTM(3, 2)(x)[0],  # of one sentence: it also squeezes its last states, and nobody reads them
    lambda x: nn.GRU(3, 2)(x)[0],
    lambda x: nn.LSTMCell(3, 2)(x)[0],
    lambda x: nn.BatchNorm1d(3)(x),  # made here: the counter of its batches is never read
    lambda x: nn.InstanceNorm1d(3, track_running_stats=True)(x[None]),
    lambda x: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2))(x),
    lambda x: nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))(x),
    lambda x: SPECTRAL(x) + NORM(x),
    fill_row_by_row,
    write_through_a_view,
    use_only_a_view,
    read_by_if,
    pytest.param(TrainingStep(), marks=pytest.mark.slow),
    lambda x: x.max(0).values,
    lambda x: x.topk(2).indices,
    lambda x: x.split([1, 2])[1],
    lambda x: x.chunk(3)[0] + 1,
    lambda x: {"a": [x + 1, (x + 2, {"b": x + 3})], "c": Box(x * 2)},
    lambda x: (x + 1).sum().item(),
    lambda x: (x + 1).tolist(),
    lambda x: float((x + 1).mean()),
    lambda x: (x + 1).numpy().copy(),
    lambda x: f"{x + 1}",
    lambda x: torch.allclose(x + 1, x + 2),
    lambda x: list((x + 1).unbind()),
    lambda x: x[: (x > 0).sum(1).max()],
    lambda x: torch.stack([x + 1, x + 2]),
    lambda x: torch.add(x, 1, out=torch.empty(3, 3)),
    lambda x: F.dropout(x, 0.5, training=False),
    lambda x: nn.Parameter(x + 1),
    lambda x: torch.sparse.mm(x.to_sparse(), x).relu_(),
    lambda x: torch.view_as_real(torch.polar(x.abs(), x)),
    lambda x: torch.nested.nested_tensor([x, x]).to_padded_tensor(0.0),  # a tensor without a shape
    lambda x: torch.vmap(lambda row: row.exp().view(3, 1))(x + 1),
    lambda x: torch.func.jacrev(lambda y: y.exp().sum(-1))(x),
    lambda x: torch.autograd.functional.jacobian(lambda y: y.exp().sum(-1), x + 1),
    lambda x: x.half() @ x.half(),
    lambda x: torch.empty(3, 3, device="meta").softmax(-1),
    torch.inference_mode()(lambda x: (x + 1).mul_(2)),
]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("f", FINE)
def test_no_false_alarm_on_correct_code(f):
    assert unused(f, torch.rand(3, 3) if not isinstance(f, Cached) else torch.rand(2, 3, 3)) == []


def test_what_a_list_or_a_closure_holds_is_used():
    kept = []
    assert unused(lambda: kept.append(torch.ones(3) + 1)) == []
    assert unused(lambda: kept.append(torch.ones(3, 3).max(0).indices)) == []  # one output of two
    spectral = nn.utils.parametrizations.spectral_norm
    assert unused(lambda: kept.append(spectral(nn.Linear(3, 2)))) == []  # made, not called; it tries its norm once
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
        return values.contiguous(), indices, torch.add(z, 1, out=z)

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
    ]


def test_bytes_of_half_precision_meta_and_sparse():
    meta = torch.empty(1000, 1000, device="meta")
    x = torch.ones(3, 3)
    rows = trace(lambda: [x.half(), meta * 2, x.to_sparse()]).rows
    assert [(row.bytes, row.note) for row in rows] == [(18, ""), (4_000_000, ""), (0, "bytes not known")]


def test_what_a_property_hands_out_is_no_new_memory():
    w = torch.ones(2, 2, requires_grad=True)
    (w * 3).sum().backward()

    def f(x):
        c = torch.complex(x, x)
        return w.grad, w.grad * 2, w.data, x.T, x.mT, c.real, c.imag

    rows = trace(f, torch.ones(2, 2)).rows
    assert [row[0] for row in rows] == ["complex", "grad", "grad", "mul", "data", "T", "mT", "real", "imag"]
    assert [row.bytes for row in rows] == [32, 0, 0, 16, 0, 0, 0, 0, 0]
    assert [row.note for row in rows] == ["", *["was there before"] * 2, "", *["view"] * 5]
    made = trace(lambda: torch.ones(2, requires_grad=True).exp().sum().backward()).rows
    assert sum(row.bytes for row in made) == 8 + 8 + 4  # the gradient that backward made is in no row


def test_a_property_nobody_reads_is_no_waste_of_memory_but_a_view_is_one():
    w = torch.ones(2, 2, requires_grad=True)
    (w * 3).sum().backward()
    rows = trace(lambda: (w.grad, w.data, 0)[2]).rows
    assert [row.note for row in rows] == ["was there before", "never used, view"]


def test_a_part_of_a_split_that_nobody_reads_is_named():
    def f(x):
        queries, keys, values = x.chunk(3)
        halves = x.T.split(2, dim=1)
        return queries @ keys.mT, values.shape is None, halves[0].exp(), x.max(dim=0).values

    rows = trace(f, torch.ones(6, 4)).rows
    notes = {row.operation: row.note for row in rows}
    assert notes["chunk"] == "view"  # who asks for a view's shape has used it
    assert notes["split"] == "view, never read: part 2, 3 of 3"
    assert notes["max"] == ""
    assert trace(f, torch.ones(6, 4)).unused == []

    def g(x):
        queries, _, values = x.chunk(3)
        return queries @ values.mT

    assert trace(g, torch.ones(6, 4)).rows[0].note == "view, never read: part 2 of 3"
    kept = []
    assert trace(lambda x: kept.append(x.chunk(3)), torch.ones(6, 4)).rows[0].note == "view"


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
    with pytest.raises(TypeError, match=r"f must be callable, got int"):
        trace(3)
    with pytest.raises(TypeError, match=r"f must be callable, got Tensor: write trace\(layer, x\)"):
        trace(torch.ones(2))
    error = KeyError("mine")

    def fail():
        torch.ones(2) + 1
        raise error

    with pytest.raises(KeyError) as caught:
        trace(fail)
    assert caught.value is error
    assert unused(lambda: torch.ones(2)) == []  # and the next trace starts afresh


@pytest.mark.slow
@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_compiled_function_is_traced_as_it_was_written(fullgraph):
    layer, x = Leaky(4, 2, LEAKS["masked_fill"], keep=False).eval(), torch.randn(1, 3, 4)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=fullgraph)
    for _ in range(2):  # before its first call, and after it
        traced = trace(compiled, x)
        assert traced.rows == trace(layer, x).rows
        assert [row.operation for row in traced.unused] == ["masked_fill"]
        torch.testing.assert_close(compiled(x), traced.result)


COMPILES = """
import torch
from attention_helpers import trace
compiled = lambda x: torch.compile(lambda x: x.masked_fill(x > 0, 0) * 2, backend="aot_eager", fullgraph=True)(x + 1)
try:
    trace(compiled, torch.ones(3))
except RuntimeError as error:
    print(error)
print(len(trace(compiled, torch.ones(3)).rows))
"""


@pytest.mark.slow
def test_a_function_that_is_the_first_to_compile_is_told_to_do_so_before():
    run = subprocess.run([sys.executable, "-c", COMPILES], capture_output=True, text=True, check=True)
    said = "f compiles a function while it is traced: call torch.compile before the trace"
    assert run.stdout.splitlines() == [said, "4"]


def test_arguments_arrive_even_one_called_f():
    assert trace(lambda *args, **kwargs: (args, kwargs), 1, f=2, x=3).result == ((1,), {"f": 2, "x": 3})


def test_a_trace_within_a_trace():
    layer = Leaky(4, 2, LEAKS["masked_fill"], keep=False)
    x = torch.randn(1, 3, 4)
    inner = []

    def f():
        inner.append(trace(layer, x))
        return inner[0].result

    outer = trace(f)
    assert outer.rows == inner[0].rows
    assert [row.operation for row in outer.unused] == ["masked_fill"]


def test_nothing_stays_alive_afterwards():
    gone = []

    def f(x):
        y = x * 2
        gone.append(weakref.ref(y.untyped_storage()))
        return y.sum()

    traced = trace(f, torch.ones(3))
    assert gone[0]() is None
    assert traced.rows[0].operation == "mul"


def test_the_usual_layer_costs_no_garbage_collection(monkeypatch):
    collected = []
    monkeypatch.setattr(gc, "collect", lambda: collected.append(1))
    assert unused(MultiHeadAttention(6, 4, 5, 0.3, 2), torch.randn(2, 4, 6)) == []
    assert unused(Leaky(6, 2, LEAKS["masked_fill"], keep=False), torch.randn(2, 4, 6)) == ["masked_fill"]
    assert collected == []

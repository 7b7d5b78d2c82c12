"""What attention costs: the formulas against real layers, and the measuring functions."""

import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from attention_helpers import MultiHeadAttention, max_difference
from attention_helpers.fast import costs
from attention_helpers.fast.attention import FusedMultiHeadAttention, TorchAttention
from attention_helpers.fast.costs import (
    cache_bytes,
    flops,
    flops_per_cached_byte,
    medians,
    parameters,
    peak_bytes,
    slope,
    table_bytes,
    timed,
)


@pytest.mark.parametrize(("d_in", "d_out", "qkv_bias"), [(3, 4, False), (3, 4, True), (8, 8, True)])
def test_parameters_are_those_of_the_layer(d_in, d_out, qkv_bias):
    layer = MultiHeadAttention(d_in, d_out, 8, 0.0, 2, qkv_bias)
    assert parameters(d_in, d_out, qkv_bias) == sum(p.numel() for p in layer.parameters())


@pytest.mark.parametrize(("num_tokens", "d_in", "d_out", "b"), [(5, 3, 4, 1), (7, 6, 8, 3)])
def test_operations_are_two_for_each_term_of_each_product(num_tokens, d_in, d_out, b):
    """Counted from the shapes of the products that run: rows, columns and the terms of each sum."""
    layer, x = MultiHeadAttention(d_in, d_out, 8, 0.0, 2), torch.randn(b, num_tokens, d_in)
    steps, linears = layer.steps(x), (layer.W_query, layer.W_key, layer.W_value)
    assert flops(num_tokens, d_in, d_out, b) == {
        "q, k, v": sum(2 * linear(x).numel() * linear.in_features for linear in linears),
        "scores": 2 * steps.scores.numel() * layer.head_dim,
        "context": 2 * steps.context.numel() * num_tokens,
        "out_proj": 2 * layer.out_proj(steps.context).numel() * layer.out_proj.in_features,
    }


def test_bytes_are_those_of_the_tensors():
    layer = FusedMultiHeadAttention(6, 8, 10, 0.0, 2).eval()
    x = torch.randn(3, 5, 6)
    steps, (_, cache) = layer.to_split().steps(x), layer.step(x)
    assert table_bytes(5, 2, b=3) == steps.scores.nbytes
    assert cache_bytes(5, 8, b=3) == cache.keys.numel() * 4 + cache.values.numel() * 4
    assert table_bytes(5, 2, bytes_per_number=2) == steps.scores[:1].half().nbytes


@pytest.mark.parametrize(("num_tokens", "b"), [(7, 1), (1000, 3)])
@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(12, 12), (12, 4), (12, 1)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_decoding_uses_each_cached_number_once_per_query_head(num_tokens, b, num_heads, num_kv_heads, dtype):
    with torch.device("meta"):
        queries = torch.empty(b, num_heads, 1, 64, dtype=dtype)
        keys, values = torch.empty(2, b, num_kv_heads, num_tokens, 64, dtype=dtype)
    with FlopCounterMode(display=False) as counter:
        scaled_dot_product_attention(queries, keys, values, enable_gqa=True)
    per_byte = counter.get_total_flops() / (keys.nbytes + values.nbytes)
    assert per_byte == flops_per_cached_byte(num_heads, num_kv_heads, dtype.itemsize)


def test_the_backward_pass_needs_the_splits_weights_but_no_matrix_of_the_fused_layer():
    """Forward and backward at 512 tokens; three score matrices of split exist at once, of fused none."""
    torch.manual_seed(0)
    split = MultiHeadAttention(128, 128, 512, 0.0, 4)
    x, peaks = torch.randn(1, 512, 128), {}
    for name, layer in {"split": split, "fused": FusedMultiHeadAttention.from_split(split)}.items():
        peaks[name] = peak_bytes(lambda layer=layer: layer(x).sum().backward())
    assert peaks["split"] > 3 * table_bytes(512, 4)
    assert peaks["fused"] < table_bytes(512, 4)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: flops_per_cached_byte(12, 5), ValueError, "num_kv_heads must divide num_heads, got 5 and 12"),
        (lambda: flops_per_cached_byte(12, 0), ValueError, "num_kv_heads must be at least 1, got 0"),
        (lambda: flops(0, 3, 4), ValueError, "num_tokens must be at least 1, got 0"),
        (lambda: flops(5, 3.5, 4), TypeError, "d_in must be a whole number, got 3.5"),
        (lambda: table_bytes(3, "2"), TypeError, "num_heads must be a whole number, got '2'"),
        (lambda: table_bytes(3, 2, bytes_per_number=-4), ValueError, "bytes_per_number must be at least 1, got -4"),
        (lambda: cache_bytes(-1, 2), ValueError, "num_tokens must be at least 1, got -1"),
        (lambda: parameters(3, -2), ValueError, "d_out must be at least 1, got -2"),
        (lambda: parameters(3, 2, 1), TypeError, "qkv_bias must be True or False, got 1"),
        (lambda: slope([2, 2], [1, 3]), ValueError, "got 2 sizes, 1 of them different, and 2 costs"),
        (lambda: slope([1, 2], [0, 3]), ValueError, "costs must be above 0, got 0"),
        (lambda: slope([1, float("nan")], [1, 3]), ValueError, "sizes must be finite, got nan"),
        (lambda: slope(5, [1, 2]), TypeError, "sizes must be a list of numbers, got 5"),
    ],
)
def test_costs_of_nothing(call, error, said):
    with pytest.raises(error) as caught:
        call()
    assert said in str(caught.value)


def test_a_peak_holds_what_lives_at_the_same_time():
    def one_after_the_other():
        for _ in range(3):
            torch.ones(250_000)  # a million bytes

    def together():
        return [torch.ones(250_000) for _ in range(3)]

    assert peak_bytes(one_after_the_other) == pytest.approx(1e6, rel=0.01)
    assert peak_bytes(together) == pytest.approx(3e6, rel=0.01)


def test_the_fused_layers_memory_grows_with_the_length_the_splits_with_its_square():
    lengths, split = (256, 512, 1024, 2048), MultiHeadAttention(128, 128, 2048, 0.0, 2).eval()
    peaks = {}
    with torch.no_grad():
        for name, layer in {"split": split, "fused": FusedMultiHeadAttention.from_split(split)}.items():
            peaks[name] = [peak_bytes(layer, torch.randn(1, n, 128)) for n in lengths]
    assert slope(lengths, peaks["split"]) > 1.7
    assert slope(lengths, peaks["fused"]) < 1.2


def test_slope():
    assert slope([1, 2, 4], [3, 12, 48]) == pytest.approx(2)
    assert slope([1, 10], [5, 5]) == pytest.approx(0)
    assert slope([1, 2, 4, 8], [1, 4, 16, 8]) == pytest.approx(1.1)  # least squares, not the ends
    measured = {2: 8, 4: 64}
    assert slope(measured, measured.values()) == pytest.approx(3)


def test_times_are_taken_in_turns():
    calls = []
    seconds = timed({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, runs=3, warm=2)
    assert calls == ["a", "b"] * 5
    assert {name: len(taken) for name, taken in seconds.items()} == {"a": 3, "b": 3}
    assert medians({"a": [3, 1, 11], "b": [1, 2]}) == {"a": 3, "b": 1.5}
    with pytest.raises(ValueError, match="warm must be at least 0, got -1"):
        timed({}, warm=-1)
    with pytest.raises(ValueError, match="runs must be at least 1, got 0"):
        timed({}, runs=0)


def test_times_are_those_of_the_runs_after_the_warm_ones(monkeypatch):
    now, calls = [0.0], []  # each call takes a second more than the one before
    monkeypatch.setattr(costs.time, "perf_counter", lambda: now[0])

    def longer_each_time():
        calls.append(None)
        now[0] += len(calls)

    assert timed({"a": longer_each_time}, runs=3, warm=2) == {"a": [3.0, 4.0, 5.0]}
    assert timed({"a": longer_each_time}, runs=1, warm=0) == {"a": [6.0]}
    assert len(timed({"a": longer_each_time})["a"]) == 7
    assert len(calls) == 6 + 8  # one warm-up run each


@pytest.mark.parametrize("qkv_bias", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_torchs_own_computes_the_same(qkv_bias, training):
    torch.manual_seed(0)
    split = MultiHeadAttention(8, 8, 6, 0.0, 2, qkv_bias).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    torchs = TorchAttention(split).train(training)
    assert max_difference(torchs(x), split(x)) < 1e-10
    assert max_difference(torchs(x[:, :3]), split(x[:, :3])) < 1e-10
    assert torchs.state_dict().keys() == {f"attention.{name}" for name in torchs.attention.state_dict()}  # no mask
    assert not {p.data_ptr() for p in torchs.parameters()} & {p.data_ptr() for p in split.parameters()}
    assert all(p.requires_grad for p in torchs.parameters())


def test_what_torchs_own_cannot_be():
    with pytest.raises(ValueError, match="got d_in=3, d_out=4"):
        TorchAttention(MultiHeadAttention(3, 4, 6, 0.0, 2))
    with pytest.raises(TypeError, match="split must be a MultiHeadAttention, got Linear"):
        TorchAttention(nn.Linear(1, 1))


def test_measuring_memory_prints_nothing_where_a_thread_imported_torch():
    """As in a kernel of the course, which imports torch on a thread while the learner reads."""
    code = """import threading
thread = threading.Thread(target=lambda: __import__("torch"))
thread.start(), thread.join()
import torch
from attention_helpers.fast.costs import peak_bytes
print(peak_bytes(torch.zeros, 1000), peak_bytes(torch.zeros, 1000))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("4000 4000\n", "")

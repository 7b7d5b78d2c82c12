"""What attention costs: the formulas against real layers, and the measuring functions."""

import subprocess
import sys
from functools import partial

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from attention_helpers import MultiHeadAttention
from attention_helpers.fast import costs
from attention_helpers.fast.attention import FusedMultiHeadAttention
from attention_helpers.fast.costs import (
    cache_bytes,
    flops,
    flops_per_cached_byte,
    parameters,
    peak_bytes,
    table_bytes,
    timed,
)


@pytest.mark.parametrize(("d_in", "d_out", "qkv_bias"), [(3, 4, False), (3, 4, True), (8, 8, True)])
def test_parameters_are_those_of_the_layer(d_in, d_out, qkv_bias):
    layer = MultiHeadAttention(d_in, d_out, 8, 0.0, 2, qkv_bias)
    assert parameters(d_in, d_out, qkv_bias) == sum(p.numel() for p in layer.parameters())


def test_operations_are_those_that_torch_counts():
    layer, x = MultiHeadAttention(6, 8, 9, 0.0, 2), torch.randn(3, 7, 6)
    with FlopCounterMode(display=False) as counter:
        layer(x)
    parts = flops(7, 6, 8, 3)
    assert sum(parts.values()) == counter.get_total_flops()
    assert parts["scores"] == parts["context"] == 2 * 4 * layer.steps(x).scores.numel()  # head_dim is 4
    assert parts["out_proj"] == 2 * 8 * x[..., 0].numel() * 8


def test_bytes_are_those_of_the_tensors():
    split = MultiHeadAttention(6, 8, 10, 0.0, 2).eval()
    x = torch.randn(3, 5, 6)
    steps, (_, cache) = split.steps(x), FusedMultiHeadAttention.from_split(split).step(x)
    assert table_bytes(5, 2, b=3) == steps.scores.nbytes
    assert cache_bytes(5, 8, b=3) == cache.keys.numel() * 4 + cache.values.numel() * 4
    assert table_bytes(5, 2, bytes_per_number=2) == steps.scores[:1].half().nbytes


@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(12, 12), (12, 4)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_decoding_uses_each_cached_number_once_per_query_head(num_heads, num_kv_heads, dtype):
    with torch.device("meta"):
        queries = torch.empty(3, num_heads, 1, 64, dtype=dtype)
        keys, values = torch.empty(2, 3, num_kv_heads, 1000, 64, dtype=dtype)
    with FlopCounterMode(display=False) as counter:
        scaled_dot_product_attention(queries, keys, values, enable_gqa=True)
    per_byte = counter.get_total_flops() / (keys.nbytes + values.nbytes)
    assert per_byte == flops_per_cached_byte(num_heads, num_kv_heads, dtype.itemsize)


def test_a_peak_holds_what_lives_at_the_same_time():
    def one_after_the_other():
        for _ in range(3):
            torch.ones(250_000)  # a million bytes

    def together():
        return [torch.ones(250_000) for _ in range(3)]

    assert peak_bytes(one_after_the_other) == pytest.approx(1e6, rel=0.01)
    assert peak_bytes(together) == pytest.approx(3e6, rel=0.01)


def test_the_fused_layers_memory_grows_with_the_length_the_splits_with_its_square():
    lengths, split = (256, 512, 1024), MultiHeadAttention(128, 128, 1024, 0.0, 2)
    forward, both = {}, {}
    for name, layer in {"split": split, "fused": FusedMultiHeadAttention.from_split(split)}.items():
        with torch.no_grad():
            forward[name] = [peak_bytes(layer, torch.randn(1, n, 128)) for n in lengths]
        both[name] = peak_bytes(lambda layer=layer: layer(torch.randn(1, 512, 128)).sum().backward())
    assert forward["split"][-1] > 9 * forward["split"][0]  # 4 times the length
    assert forward["fused"][-1] < 5 * forward["fused"][0]
    assert both["split"] > 3 * table_bytes(512, 2)  # three score matrices exist at once
    assert both["fused"] < 2 * table_bytes(512, 2)


def test_times_are_taken_in_turns_after_the_warm_runs(monkeypatch):
    now, calls = [0.0], []
    monkeypatch.setattr(costs.time, "perf_counter", lambda: now[0])

    def longer_each_time(name):
        calls.append(name)
        now[0] += len(calls)

    found = timed({name: partial(longer_each_time, name) for name in "ab"}, runs=3, warm=2)
    assert found == {"a": [5.0, 7.0, 9.0], "b": [6.0, 8.0, 10.0]}
    assert calls == ["a", "b"] * 5


@pytest.mark.slow  # starts torch again
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

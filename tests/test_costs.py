"""What attention costs: the formulas against what layers do, and the measuring itself."""

import pytest
import torch
from torch import nn

from attention_helpers import MultiHeadAttention, max_difference
from attention_helpers.beyond.costs import (
    cache_bytes,
    flops,
    medians,
    parameters,
    peak_bytes,
    slope,
    table_bytes,
    timed,
)
from attention_helpers.beyond.efficient import FusedMultiHeadAttention, TorchAttention


@pytest.mark.parametrize(("d_in", "d_out", "qkv_bias"), [(3, 4, False), (3, 4, True), (8, 8, True)])
def test_parameters_are_those_of_the_layer(d_in, d_out, qkv_bias):
    layer = MultiHeadAttention(d_in, d_out, 8, 0.0, 2, qkv_bias)
    assert parameters(d_in, d_out, qkv_bias) == sum(p.numel() for p in layer.parameters())


@pytest.mark.slow  # torch's counter takes seconds to import
@pytest.mark.parametrize(("num_tokens", "d_in", "d_out", "b"), [(5, 3, 4, 1), (7, 6, 8, 3)])
def test_operations_are_those_that_torch_counts(num_tokens, d_in, d_out, b):
    from torch.utils.flop_counter import FlopCounterMode

    layer = MultiHeadAttention(d_in, d_out, 8, 0.0, 2)
    with FlopCounterMode(display=False) as counter:
        layer(torch.randn(b, num_tokens, d_in))
    assert sum(flops(num_tokens, d_in, d_out, b).values()) == counter.get_total_flops()


def test_bytes_are_those_of_the_tensors():
    layer = FusedMultiHeadAttention(6, 8, 10, 0.0, 2).eval()
    x = torch.randn(3, 5, 6)
    steps, (_, cache) = layer.to_split().steps(x), layer.step(x)
    assert table_bytes(5, 2, b=3) == steps.scores.nbytes
    assert cache_bytes(5, 8, b=3) == cache.keys.numel() * 4 + cache.values.numel() * 4
    assert table_bytes(5, 2, bytes_per_number=2) == steps.scores[:1].half().nbytes


@pytest.mark.parametrize(
    ("sizes", "error"), [((0, 3, 4), ValueError), ((5, 3.5, 4), TypeError), ((5, 3, 4, 0), ValueError)]
)
def test_impossible_sizes(sizes, error):
    with pytest.raises(error, match="must be"):
        flops(*sizes)


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


def test_times_are_taken_in_turns():
    calls = []
    seconds = timed({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, runs=3, warm=2)
    assert calls == ["a", "b"] * 5
    assert {name: len(taken) for name, taken in seconds.items()} == {"a": 3, "b": 3}
    assert medians({"a": [3, 1, 2]}) == {"a": 2}
    with pytest.raises(ValueError, match="runs must be at least 1, got 0"):
        timed({}, runs=0)


@pytest.mark.parametrize("qkv_bias", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_torchs_own_computes_the_same(qkv_bias, training):
    torch.manual_seed(0)
    split = MultiHeadAttention(8, 8, 6, 0.0, 2, qkv_bias).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    assert max_difference(TorchAttention(split).train(training)(x), split(x)) < 1e-10


def test_what_torchs_own_cannot_be():
    with pytest.raises(ValueError, match="got d_in=3, d_out=4"):
        TorchAttention(MultiHeadAttention(3, 4, 6, 0.0, 2))
    with pytest.raises(TypeError, match="split must be a MultiHeadAttention, got Linear"):
        TorchAttention(nn.Linear(1, 1))

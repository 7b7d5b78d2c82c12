"""What attention costs: the formulas against real layers, and the measuring functions."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attention_helpers import MultiHeadAttention
from attention_helpers.costs import cache_bytes, flops, parameters, table_bytes


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
    steps = split.steps(x)
    assert table_bytes(5, 2, b=3) == steps.scores.nbytes
    assert cache_bytes(5, 8, b=3) == steps.keys.numel() * 4 + steps.values.numel() * 4
    assert table_bytes(5, 2, bytes_per_number=2) == steps.scores[:1].half().nbytes

"""What attention costs: the formula against what torch counts."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from attention_helpers import MultiHeadAttention
from attention_helpers.costs import flops


def test_flops_are_those_that_torch_counts():
    layer, x = MultiHeadAttention(6, 8, 9, 0.0, 2), torch.randn(3, 7, 6)
    with FlopCounterMode(display=False) as counter:
        layer(x)
    parts = flops(7, 6, 8, 3)
    assert sum(parts.values()) == counter.get_total_flops()
    assert parts["scores"] == parts["context"] == 2 * 3 * 7 * 7 * 8
    assert parts["out_proj"] == 2 * 8 * x[..., 0].numel() * 8

"""The wrapper, the split class and torch's own attention compute the same function of the same weights.

Each implementation below takes the weights of MultiHeadAttention by name, so that a gradient with respect to a
weight means the same in all of them.
"""

import pytest
import torch
import torch.nn.functional as F
from sizes import build, over_sizes
from torch import nn
from torch.func import functional_call

PROJECTIONS = ("W_query", "W_key", "W_value")


def split(sizes, weights, x):
    return functional_call(build("MultiHeadAttention", sizes), weights, (x,))


def wrapper(sizes, weights, x):
    """Head h owns the rows h * head_dim to (h + 1) * head_dim of each matrix, in this order."""
    by_head = {}
    for name, tensor in weights.items():
        if name.startswith(PROJECTIONS):
            for h, rows in enumerate(tensor.chunk(sizes.num_heads)):
                by_head[f"heads.{h}.{name}"] = rows
    context = functional_call(build("MultiHeadAttentionWrapper", sizes), by_head, (x,))
    return F.linear(context, weights["out_proj.weight"], weights["out_proj.bias"])


def sdpa(sizes, weights, x):
    def heads(name):
        y = F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))
        return y.unflatten(-1, (sizes.num_heads, sizes.head_dim)).transpose(1, 2)

    context = F.scaled_dot_product_attention(*map(heads, PROJECTIONS), is_causal=True)
    return F.linear(context.transpose(1, 2).flatten(2), weights["out_proj.weight"], weights["out_proj.bias"])


def torch_mha(sizes, weights, x):
    none = x.new_zeros(sizes.d_out)  # torch has a bias for both in- and out-projection, or for neither
    stacked = {
        "in_proj_weight": torch.cat([weights[f"{name}.weight"] for name in PROJECTIONS]),
        "in_proj_bias": torch.cat([weights.get(f"{name}.bias", none) for name in PROJECTIONS]),
        "out_proj.weight": weights["out_proj.weight"],
        "out_proj.bias": weights["out_proj.bias"],
    }
    layer = nn.MultiheadAttention(sizes.d_out, sizes.num_heads, batch_first=True)
    hide = torch.ones(sizes.num_tokens, sizes.num_tokens, dtype=torch.bool).triu(1)
    return functional_call(layer, stacked, (x, x, x), {"attn_mask": hide, "need_weights": False})[0]


def results(implementation, sizes, dtype):
    """The output, and the gradients of x and of each weight."""
    layer = build("MultiHeadAttention", sizes).to(dtype)
    weights, x = dict(layer.named_parameters()), sizes.x(dtype).requires_grad_()
    y = implementation(sizes, weights, x)
    direction = torch.linspace(-1, 1, y.numel(), dtype=dtype).view(y.shape)
    return [y, *torch.autograd.grad((y * direction).sum(), [x, *weights.values()])]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("implementation", [wrapper, sdpa, torch_mha], ids=lambda f: f.__name__)
@over_sizes
def test_split_equals(implementation, dtype, sizes):
    """The output and all gradients: float64 to 1e-10; float32 to 1e-5 of the largest entry."""
    if implementation is torch_mha:
        sizes = sizes._replace(d_in=sizes.d_out)  # torch's layer requires it
    ours, theirs = results(split, sizes, dtype), results(implementation, sizes, dtype)
    atol = 1e-10 if dtype == torch.float64 else 1e-5 * max(entries.abs().max().item() for entries in ours)
    for expected, actual in zip(ours, theirs, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=atol)

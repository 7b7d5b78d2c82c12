"""Rotary positions (RoPE), and the layer that uses them (notebook 11)."""

import torch
from torch import nn
from torch.nn import functional as F


def rope_frequencies(head_dim, base=10_000.0):
    """Frequencies of plain RoPE, in radians per token: base ** (-2i / head_dim) for pair i, (head_dim / 2,), float64.

    Errors: ValueError for an odd head_dim. Source: Su et al. 2021 (arXiv 2104.09864), section 3.2.2.
    """
    if head_dim % 2:
        raise ValueError(f"head_dim must be even, got {head_dim}")
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float64, device="cpu")
    return base ** (-exponents / head_dim)


def rotate(x, positions, frequencies):
    """RoPE: rotate pairs of neighbouring entries by angles that grow with the position.

    x: queries or keys, (..., num_tokens, head_dim); positions: (num_tokens,); frequencies: radians per token, one for
    each pair, (head_dim / 2,). Returns the shape and dtype of x. Pair i is entries 2i and 2i + 1.
    Source: Su et al. 2021, "RoFormer" (arXiv 2104.09864), section 3.4.2, equation 34.
    """
    # float32 at least: in bfloat16, angles would be off by radians
    wide = torch.promote_types(x.dtype, torch.float32)
    # (num_tokens, head_dim / 2), in radians
    angles = positions[:, None] * frequencies.to(x.device, wide)
    cos = angles.cos().to(x.dtype)
    sin = angles.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    rotated = torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1)
    return rotated.flatten(-2)  # (..., num_tokens, head_dim)


class RotaryAttention(nn.Module):
    """Notebook 10's CachedAttention with rotary positions: scores depend on the distance of query and key only.

    x, cache, window and what's returned: as in CachedAttention; the cache's keys aren't rotated. base: of the
    frequencies. Errors: ValueError for an odd head_dim.
    Source: Su et al. 2021, "RoFormer" (arXiv 2104.09864); with shared KV heads: Touvron et al. 2023, "Llama 2" (arXiv
    2307.09288), section 2.2.
    """

    def __init__(self, d_in, d_out, num_heads, num_kv_heads, window=None, base=10_000.0):
        super().__init__()
        self.head_dim = d_out // num_heads
        self.window = window
        # not a buffer, which layer.bfloat16() would round
        self.frequencies = rope_frequencies(self.head_dim, base)
        width = num_heads * self.head_dim
        kv_width = num_kv_heads * self.head_dim  # fewer heads
        self.W_query = nn.Linear(d_in, width, bias=False)
        self.W_key = nn.Linear(d_in, kv_width, bias=False)
        self.W_value = nn.Linear(d_in, kv_width, bias=False)
        self.out_proj = nn.Linear(width, d_out, bias=False)

    def split_heads(self, x):  # (b, num_new, heads * head_dim)
        x = x.unflatten(-1, (-1, self.head_dim))
        return x.transpose(1, 2)  # (b, heads, num_new, head_dim)

    def forward(self, x, cache=None):  # only new tokens, (b, num_new, d_in)
        queries = self.split_heads(self.W_query(x))
        keys = self.split_heads(self.W_key(x))
        values = self.split_heads(self.W_value(x))
        if cache is not None:
            # (b, num_kv_heads, num_keys, head_dim)
            keys = torch.cat((cache[0], keys), dim=2)
            values = torch.cat((cache[1], values), dim=2)
        num_new, num_keys = x.shape[1], keys.shape[2]
        window = self.window or num_keys
        # in the cache, because only distances count
        positions = torch.arange(num_keys, device=x.device)
        # (num_new, num_keys), from each query back to each key
        distances = positions[-num_new:, None] - positions
        sees = (distances >= 0) & (distances < window)
        queries = rotate(queries, positions[-num_new:], self.frequencies)
        # each time, since the cache keeps them unrotated
        rotated = rotate(keys, positions, self.frequencies)
        context = F.scaled_dot_product_attention(queries, rotated, values, attn_mask=sees, enable_gqa=True)
        output = self.out_proj(context.transpose(1, 2).flatten(2))
        # attend first, forget afterwards
        start = max(0, num_keys - (window - 1)) if self.window else 0
        return output, (keys[:, :, start:], values[:, :, start:])

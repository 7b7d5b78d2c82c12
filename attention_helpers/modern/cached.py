"""Attention with a KV cache, shared KV heads and a window (notebook 10)."""

import torch
from torch import nn
from torch.nn import functional as F


class CachedAttention(nn.Module):
    """Causal attention that keeps the keys and values of earlier tokens, and shares KV heads between query heads.

    x: only the new tokens, (b, num_new, d_in); cache: what the previous call returned, or None. Returns (b, num_new,
    d_out), and the cache with the new tokens: keys and values, (b, num_kv_heads, kept, head_dim) each. window: how many
    keys a query sees, counting its own, or None for all; then the cache keeps the last window - 1 tokens.
    Source: Ainslie et al. 2023, "GQA" (arXiv 2305.13245); the window: Jiang et al. 2023, "Mistral 7B" (arXiv
    2310.06825), section 2.
    """

    def __init__(self, d_in, d_out, num_heads, num_kv_heads, window=None):
        super().__init__()
        self.head_dim = d_out // num_heads
        self.window = window
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
        # one new token sees all keys, a prompt within the window is causal
        causal = num_new == num_keys and num_keys <= window
        sees = None
        if num_new > 1 and not causal:
            positions = torch.arange(num_keys, device=x.device)
            # (num_new, num_keys), from each query back to each key
            distances = positions[-num_new:, None] - positions
            sees = (distances >= 0) & (distances < window)
        context = F.scaled_dot_product_attention(queries, keys, values, sees, is_causal=causal, enable_gqa=True)
        output = self.out_proj(context.transpose(1, 2).flatten(2))
        # attend first, forget afterwards
        start = max(0, num_keys - (window - 1)) if self.window else 0
        return output, (keys[:, :, start:], values[:, :, start:])

"""Two layers built from `parts`: attention as today's models use it, and cross-attention to another text."""

from typing import NamedTuple

import torch
from torch import nn

from ..checks import check_cached, check_heads, check_input, check_mask, check_size, check_tensor
from ..core import attention_scores, attention_weights, context_vectors
from ..layers import Steps
from .parts import check_base, check_even, check_groups, repeat_kv, rotate, window_mask


class RollingCache(NamedTuple):
    """Keys and values of the last tokens, (b, num_kv_heads, kept, head_dim) each, and how many tokens came so far."""

    keys: torch.Tensor  # already rotated, each by its own position
    values: torch.Tensor
    past: int


class ModernAttention(nn.Module):
    """Attention in today's models: rotary positions, grouped heads, an optional window, no bias.

    x: (b, num_tokens, d_in). Returns (b, num_tokens, d_out). num_kv_heads: heads of keys and
    values, each shared by num_heads / num_kv_heads query heads; window: the most keys a query sees,
    counting its own, or None for no limit; base: of the rotary positions, None for no positions.
    There is no context_length, because rotary positions never end and masks are made for each x.
    Errors: as in MultiHeadAttention; also ValueError if num_kv_heads doesn't divide num_heads, for
    a window below 1, a base that isn't above 0, an odd head_dim unless base is None, or an x
    without a token.
    Source: Touvron et al. 2023, "Llama 2" (arXiv 2307.09288), section 2.2; the window: Jiang et al.
    2023, "Mistral 7B" (arXiv 2310.06825), section 2.
    """

    def __init__(self, d_in, d_out, num_heads, num_kv_heads, window=None, base=10_000.0):
        super().__init__()
        self.d_in, self.d_out = check_size("d_in", d_in), check_size("d_out", d_out)
        self.num_heads = check_size("num_heads", num_heads)
        self.num_kv_heads = check_size("num_kv_heads", num_kv_heads)
        check_heads(d_out, num_heads)
        check_groups(num_heads, num_kv_heads)
        self.head_dim = d_out // num_heads
        self.window = None if window is None else check_size("window", window)
        self.base = None if base is None else check_base(base)
        if base is not None:
            check_even(self.head_dim)
        self.W_query = nn.Linear(d_in, d_out, bias=False)
        self.W_key = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.W_value = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def split_heads(self, x):
        x = x.unflatten(-1, (-1, self.head_dim))  # (b, num_tokens, heads, head_dim)
        return x.transpose(1, 2)  # (b, heads, num_tokens, head_dim)

    def project(self, x, past=0):
        """Queries (b, num_heads, num_tokens, head_dim), and keys and values of num_kv_heads heads."""
        check_input(x, self.d_in, ranks=(3,), into=self.W_query)
        if x.shape[1] == 0:
            raise ValueError(f"x must hold at least one token, got {tuple(x.shape)}")
        queries = self.split_heads(self.W_query(x))  # (b, num_heads, num_tokens, head_dim)
        keys = self.split_heads(self.W_key(x))  # (b, num_kv_heads, num_tokens, head_dim)
        values = self.split_heads(self.W_value(x))  # (b, num_kv_heads, num_tokens, head_dim)
        if self.base is not None:
            positions = torch.arange(past, past + x.shape[1], device=x.device)
            queries, keys = rotate(queries, positions, self.base), rotate(keys, positions, self.base)
        return queries, keys, values

    def attend(self, queries, keys, values, mask=None):
        """The steps for queries that belong to the last of the keys' tokens."""
        num_tokens, past = queries.shape[2], keys.shape[2] - queries.shape[2]
        scores = attention_scores(queries, repeat_kv(keys, self.num_heads))  # (b, num_heads, num_tokens, num_keys)
        hide = window_mask(num_tokens, self.window or keys.shape[2], past, queries.device)
        if mask is not None:
            check_mask(mask, scores)
            hide = hide | mask
        weights = attention_weights(scores, hide, scale=self.head_dim**-0.5)
        context = context_vectors(weights, repeat_kv(values, self.num_heads))
        context = context.transpose(1, 2).flatten(2)  # (b, num_tokens, d_out)
        return Steps(queries, keys, values, scores, weights, context)

    def steps(self, x, mask=None):
        """The intermediate results of forward; keys and values have num_kv_heads heads."""
        return self.attend(*self.project(x), mask)

    def forward(self, x, mask=None):
        """mask: what else to hide, such as padding, besides the future and the window; broadcasts to the scores."""
        return self.out_proj(self.steps(x, mask).context)

    def step(self, x, cache=None):
        """The output for the tokens x, which follow those in the cache, and the extended cache.

        x: (b, num_tokens, d_in), any number of tokens. With a window, the cache keeps only the last
        window - 1 tokens, which are all that the next token can see.
        Errors: as in forward; also TypeError or ValueError for a cache that doesn't fit x.
        Source: as for the class.
        """
        past = past_of(cache)
        queries, keys, values = self.project(x, past)
        if cache is not None:
            self.check_cache(cache, past, keys)
            keys = torch.cat((cache.keys, keys), dim=2)  # (..., kept + num_tokens, head_dim)
            values = torch.cat((cache.values, values), dim=2)
        context = self.attend(queries, keys, values).context
        past += x.shape[1]  # forget only now: the first token of x sees further back than the last
        return self.out_proj(context), RollingCache(self.last(keys), self.last(values), past)

    def last(self, x):
        """The part of keys or values that the next token can still see, in its own memory."""
        surplus = 0 if self.window is None else max(0, x.shape[2] - (self.window - 1))
        return x[:, :, surplus:].clone() if surplus else x

    def check_cache(self, cache, past, new):
        """ValueError unless the cache holds what `past` tokens leave behind and fits the `new` keys."""
        kept = past if self.window is None else min(past, self.window - 1)
        check_cached(cache, new, "(b, num_kv_heads, kept, head_dim)", kept)


def past_of(cache):
    """How many tokens came before, 0 for None; TypeError if it isn't a cache."""
    if not isinstance(cache, RollingCache | None):
        raise TypeError(f"cache must be a RollingCache that step returned, or None, got {type(cache).__name__}")
    return 0 if cache is None else check_size("cache.past", cache.past, minimum=0)


class CrossAttention(nn.Module):
    """Attention to another text: queries from x, keys and values from `other`, no future to hide.

    x: (b, num_tokens, d_in); other: (b, num_others, d_other); mask: boolean, True hides, any shape
    that broadcasts to (b, num_heads, num_tokens, num_others), like a padding_mask. Returns
    (b, num_tokens, d_out).
    Errors: as in MultiHeadAttention; also TypeError or ValueError if `other` or mask doesn't fit.
    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.3 (encoder-decoder
    attention).
    """

    def __init__(self, d_in, d_other, d_out, num_heads):
        super().__init__()
        self.d_in, self.d_other = check_size("d_in", d_in), check_size("d_other", d_other)
        self.d_out, self.num_heads = check_size("d_out", d_out), check_size("num_heads", num_heads)
        check_heads(d_out, num_heads)
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=False)
        self.W_key = nn.Linear(d_other, d_out, bias=False)
        self.W_value = nn.Linear(d_other, d_out, bias=False)
        self.out_proj = nn.Linear(d_out, d_out)

    def split_heads(self, x):
        x = x.unflatten(-1, (self.num_heads, self.head_dim))  # (b, tokens, num_heads, head_dim)
        return x.transpose(1, 2)  # (b, num_heads, tokens, head_dim)

    def steps(self, x, other, mask=None):
        check_input(x, self.d_in, ranks=(3,), into=self.W_query)
        check_other(other, self.d_other, x)
        queries = self.split_heads(self.W_query(x))  # (b, num_heads, num_tokens, head_dim)
        keys = self.split_heads(self.W_key(other))  # (b, num_heads, num_others, head_dim)
        values = self.split_heads(self.W_value(other))  # (b, num_heads, num_others, head_dim)
        scores = attention_scores(queries, keys)  # (b, num_heads, num_tokens, num_others)
        weights = attention_weights(scores, mask, scale=self.head_dim**-0.5)
        context = context_vectors(weights, values).transpose(1, 2).flatten(2)  # (b, num_tokens, d_out)
        return Steps(queries, keys, values, scores, weights, context)

    def forward(self, x, other, mask=None):
        return self.out_proj(self.steps(x, other, mask).context)


def check_other(other, d_other, x):
    """Errors unless `other` has width d_other, and the batch size, dtype and device of x."""
    check_tensor("other", other, (3,), f"(b, num_others, {d_other})")
    expected = x.shape[0], other.shape[1], d_other
    if other.shape != expected:
        raise ValueError(f"other must have the shape {expected}, got {tuple(other.shape)}")
    if (other.dtype, other.device) != (x.dtype, x.device):
        got = f"{other.dtype} on {other.device}"
        raise ValueError(f"other must be like x, {x.dtype} on {x.device}, got {got}")

"""Attention as today's models use it, built from `parts`."""

import torch
from torch import nn

from ..checks import check_cached, check_finite, check_flag, check_heads, check_input, check_mask, check_size
from ..core import attention_scores, attention_weights, context_vectors
from ..layers import Steps
from .cache import RollingCache, past_of
from .parts import check_groups, window_mask
from .positions import check_frequencies, rope_frequencies, rotate


class ModernAttention(nn.Module):
    """Attention in today's models: rotary positions, grouped heads and, if you ask for them, a window and norms.

    x: (b, num_tokens, d_in). Returns (b, num_tokens, d_out). num_kv_heads: heads of keys and
    values, each shared by num_heads / num_kv_heads query heads; window: the most keys a query sees,
    counting its own, or None for no limit; base: of the rotary positions, None for no positions.
    head_dim: width of a head, by default d_out / num_heads; bias: of queries, keys and values; qk_norm: RMSNorm of
    each head's queries and keys before they're rotated; scale: of the scores, by default head_dim ** -0.5;
    frequencies: for `rotate`, in place of base. There is no context_length, because rotary positions never end and
    masks are made for each x.
    Errors: as in MultiHeadAttention; also ValueError if num_kv_heads doesn't divide num_heads, for
    a window below 1, a base that isn't above 0, an odd head_dim unless base is None, more than
    head_dim / 2 frequencies, or an x without a token.
    Source: Touvron et al. 2023, "Llama 2" (arXiv 2307.09288), section 2.2; the window: Jiang et al.
    2023, "Mistral 7B" (arXiv 2310.06825), section 2; qk_norm: Yang et al. 2025, "Qwen3" (arXiv 2505.09388).
    """

    def __init__(self, d_in, d_out, num_heads, num_kv_heads, window=None, base=10_000.0, *, head_dim=None,
                 bias=False, qk_norm=False, scale=None, frequencies=None):  # fmt: skip
        super().__init__()
        self.d_in, self.d_out = check_size("d_in", d_in), check_size("d_out", d_out)
        self.num_heads = check_size("num_heads", num_heads)
        self.num_kv_heads = check_size("num_kv_heads", num_kv_heads)
        self.head_dim = width_of_head(d_out, num_heads, head_dim)
        self.group = check_groups(num_heads, num_kv_heads)
        self.window = None if window is None else check_size("window", window)
        self.scale = self.head_dim**-0.5 if scale is None else check_finite("scale", scale)
        if frequencies is None and base is not None:
            frequencies = rope_frequencies(self.head_dim, base)
        self.frequencies = None if frequencies is None else check_frequencies(frequencies, self.head_dim)
        self.factor = 1.0  # of `rotate`
        width, kv_width = num_heads * self.head_dim, num_kv_heads * self.head_dim
        self.W_query = nn.Linear(d_in, width, bias=check_flag("bias", bias))
        self.W_key = nn.Linear(d_in, kv_width, bias=bias)
        self.W_value = nn.Linear(d_in, kv_width, bias=bias)
        self.out_proj = nn.Linear(width, d_out, bias=False)
        norms = [nn.RMSNorm(self.head_dim, eps=1e-6) if check_flag("qk_norm", qk_norm) else nn.Identity() for _ in "qk"]
        self.query_norm, self.key_norm = norms

    def split_heads(self, x):
        x = x.unflatten(-1, (-1, self.head_dim))  # (b, num_tokens, heads, head_dim)
        return x.transpose(1, 2)  # (b, heads, num_tokens, head_dim)

    def project(self, x, past=0):
        """Queries (b, num_heads, num_tokens, head_dim), and keys and values of num_kv_heads heads."""
        check_input(x, self.d_in, ranks=(3,), into=self.W_query)
        if x.shape[1] == 0:
            raise ValueError(f"x must hold at least one token, got {tuple(x.shape)}")
        queries = self.query_norm(self.split_heads(self.W_query(x)))  # (b, num_heads, num_tokens, head_dim)
        keys = self.key_norm(self.split_heads(self.W_key(x)))  # (b, num_kv_heads, num_tokens, head_dim)
        values = self.split_heads(self.W_value(x))  # (b, num_kv_heads, num_tokens, head_dim)
        if self.frequencies is not None:
            positions = torch.arange(past, past + x.shape[1], device=x.device)
            queries = rotate(queries, positions, self.frequencies, self.factor)
            keys = rotate(keys, positions, self.frequencies, self.factor)
        return queries, keys, values

    def attend(self, queries, keys, values, mask=None):
        """The steps for queries that belong to the last of the keys' tokens."""
        num_tokens, past = queries.shape[2], keys.shape[2] - queries.shape[2]
        scores = self.by_query_head(attention_scores(self.by_kv_head(queries), keys))
        hide = window_mask(num_tokens, self.window or keys.shape[2], past, queries.device)
        if mask is not None:
            check_mask(mask, scores)
            hide = hide | mask
        weights = attention_weights(scores, hide, self.scale)  # (b, num_heads, num_tokens, num_keys)
        context = self.by_query_head(context_vectors(self.by_kv_head(weights), values))
        context = context.transpose(1, 2).flatten(2)  # (b, num_tokens, num_heads * head_dim)
        return Steps(queries, keys, values, scores, weights, context)

    def by_kv_head(self, x):
        """Rows of all query heads that share a KV head, one below the other, so that no key has to be copied."""
        return x.unflatten(1, (self.num_kv_heads, self.group)).flatten(2, 3)  # (b, num_kv_heads, group * num_tokens, _)

    def by_query_head(self, x):
        return x.unflatten(2, (self.group, -1)).flatten(1, 2)  # (b, num_heads, num_tokens, _)

    def steps(self, x, mask=None):
        """The intermediate results of forward; keys and values have num_kv_heads heads."""
        return self.attend(*self.project(x), mask)

    def forward(self, x, mask=None):
        """mask: what else to hide, such as padding, besides the future and the window; broadcasts to the scores."""
        return self.out_proj(self.steps(x, mask).context)

    def step(self, x, cache=None):
        """The output for the tokens x, which follow those in the cache, and the extended cache.

        x: (b, num_tokens, d_in), any number of tokens. With a window, the cache keeps only the last window - 1 tokens,
        which are all that the next token can see.
        Errors: as in forward; also TypeError or ValueError for a cache that doesn't fit x.
        Source: as for the class.
        """
        steps, cache = self.steps_after(x, cache)
        return self.out_proj(steps.context), cache

    def steps_after(self, x, cache=None):
        """The intermediate results of step, and the extended cache; the keys are those of the cache and of x."""
        past = past_of(cache)
        queries, keys, values = self.project(x, past)
        if cache is not None:
            self.check_cache(cache, past, keys)
            keys = torch.cat((cache.keys, keys), dim=2)  # (..., kept + num_tokens, head_dim)
            values = torch.cat((cache.values, values), dim=2)
        steps = self.attend(queries, keys, values)
        past += x.shape[1]  # forget only now: the first token of x sees further back than the last
        return steps, RollingCache(self.last(keys), self.last(values), past)

    def last(self, x):
        """The part of keys or values that the next token can still see, in its own memory."""
        surplus = 0 if self.window is None else max(0, x.shape[2] - (self.window - 1))
        return x[:, :, surplus:].clone() if surplus else x

    def check_cache(self, cache, past, new):
        """ValueError unless the cache holds what `past` tokens leave behind and fits the `new` keys."""
        kept = past if self.window is None else min(past, self.window - 1)
        check_cached(cache, new, kept)


def width_of_head(d_out, num_heads, head_dim):
    """head_dim, or by default the heads' share of d_out; ValueError if num_heads doesn't divide that."""
    if head_dim is not None:
        return check_size("head_dim", head_dim)
    check_heads(d_out, num_heads)
    return d_out // num_heads

"""Two layers built from `parts`: attention as today's models use it, and cross-attention to another text."""

import torch
from torch import nn

from ..checks import (
    check_cached,
    check_finite,
    check_flag,
    check_heads,
    check_input,
    check_mask,
    check_size,
    check_tensor,
)
from ..core import attention_scores, attention_weights, context_vectors
from ..layers import Steps
from .cache import RollingCache, hide_padding, joined_padding, past_of
from .parts import check_groups, sink_weights, window_mask
from .positions import check_frequencies, rope_frequencies, rotate


class ModernAttention(nn.Module):
    """Attention in today's models: rotary positions, grouped heads and, if you ask for them, the rest of it.

    x: (b, num_tokens, d_in). Returns (b, num_tokens, d_out). num_kv_heads: heads of keys and
    values, each shared by num_heads / num_kv_heads query heads; window: the most keys a query sees,
    counting its own, or None for no limit; base: of the rotary positions, None for no positions.
    head_dim: width of a head, by default d_out / num_heads; bias, out_bias: of the projections and
    of the last one; qk_norm: RMSNorm of queries and keys before they're rotated, per "head" or over
    the whole "width"; sinks: a learned score per head for no token; gate: multiply each context by
    a sigmoid of x; scale: of the scores, by default head_dim ** -0.5; frequencies, factor: for
    `rotate`, in place of base. There is no context_length, because rotary positions never end and
    masks are made for each x.
    Errors: as in MultiHeadAttention; also ValueError if num_kv_heads doesn't divide num_heads, for
    a window below 1, a base that isn't above 0, an odd head_dim unless base is None, another
    qk_norm, more than head_dim / 2 frequencies, or an x without a token.
    Source: Touvron et al. 2023, "Llama 2" (arXiv 2307.09288), section 2.2; the window: Jiang et al.
    2023, "Mistral 7B" (arXiv 2310.06825), section 2; qk_norm: Yang et al. 2025, "Qwen3" (arXiv
    2505.09388), and OLMo et al. 2024, "2 OLMo 2 Furious" (arXiv 2501.00656), over the width; sinks:
    OpenAI 2025, "gpt-oss model card" (arXiv 2508.10925); gate: Qiu et al. 2025, "Gated Attention
    for Large Language Models" (arXiv 2505.06708).
    """

    def __init__(self, d_in, d_out, num_heads, num_kv_heads, window=None, base=10_000.0, *, head_dim=None,
                 bias=False, out_bias=False, qk_norm=None, sinks=False, gate=False, scale=None, frequencies=None,
                 factor=1.0):  # fmt: skip
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
        self.factor = check_finite("factor", factor)
        if qk_norm not in (None, "head", "width"):
            raise ValueError(f"qk_norm must be None, 'head' or 'width', got {qk_norm!r}")
        self.qk_norm = qk_norm
        width, kv_width = num_heads * self.head_dim, num_kv_heads * self.head_dim
        self.W_query = nn.Linear(d_in, width, bias=check_flag("bias", bias))
        self.W_key = nn.Linear(d_in, kv_width, bias=bias)
        self.W_value = nn.Linear(d_in, kv_width, bias=bias)
        self.out_proj = nn.Linear(width, d_out, bias=check_flag("out_bias", out_bias))
        if qk_norm is not None:
            per_head = qk_norm == "head"
            self.query_norm = nn.RMSNorm(self.head_dim if per_head else width, eps=1e-6)
            self.key_norm = nn.RMSNorm(self.head_dim if per_head else kv_width, eps=1e-6)
        self.sinks = nn.Parameter(torch.zeros(num_heads)) if check_flag("sinks", sinks) else None
        self.W_gate = nn.Linear(d_in, width, bias=bias) if check_flag("gate", gate) else None

    def split_heads(self, x):
        x = x.unflatten(-1, (-1, self.head_dim))  # (b, num_tokens, heads, head_dim)
        return x.transpose(1, 2)  # (b, heads, num_tokens, head_dim)

    def project(self, x, past=0):
        """Queries (b, num_heads, num_tokens, head_dim), and keys and values of num_kv_heads heads."""
        check_input(x, self.d_in, ranks=(3,), into=self.W_query)
        if x.shape[1] == 0:
            raise ValueError(f"x must hold at least one token, got {tuple(x.shape)}")
        queries, keys = self.W_query(x), self.W_key(x)
        if self.qk_norm == "width":
            queries, keys = self.query_norm(queries), self.key_norm(keys)
        queries = self.split_heads(queries)  # (b, num_heads, num_tokens, head_dim)
        keys = self.split_heads(keys)  # (b, num_kv_heads, num_tokens, head_dim)
        values = self.split_heads(self.W_value(x))  # (b, num_kv_heads, num_tokens, head_dim)
        if self.qk_norm == "head":
            queries, keys = self.query_norm(queries), self.key_norm(keys)
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
        if self.sinks is None:
            weights = attention_weights(scores, hide, self.scale)  # (b, num_heads, num_tokens, num_keys)
        else:
            weights = sink_weights(scores, self.sinks, hide, self.scale)
        context = self.by_query_head(context_vectors(self.by_kv_head(weights), values))
        context = context.transpose(1, 2).flatten(2)  # (b, num_tokens, num_heads * head_dim)
        return Steps(queries, keys, values, scores, weights, context)

    def by_kv_head(self, x):
        """Rows of all query heads that share a KV head, one below the other, so that no key has to be copied."""
        return x.unflatten(1, (self.num_kv_heads, self.group)).flatten(2, 3)  # (b, num_kv_heads, group * num_tokens, _)

    def by_query_head(self, x):
        return x.unflatten(2, (self.group, -1)).flatten(1, 2)  # (b, num_heads, num_tokens, _)

    def gated(self, context, x):
        """What the last projection gets: the context, in part if the layer has a gate."""
        return context if self.W_gate is None else context * torch.sigmoid(self.W_gate(x))

    def steps(self, x, mask=None):
        """The intermediate results of forward; keys and values have num_kv_heads heads."""
        return self.attend(*self.project(x), mask)

    def forward(self, x, mask=None):
        """mask: what else to hide, such as padding, besides the future and the window; broadcasts to the scores."""
        return self.out_proj(self.gated(self.steps(x, mask).context, x))

    def step(self, x, cache=None, padding=None):
        """The output for the tokens x, which follow those in the cache, and the extended cache.

        x: (b, num_tokens, d_in), any number of tokens. padding: boolean (b, num_tokens), True where a token of x is
        padding, which no other token sees; the cache remembers it. With a window, the cache keeps only the last
        window - 1 tokens, which are all that the next token can see.
        Errors: as in forward; also TypeError or ValueError for a cache or padding that doesn't fit x.
        Source: as for the class.
        """
        past = past_of(cache)
        queries, keys, values = self.project(x, past)
        if cache is not None:
            self.check_cache(cache, past, keys)
            keys = torch.cat((cache.keys, keys), dim=2)  # (..., kept + num_tokens, head_dim)
            values = torch.cat((cache.values, values), dim=2)
        padding = joined_padding(cache, padding, x, keys.shape[2])  # (b, kept + num_tokens), or None
        hide = None if padding is None else hide_padding(padding, x.shape[1])
        context = self.attend(queries, keys, values, hide).context
        past += x.shape[1]  # forget only now: the first token of x sees further back than the last
        keys, values = self.last(keys, 2), self.last(values, 2)
        padding = None if padding is None else self.last(padding, 1)
        return self.out_proj(self.gated(context, x)), RollingCache(keys, values, past, padding)

    def last(self, x, dim):
        """The part of keys, values or padding that the next token can still see, in its own memory."""
        surplus = 0 if self.window is None else max(0, x.shape[dim] - (self.window - 1))
        return x.narrow(dim, surplus, x.shape[dim] - surplus).clone() if surplus else x

    def check_cache(self, cache, past, new):
        """ValueError unless the cache holds what `past` tokens leave behind and fits the `new` keys."""
        kept = past if self.window is None else min(past, self.window - 1)
        check_cached(cache, new, "(b, num_kv_heads, kept, head_dim)", kept)


def width_of_head(d_out, num_heads, head_dim):
    """head_dim, or by default the heads' share of d_out; ValueError if num_heads doesn't divide that."""
    if head_dim is not None:
        return check_size("head_dim", head_dim)
    check_heads(d_out, num_heads)
    return d_out // num_heads


class CrossAttention(nn.Module):
    """Attention to another text: queries from x, keys and values from `other`, no future to hide.

    x: (b, num_tokens, d_in); other: (b, num_others, d_other); mask: boolean, True hides, any shape
    that broadcasts to (b, num_heads, num_tokens, num_others), such as padding, (b, 1, 1,
    num_others). Returns (b, num_tokens, d_out).
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

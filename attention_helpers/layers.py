"""The layers, in the order in which the course builds them; each changes one thing.

Names: d_in is the width of a token, d_out of its context vector; head_dim = d_out / num_heads;
num_tokens can be anything up to context_length. Every layer has `steps(x)`, which returns the
intermediate results of `forward`.
"""

from typing import NamedTuple

import torch
from torch import nn

from .checks import check_dropout, check_flag, check_heads, check_input, check_size
from .core import attention_scores, attention_weights, causal_mask, context_vectors
from .dropout import Dropout


class Steps(NamedTuple):
    """What a layer computes for one input, in order; shapes are given for one head.

    With several heads, the first five have one more dimension: (b, num_heads, num_tokens, ...).
    """

    queries: torch.Tensor  # (..., num_tokens, head_dim)
    keys: torch.Tensor  # (..., num_tokens, head_dim)
    values: torch.Tensor  # (..., num_tokens, head_dim)
    scores: torch.Tensor  # (..., num_tokens, num_tokens), before scaling and masking
    weights: torch.Tensor  # (..., num_tokens, num_tokens), after softmax, before dropout
    context: torch.Tensor  # (..., num_tokens, d_out), heads side by side, before any output projection


class SelfAttention_v1(nn.Module):
    """Self-attention with three plain matrices, drawn uniformly from [0, 1).

    x: (num_tokens, d_in) or (b, num_tokens, d_in). Returns context vectors, d_out wide.
    Errors: TypeError if a size isn't a whole number or x isn't a floating-point tensor of the
    layer's dtype; ValueError for a size below 1, or an x of the wrong rank, width or device.
    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1; its Q, K, V are
    x W_query, x W_key, x W_value.
    """

    def __init__(self, d_in, d_out):
        super().__init__()
        self.d_in, self.d_out = check_size("d_in", d_in), check_size("d_out", d_out)
        self.W_query = nn.Parameter(torch.rand(d_in, d_out))
        self.W_key = nn.Parameter(torch.rand(d_in, d_out))
        self.W_value = nn.Parameter(torch.rand(d_in, d_out))

    def steps(self, x):
        check_input(x, self.d_in, ranks=(2, 3), into=self.W_query)
        queries = x @ self.W_query  # (..., num_tokens, d_out)
        keys = x @ self.W_key  # (..., num_tokens, d_out)
        values = x @ self.W_value  # (..., num_tokens, d_out)
        scores = attention_scores(queries, keys)  # (..., num_tokens, num_tokens)
        weights = attention_weights(scores, scale=keys.shape[-1] ** -0.5)
        context = context_vectors(weights, values)  # (..., num_tokens, d_out)
        return Steps(queries, keys, values, scores, weights, context)

    def forward(self, x):
        return self.steps(x).context


class SelfAttention_v2(nn.Module):
    """Self-attention with nn.Linear: better initial weights, and an optional bias.

    Shapes, errors and source as in SelfAttention_v1; TypeError too if qkv_bias isn't True or False.
    """

    def __init__(self, d_in, d_out, qkv_bias=False):
        super().__init__()
        self.d_in, self.d_out = check_size("d_in", d_in), check_size("d_out", d_out)
        check_flag("qkv_bias", qkv_bias)
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)

    def steps(self, x):
        check_input(x, self.d_in, ranks=(2, 3), into=self.W_query)
        queries = self.W_query(x)  # (..., num_tokens, d_out)
        keys = self.W_key(x)  # (..., num_tokens, d_out)
        values = self.W_value(x)  # (..., num_tokens, d_out)
        scores = attention_scores(queries, keys)  # (..., num_tokens, num_tokens)
        weights = attention_weights(scores, scale=keys.shape[-1] ** -0.5)
        context = context_vectors(weights, values)  # (..., num_tokens, d_out)
        return Steps(queries, keys, values, scores, weights, context)

    def forward(self, x):
        return self.steps(x).context


def forget_mask(module, state_dict, prefix, *_):
    """Before loading: drop a `mask` that other versions saved."""
    state_dict.pop(prefix + "mask", None)


class CausalAttention(nn.Module):
    """Self-attention in which no token reads a later one, with dropout on the weights.

    x: (b, num_tokens, d_in) with num_tokens up to context_length. Returns (b, num_tokens, d_out).
    dropout: probability in [0, 1). The mask moves with the layer but is neither trained nor saved.
    Errors: as in SelfAttention_v2; also ValueError for dropout outside [0, 1) or more tokens than
    context_length.
    Source: Vaswani et al. 2017, section 3.2.3 (masking); dropout on the weights as in GPT-2.
    """

    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.d_in, self.d_out = check_size("d_in", d_in), check_size("d_out", d_out)
        self.context_length = check_size("context_length", context_length)
        check_flag("qkv_bias", qkv_bias)
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = Dropout(check_dropout("dropout", dropout))
        self.register_buffer("mask", causal_mask(context_length), persistent=False)
        self.register_load_state_dict_pre_hook(forget_mask)

    def steps(self, x):
        check_input(x, self.d_in, ranks=(3,), context_length=self.context_length, into=self.W_query)
        num_tokens = x.shape[1]
        queries = self.W_query(x)  # (b, num_tokens, d_out)
        keys = self.W_key(x)  # (b, num_tokens, d_out)
        values = self.W_value(x)  # (b, num_tokens, d_out)
        scores = attention_scores(queries, keys)  # (b, num_tokens, num_tokens)
        mask = self.mask[:num_tokens, :num_tokens]  # (num_tokens, num_tokens)
        weights = attention_weights(scores, mask, scale=keys.shape[-1] ** -0.5)
        context = context_vectors(self.dropout(weights), values)  # (b, num_tokens, d_out)
        return Steps(queries, keys, values, scores, weights, context)

    def forward(self, x):
        return self.steps(x).context


class MultiHeadAttentionWrapper(nn.Module):
    """Several CausalAttention layers side by side; d_out is the width of each head.

    x: (b, num_tokens, d_in). Returns (b, num_tokens, num_heads * d_out), head after head.
    Errors: as in CausalAttention; also TypeError or ValueError unless num_heads is a whole number
    of at least 1.
    Source: Vaswani et al. 2017, section 3.2.2, without the output projection W^O.
    """

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.num_heads = check_size("num_heads", num_heads)
        self.heads = nn.ModuleList(
            [CausalAttention(d_in, d_out, context_length, dropout, qkv_bias) for _ in range(num_heads)]
        )

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], dim=-1)  # (b, num_tokens, num_heads * d_out)

    def steps(self, x):
        heads = [head.steps(x) for head in self.heads]
        *parts, contexts = zip(*heads, strict=True)
        stacked = [torch.stack(part, dim=1) for part in parts]  # (b, num_heads, num_tokens, ...)
        return Steps(*stacked, torch.cat(contexts, dim=-1))  # (b, num_tokens, num_heads * d_out)


class MultiHeadAttention(nn.Module):
    """All heads in one matrix product: d_out is split among num_heads, then projected once more.

    x: (b, num_tokens, d_in). Returns (b, num_tokens, d_out).
    Errors: as in MultiHeadAttentionWrapper; also ValueError if num_heads doesn't divide d_out.
    Source: Vaswani et al. 2017, section 3.2.2: W_query, W_key, W_value hold the W_i of all heads
    side by side, out_proj is W^O (with a bias).
    """

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.d_in, self.d_out = check_size("d_in", d_in), check_size("d_out", d_out)
        self.context_length = check_size("context_length", context_length)
        self.num_heads = check_size("num_heads", num_heads)
        check_heads(d_out, num_heads)
        check_flag("qkv_bias", qkv_bias)
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = Dropout(check_dropout("dropout", dropout))
        self.register_buffer("mask", causal_mask(context_length), persistent=False)
        self.register_load_state_dict_pre_hook(forget_mask)

    def split_heads(self, x):
        b, num_tokens, _ = x.shape
        x = x.view(b, num_tokens, self.num_heads, self.head_dim)  # (b, num_tokens, num_heads, head_dim)
        return x.transpose(1, 2)  # (b, num_heads, num_tokens, head_dim)

    def steps(self, x):
        check_input(x, self.d_in, ranks=(3,), context_length=self.context_length, into=self.W_query)
        b, num_tokens, _ = x.shape
        queries = self.split_heads(self.W_query(x))  # (b, num_heads, num_tokens, head_dim)
        keys = self.split_heads(self.W_key(x))  # (b, num_heads, num_tokens, head_dim)
        values = self.split_heads(self.W_value(x))  # (b, num_heads, num_tokens, head_dim)
        scores = attention_scores(queries, keys)  # (b, num_heads, num_tokens, num_tokens)
        mask = self.mask[:num_tokens, :num_tokens]  # (num_tokens, num_tokens)
        weights = attention_weights(scores, mask, scale=self.head_dim**-0.5)
        context = context_vectors(self.dropout(weights), values)  # (b, num_heads, num_tokens, head_dim)
        context = context.transpose(1, 2)  # (b, num_tokens, num_heads, head_dim)
        context = context.contiguous().view(b, num_tokens, self.d_out)  # (b, num_tokens, d_out)
        return Steps(queries, keys, values, scores, weights, context)

    def forward(self, x):
        return self.out_proj(self.steps(x).context)

"""The layers of notebooks 02 to 06, word for word as those pages build them; each builds on the one before.

Names: d_in is the width of a token, d_out of its context vector, head_dim = d_out / num_heads of one head's part; b
counts sentences, num_tokens their tokens.
"""

import torch
from torch import nn


def causal_mask(num_tokens, device=None):
    """Boolean mask of the future, (num_tokens, num_tokens): True, meaning "hide", where the key comes after the query.

    Source: Vaswani et al. 2017, section 3.2.3.
    """
    return torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device).triu(diagonal=1)


class SelfAttention_v1(nn.Module):
    """Self-attention with three plain matrices, drawn uniformly from [0, 1).

    x: one sentence, (num_tokens, d_in). Returns context vectors, (num_tokens, d_out).
    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1; its Q, K, V are x W_query and
    so on.
    """

    def __init__(self, d_in, d_out):
        super().__init__()
        self.W_query = nn.Parameter(torch.rand(d_in, d_out))
        self.W_key = nn.Parameter(torch.rand(d_in, d_out))
        self.W_value = nn.Parameter(torch.rand(d_in, d_out))

    def forward(self, x):  # (num_tokens, d_in)
        queries = x @ self.W_query  # (num_tokens, d_out)
        keys = x @ self.W_key  # (num_tokens, d_out)
        values = x @ self.W_value  # (num_tokens, d_out)
        # (num_tokens, num_tokens)
        scores = queries @ keys.mT / keys.shape[-1] ** 0.5
        weights = torch.softmax(scores, dim=-1)
        return weights @ values  # (num_tokens, d_out)


class SelfAttention_v2(nn.Module):
    """Self-attention with nn.Linear: better initial weights, and an optional bias. Shapes and source as in v1."""

    def __init__(self, d_in, d_out, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)

    def forward(self, x):  # (num_tokens, d_in)
        queries = self.W_query(x)  # (num_tokens, d_out)
        keys = self.W_key(x)  # (num_tokens, d_out)
        values = self.W_value(x)  # (num_tokens, d_out)
        # (num_tokens, num_tokens)
        scores = queries @ keys.mT / keys.shape[-1] ** 0.5
        weights = torch.softmax(scores, dim=-1)
        return weights @ values  # (num_tokens, d_out)


class CausalAttention(nn.Module):
    """Self-attention in which no token reads a later one, with dropout on the weights.

    x: (b, num_tokens, d_in), with num_tokens up to context_length. Returns (b, num_tokens, d_out). dropout: a
    probability. Errors: ValueError for dropout outside [0, 1), or more tokens than context_length.
    Source: Vaswani et al. 2017, section 3.2.3 (masking); dropout on the weights as in GPT-2.
    """

    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {dropout}")
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        # a buffer moves with the layer, but isn't trained
        future = torch.ones(context_length, context_length).triu(diagonal=1)
        self.register_buffer("mask", future.bool())

    def forward(self, x):  # (b, num_tokens, d_in)
        b, num_tokens, d_in = x.shape
        longest = len(self.mask)
        if num_tokens > longest:
            raise ValueError(f"x can have {longest} tokens, got {num_tokens}")
        future = self.mask[:num_tokens, :num_tokens]
        queries = self.W_query(x)  # (b, num_tokens, d_out)
        keys = self.W_key(x)  # (b, num_tokens, d_out)
        values = self.W_value(x)  # (b, num_tokens, d_out)
        # (b, num_tokens, num_tokens)
        scores = queries @ keys.mT / keys.shape[-1] ** 0.5
        scores = scores.masked_fill(future, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        return self.dropout(weights) @ values  # (b, num_tokens, d_out)


class MultiHeadAttentionWrapper(nn.Module):
    """Several CausalAttention layers side by side; d_out is the width of each head.

    x: (b, num_tokens, d_in). Returns (b, num_tokens, num_heads * d_out), head after head.
    Errors: as in CausalAttention.
    Source: Vaswani et al. 2017, section 3.2.2, without the output projection W^O.
    """

    def __init__(  # d_out is the width of each head
        self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False
    ):
        super().__init__()
        self.heads = nn.ModuleList()
        for _ in range(num_heads):
            self.heads.append(CausalAttention(d_in, d_out, context_length, dropout, qkv_bias))

    def forward(self, x):  # (b, num_tokens, d_in)
        contexts = [head(x) for head in self.heads]  # (b, num_tokens, d_out) each
        return torch.cat(contexts, dim=-1)  # (b, num_tokens, num_heads * d_out)


class MultiHeadAttention(nn.Module):
    """All heads in one matrix product: d_out is split among num_heads, then projected once more.

    x: (b, num_tokens, d_in). Returns (b, num_tokens, d_out).
    Errors: as in CausalAttention; also ValueError if num_heads doesn't divide d_out.
    Source: Vaswani et al. 2017, section 3.2.2: W_query, W_key, W_value hold the W_i of all heads side by side, out_proj
    is W^O (with a bias).
    """

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {dropout}")
        if num_heads < 1 or d_out % num_heads:
            raise ValueError(f"num_heads={num_heads} must divide d_out={d_out}")
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        # a buffer moves with the layer, but isn't trained
        future = torch.ones(context_length, context_length).triu(diagonal=1)
        self.register_buffer("mask", future.bool())

    def split_heads(self, x):  # (b, num_tokens, d_out)
        b, num_tokens, d_out = x.shape
        # (b, num_tokens, num_heads, head_dim)
        x = x.view(b, num_tokens, self.num_heads, self.head_dim)
        return x.transpose(1, 2)  # (b, num_heads, num_tokens, head_dim)

    def forward(self, x):  # (b, num_tokens, d_in)
        b, num_tokens, d_in = x.shape
        longest = len(self.mask)
        if num_tokens > longest:
            raise ValueError(f"x can have {longest} tokens, got {num_tokens}")
        future = self.mask[:num_tokens, :num_tokens]
        # (b, num_heads, num_tokens, head_dim) each
        queries = self.split_heads(self.W_query(x))
        keys = self.split_heads(self.W_key(x))
        values = self.split_heads(self.W_value(x))
        # (b, num_heads, num_tokens, num_tokens)
        scores = queries @ keys.mT / keys.shape[-1] ** 0.5
        scores = scores.masked_fill(future, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        # (b, num_heads, num_tokens, head_dim)
        context = self.dropout(weights) @ values
        context = context.transpose(1, 2)  # (b, num_tokens, num_heads, head_dim)
        context = context.reshape(b, num_tokens, -1)  # (b, num_tokens, d_out)
        return self.out_proj(context)  # (b, num_tokens, d_out)

"""The sizes over which the property tests run, and every layer built to such sizes."""

import os
from typing import NamedTuple

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attention_helpers import layers

settings.register_profile("fast", max_examples=6, deadline=None, derandomize=True, database=None)
settings.register_profile("thorough", max_examples=200, deadline=None, database=None, print_blob=True)
settings.load_profile(os.environ.get("PROPERTY_PROFILE", "fast"))


class Sizes(NamedTuple):
    """One problem. d_out, the width of all heads, is num_heads * head_dim."""

    b: int
    num_tokens: int
    spare: int  # context_length - num_tokens
    d_in: int
    num_heads: int
    head_dim: int
    qkv_bias: bool
    seed: int

    @property
    def d_out(self):
        return self.num_heads * self.head_dim

    @property
    def context_length(self):
        return self.num_tokens + self.spare

    def draw(self, *shape, dtype=torch.float64):
        """Standard normal numbers, the same ones each time."""
        return torch.randn(shape, generator=torch.Generator().manual_seed(self.seed), dtype=dtype)

    def x(self, dtype=torch.float64):
        return self.draw(self.b, self.num_tokens, self.d_in, dtype=dtype)


SIZES = st.builds(
    Sizes, b=st.integers(1, 3), num_tokens=st.integers(1, 6), spare=st.integers(0, 3), d_in=st.integers(1, 6),
    num_heads=st.integers(1, 4), head_dim=st.integers(1, 4), qkv_bias=st.booleans(), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
CORNERS = [
    Sizes(2, 5, 0, 3, 2, 4, True, 0),  # d_in and d_out differ, with bias
    Sizes(2, 4, 3, 6, 3, 2, False, 1),  # fewer tokens than context_length
    Sizes(2, 1, 2, 3, 2, 2, True, 2),  # one token
    Sizes(1, 5, 1, 4, 1, 4, False, 3),  # one head
    Sizes(2, 4, 0, 2, 4, 1, True, 4),  # as many heads as d_out
]


def over_sizes(test):
    """Run a test over each of CORNERS and over random Sizes."""
    for sizes in CORNERS:
        test = example(sizes)(test)
    return given(sizes=SIZES)(test)


def build(name, sizes, dropout=0.0):
    """A float32 layer by its class name, with weights that depend on the sizes' seed alone; the global state stays."""
    s, width = sizes, sizes.head_dim if name == "MultiHeadAttentionWrapper" else sizes.d_out
    dropping = (s.context_length, dropout) if name in CAUSAL else ()
    more = {"SelfAttention_v1": (), "SelfAttention_v2": (s.qkv_bias,), "CausalAttention": (s.qkv_bias,)}
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(s.seed)  # torch.manual_seed is much slower
        return getattr(layers, name)(s.d_in, width, *dropping, *more.get(name, (s.num_heads, s.qkv_bias)))


UNMASKED = ["SelfAttention_v1", "SelfAttention_v2"]
CAUSAL = ["CausalAttention", "MultiHeadAttentionWrapper", "MultiHeadAttention"]
ALL = UNMASKED + CAUSAL


def attend_by_hand(name, layer, x, dropout=lambda weights: weights):
    """The weights (b, num_heads, num_tokens, num_tokens) and the output that a layer's matrices make, head by head."""
    if name == "MultiHeadAttentionWrapper":
        made = [attend_by_hand("CausalAttention", head, x, dropout) for head in layer.heads]
        return torch.cat([weights for weights, _ in made], dim=1), torch.cat([context for _, context in made], dim=-1)
    heads = getattr(layer, "num_heads", 1)
    queries, keys, values = (
        (x @ matrix if name == "SelfAttention_v1" else matrix(x)).unflatten(-1, (heads, -1)).transpose(1, 2)
        for matrix in (layer.W_query, layer.W_key, layer.W_value)
    )
    scores = queries @ keys.transpose(2, 3) / queries.shape[-1] ** 0.5
    if name in CAUSAL:
        scores = scores + torch.full_like(scores, -torch.inf).triu(1)
    weights = scores.softmax(-1)
    context = (dropout(weights) @ values).transpose(1, 2).flatten(2)
    return weights, layer.out_proj(context) if name == "MultiHeadAttention" else context

"""Notebook 09: positions, shared KV heads and a window, on up to 16 tokens."""

from typing import NamedTuple

import ipywidgets as widgets
import torch

from ..core import attention_weights
from ..fast.costs import cache_bytes
from ..modern.layers import ModernAttention
from ..modern.parts import alibi_bias, window_mask
from ..seeded import seeded
from .base import SentenceExplorer, slider, stops
from .ink import weight_limit
from .svg_maps import CELLS_UP_TO, colour_bar, head_maps
from .words import size_in_words

POSITIONS = ("rotary", "ALiBi", "none")
HEAD_DIM, SEED, LAYERS = 8, 123, 2
SHARP = 5.0  # multiplies the initial weights, whose scores are so small that all maps look alike


class VariantsState(NamedTuple):
    """What the picture shows; `sees` is what a token reads in one layer, `reaches` its receptive field after LAYERS."""

    weights: torch.Tensor  # (num_heads, num_tokens, num_tokens)
    sees: torch.Tensor  # (num_tokens, num_tokens)
    reaches: torch.Tensor  # (num_tokens, num_tokens)
    num_kv_heads: int
    parameters: int
    cache: int  # bytes of one layer's KV cache in float32


@torch.no_grad()
def share_keys(embeddings, positions, num_heads, num_kv_heads, window, num_tokens):
    """From control values to arrays: ModernAttention on the first num_tokens rows of embeddings."""
    base = 10_000.0 if positions == "rotary" else None
    sizes = embeddings.shape[1], num_heads * HEAD_DIM, num_heads, num_kv_heads
    layer = seeded(ModernAttention, SEED, *sizes, window=window, base=base)
    for linear in (layer.W_query, layer.W_key):
        linear.weight.mul_(SHARP)
    steps, hide = layer.steps(embeddings[None, :num_tokens]), window_mask(num_tokens, window)
    weights = steps.weights[0]  # (num_heads, num_tokens, num_tokens)
    if positions == "ALiBi":
        scaled = steps.scores[0] * HEAD_DIM**-0.5
        weights = attention_weights(scaled + alibi_bias(num_heads, num_tokens), hide)
    reaches = torch.linalg.matrix_power((~hide).float(), LAYERS) > 0  # (num_tokens, num_tokens)
    kept = min(num_tokens, window - 1)
    cache = cache_bytes(kept, num_kv_heads * HEAD_DIM) if kept else 0
    parameters = sum(parameter.numel() for parameter in layer.parameters())
    return VariantsState(weights, ~hide, reaches, num_kv_heads, parameters, cache)


class VariantsExplorer(SentenceExplorer):
    """Change the positions, the query heads, the KV heads that they share, the window and the number of tokens.

    sentence: a Sentence, repeated to fill the tokens. Arrays: a VariantsState. Errors: as in Explorer.
    """

    def extended(self, tokens, embeddings):
        times = -(-CELLS_UP_TO // len(embeddings))
        return (tokens * times)[:CELLS_UP_TO], embeddings.repeat(times, 1)[:CELLS_UP_TO]  # (CELLS_UP_TO, d_in)

    def make_controls(self):
        return {
            "positions": widgets.ToggleButtons(options=POSITIONS, value="rotary", description="positions"),
            "num_heads": stops("query heads", (1, 2, 4, 8), 4, "Heads of queries, each with a map of its own"),
            "num_kv_heads": stops("key heads", (1, 2, 4, 8), 2, "Heads of keys and values, shared by query heads"),
            "window": slider("window", 5, 1, CELLS_UP_TO, "How many tokens one token sees, itself among them"),
            "num_tokens": slider("num_tokens", 12, 1, CELLS_UP_TO, "The sentence begins again after its end"),
        }

    def compute(self, **values):
        return share_keys(self.embeddings, **values)

    def picture(self, state):
        limit = weight_limit(state.sees[-1].sum().item())
        tokens, nothing = self.tokens[: state.weights.shape[-1]], torch.zeros_like(state.weights)
        bar = colour_bar(limit, height=250, more=limit < 1)
        return [[head_maps(state.weights, tokens, limit, ~state.sees, nothing, 620, 500, bar=bar)]]

    def headline(self, state):
        return ""

    def readouts(self, state):
        num_heads, num_tokens = state.weights.shape[:2]
        sees, reaches = self.last_token(state)
        full = cache_bytes(num_tokens, num_heads * HEAD_DIM)
        return {
            "key head of each query head, both from 1": ", ".join(
                f"{n} → {head}" for n, head in enumerate(served(state), 1)
            ),
            "the last token sees": f"{sees} of {num_tokens} tokens; through {LAYERS} layers it reaches {reaches}",
            "parameters": f"{state.parameters}",
            "the cache keeps": f"{size_in_words(state.cache)}; {size_in_words(full)} without window and sharing",
        }

    def in_words(self, state):
        sees, reaches = self.last_token(state)
        most, keys = state.weights[:, -1].max(dim=-1)  # each (num_heads,)
        rows = enumerate(zip(served(state), keys.tolist(), most.tolist(), strict=True), 1)
        about = (
            f"{len(most)} query heads, {state.num_kv_heads} key heads. The last of {state.weights.shape[-1]} tokens "
            f"sees {sees}, and reaches {reaches} through {LAYERS} layers."
        )
        each = (
            f"Head {head} has the keys of {shared}, and reads token {key + 1}, {self.tokens[key]}, most ({weight:.2f})."
            for head, (shared, key, weight) in rows
        )
        return " ".join([about, *each])

    def last_token(self, state):
        """How many tokens the last one sees in one layer, and through LAYERS layers."""
        return int(state.sees[-1].sum()), int(state.reaches[-1].sum())


def served(state):
    """For each query head, the KV head that it reads, counted from 1."""
    group = len(state.weights) // state.num_kv_heads
    return [head // group + 1 for head in range(len(state.weights))]

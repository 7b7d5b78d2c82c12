"""Notebook 10: positions, QK-norm, shared KV heads and a window, on up to 16 tokens."""

from typing import NamedTuple

import ipywidgets as widgets
import torch

from ..core import attention_weights
from ..fast.costs import cache_bytes
from ..modern.layers import ModernAttention
from ..modern.parts import alibi_bias, window_mask
from ..modern.positions import llama3_frequencies, rope_frequencies, yarn_frequencies
from ..plots import GREY
from ..seeded import seeded
from .base import SentenceExplorer, slider, stops
from .svg import bars
from .svg_maps import CELLS_UP_TO, colour_bar, head_maps
from .words import size_in_words

POSITIONS = ("rotary", "ALiBi", "none")
SCALINGS = ("none", "linear", "Llama 3", "YaRN")
FACTOR, ORIGINAL = 4, 16  # of the scaling
LATENT = 16, 8  # d_latent and d_rope of an MLA layer to compare with
WIDTH, SEED, LAYERS = 64, 123, 2  # d_out, which the heads share whatever their number
SHARP = 5.0  # multiplies the initial weights, whose scores are so small that all maps look alike


class VariantsState(NamedTuple):
    """What the picture shows; `sees` is what a token reads in one layer, `reaches` its receptive field after LAYERS."""

    weights: torch.Tensor  # (num_heads, num_tokens, num_tokens)
    sees: torch.Tensor  # (num_tokens, num_tokens)
    reaches: torch.Tensor  # (num_tokens, num_tokens)
    num_kv_heads: int
    parameters: int
    cache: int  # bytes of one layer's KV cache in float32


def scaled_frequencies(scaling, width):
    """Frequencies of rotary positions for `width` entries of a head, and the factor for `rotate`."""
    plain = rope_frequencies(width)
    if scaling == "YaRN":
        return yarn_frequencies(plain, FACTOR, ORIGINAL, base=10_000)
    scaled = {"none": plain, "linear": plain / FACTOR, "Llama 3": llama3_frequencies(plain, FACTOR, ORIGINAL)}
    return scaled[scaling], 1.0


class VariantsExplorer(SentenceExplorer):
    """Change the positions and their scaling, QK-norm, the query heads, the KV heads that they share, and the window.

    sentence: a Sentence, repeated to fill the tokens. Arrays: a VariantsState. Errors: as in Explorer.
    """

    def extended(self, tokens, embeddings):
        times = -(-CELLS_UP_TO // len(embeddings))
        return (tokens * times)[:CELLS_UP_TO], embeddings.repeat(times, 1)[:CELLS_UP_TO]  # (CELLS_UP_TO, d_in)

    def make_controls(self):
        switch = widgets.ToggleButtons(options=POSITIONS, value="rotary", description="positions")
        switch.tooltip = "How a layer knows where a token is"
        return {
            "positions": switch,
            "scaling": widgets.Dropdown(
                options=SCALINGS,
                description="scaling",
                tooltip=f"Of rotary positions: factor {FACTOR}, {ORIGINAL} tokens",
            ),
            "rotated": stops(
                "share rotated", (("25%", 0.25), ("50%", 0.5), ("100%", 1.0)), 1.0, "How much of each head rotates"
            ),
            "qk_norm": widgets.Checkbox(False, description="QK-norm", tooltip="Normalize queries and keys, per head"),
            "num_heads": stops(
                "query heads", (1, 2, 4, 8), 4, f"They share d_out = {WIDTH}, so more heads are narrower, KV heads too"
            ),
            "num_kv_heads": stops("KV heads", (1, 2, 4, 8), 2, "Heads of keys and values, shared by query heads"),
            "window": slider("window", 5, 1, CELLS_UP_TO, "How many tokens one token sees, including itself"),
            "num_tokens": slider("num_tokens", 12, 1, CELLS_UP_TO, "The sentence begins again after its end"),
        }

    def unused(self, values):
        return {"scaling", "rotated"} if values["positions"] != "rotary" else set()

    def note(self, wanted, values):
        if values["positions"] == "rotary":
            return ""
        return "scaling and share rotated do nothing here: only rotary positions turn queries and keys."

    @torch.no_grad()
    def compute(self, positions, scaling, rotated, qk_norm, num_heads, num_kv_heads, window, num_tokens):
        if num_heads % num_kv_heads:
            heads = counted(num_heads, "query head")
            fits = f"set KV heads to {num_heads} or less, or query heads to {num_kv_heads} or more"
            raise ValueError(f"{num_kv_heads} KV heads can't be shared by {heads}: {fits}")
        head_dim, sizes = WIDTH // num_heads, (self.embeddings.shape[1], WIDTH, num_heads, num_kv_heads)
        frequencies, factor = scaled_frequencies(scaling, int(head_dim * rotated))
        options = {"window": window, "base": None, "qk_norm": "head" if qk_norm else None}
        if positions == "rotary":
            options |= {"frequencies": frequencies, "factor": factor}
        layer = seeded(ModernAttention, SEED, *sizes, **options)
        for linear in (layer.W_query, layer.W_key):
            linear.weight.mul_(SHARP)
        steps, hide = layer.steps(self.embeddings[None, :num_tokens]), window_mask(num_tokens, window)
        weights = steps.weights[0]  # (num_heads, num_tokens, num_tokens)
        if positions == "ALiBi":
            scaled = steps.scores[0] * head_dim**-0.5
            weights = attention_weights(scaled + alibi_bias(num_heads, num_tokens), hide)
        reaches = torch.linalg.matrix_power((~hide).float(), LAYERS) > 0  # (num_tokens, num_tokens)
        kept = min(num_tokens, window - 1)
        cache = cache_bytes(kept, num_kv_heads * head_dim) if kept else 0
        parameters = sum(parameter.numel() for parameter in layer.parameters())
        return VariantsState(weights, ~hide, reaches, num_kv_heads, parameters, cache)

    def picture(self, state):
        tokens, owners = self.tokens[: state.weights.shape[-1]], served(state)
        names = [f"query head {n}, KV head {owner + 1}" for n, owner in enumerate(owners, 1)]
        if len(owners) > 4:
            names = [f"{n}, KV {owner + 1}" for n, owner in enumerate(owners, 1)]
        room = {"width": 440, "height": 400, "colours": owners, "names": names, "bar": colour_bar(height=200)}
        return [[head_maps(state.weights, tokens, 1.0, ~state.sees, **room), self.cache_bars(state)]]

    def cache_bars(self, state):
        """Bytes that one more token adds to a layer's cache in float32: all heads, the chosen KV heads, or a latent."""
        shared = state.num_kv_heads * WIDTH // len(state.weights)
        kept = [cache_bytes(1, WIDTH), cache_bytes(1, shared), 4 * sum(LATENT)]
        look = {"limits": (0, kept[0]), "width": 236, "height": 190, "colours": [GREY], "decimals": 0}
        return bars({"bytes": kept}, ["MHA", "GQA", "MLA"], "cache bytes per token", **look)

    def headline(self, state):
        num_heads, num_tokens = state.weights.shape[:2]
        sees, reaches = int(state.sees[-1].sum()), int(state.reaches[-1].sum())  # by the last token
        share = f"{counted(num_heads, 'query head')} share {counted(state.num_kv_heads, 'KV head')}"
        if state.num_kv_heads == num_heads:
            share = (
                f"{counted(num_heads, 'query head')} with {'its' if num_heads == 1 else 'their'} own keys and values"
            )
        seen = f"the last token sees {sees} of {counted(num_tokens, 'token')}"
        return f"{share}; {seen}, and after {LAYERS} layers {reaches} of them can reach it."

    def readouts(self, state):
        num_heads, num_tokens = state.weights.shape[:2]
        full, head_dim = cache_bytes(num_tokens, WIDTH), WIDTH // num_heads
        return {
            "KV cache": f"{size_in_words(state.cache)}, against {size_in_words(full)} without window and sharing",
            "head_dim": f"{WIDTH} / {num_heads} = {head_dim}",
            "parameters": f"{state.parameters:,}",
        }

    def in_words(self, state):
        most, keys = state.weights[:, -1].max(dim=-1)  # each (num_heads,)
        rows = enumerate(zip(served(state), keys.tolist(), most.tolist(), strict=True), 1)
        return f"{self.headline(state)} For the last token, " + "; ".join(
            f"query head {head} with KV head {owner + 1} reads token {key + 1}, {self.tokens[key]}, most ({weight:.2f})"
            for head, (owner, key, weight) in rows
        )


def counted(number, thing):
    return f"{number} {thing}{'s' * (number != 1)}"


def served(state):
    """For each query head, the KV head that it reads, from 0."""
    group = len(state.weights) // state.num_kv_heads
    return [head // group for head in range(len(state.weights))]

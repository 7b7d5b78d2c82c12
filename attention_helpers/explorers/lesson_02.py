"""Notebook 02: what width, scaling, bias and the input do to scores and weights."""

from typing import NamedTuple

import ipywidgets as widgets
import torch

from .. import plots
from ..core import attention_scores, attention_weights
from ..layers import SelfAttention_v2
from ..seeded import seeded
from .base import SentenceExplorer, seed, slider
from .ink import SIGNED, WEIGHTS, largest
from .svg import bars, beside
from .svg_maps import colour_bar, heatmap
from .words import entropy_in_bits


class QKVState(NamedTuple):
    """What the picture shows; `variance` is taken over the complete matrix that enters softmax."""

    scores: torch.Tensor  # (num_tokens, num_tokens), before scaling
    weights: torch.Tensor  # (num_tokens, num_tokens)
    variance: torch.Tensor
    entropy: torch.Tensor  # (num_tokens,), in bits
    parameters: int


def attend(embeddings, source, d_out, seed, scaling, qkv_bias):
    """From control values to arrays, for embeddings (num_tokens, d_in)."""
    num_tokens, d_in = embeddings.shape
    layer = seeded(SelfAttention_v2, seed, d_in, d_out, qkv_bias=qkv_bias)
    parameters = sum(parameter.numel() for parameter in layer.parameters())
    if source == "sentence":
        scores = layer.steps(embeddings).scores
    else:
        generator = torch.Generator().manual_seed(seed)
        queries, keys = torch.randn(2, num_tokens, d_out, generator=generator)  # each (num_tokens, d_out)
        scores, parameters = attention_scores(queries, keys), 0
    scale = d_out**-0.5 if scaling else 1.0
    weights = attention_weights(scores, scale=scale)
    variance = (scores * scale).var() if num_tokens > 1 else torch.tensor(0.0)
    return QKVState(scores, weights, variance, entropy_in_bits(weights), parameters)


class QKVExplorer(SentenceExplorer):
    """Change the width of queries and keys, their input, the seed, the scaling and the bias.

    sentence: a Sentence of up to 8 tokens. Arrays: a QKVState. Units: entropy in bits. Errors: as in Explorer.
    """

    def make_controls(self):
        sources = [("toy sentence", "sentence"), ("standard normal queries and keys", "normal")]
        return {
            "source": widgets.Dropdown(options=sources, description="input", tooltip="What queries come from"),
            "d_out": slider("d_out", 2, 1, 64, "The width of queries and keys, d_k"),
            "seed": seed(789),
            "scaling": widgets.Checkbox(True, description="divide by √d_k", tooltip="Scale scores before softmax"),
            "qkv_bias": widgets.Checkbox(False, description="qkv_bias", tooltip="A bias for queries, keys and values"),
        }

    def compute(self, source, d_out, seed, scaling, qkv_bias):
        return attend(self.embeddings, source, d_out, seed, scaling, qkv_bias)

    def note(self, wanted, values):
        normal = values["source"] == "normal"
        return "Queries and keys are drawn directly: no matrices, so no bias." if normal else ""

    def unused(self, values):
        return {"qkv_bias"} if values["source"] == "normal" else set()

    def picture(self, state):
        tokens, limit = self.tokens, largest(state.scores)
        most = max(torch.tensor(len(tokens)).log2().item(), 0.1)
        scores = heatmap(state.scores, tokens, tokens, "scores", limit=limit, ink=SIGNED, tell="{} meets {}")
        weights = beside(heatmap(state.weights, tokens, tokens, "weights"), colour_bar(shade=WEIGHTS))
        entropy = bars({"entropy in bits": state.entropy}, tokens, "entropy (bits)", (0, most), width=190)
        return [[beside(scores, colour_bar(limit, SIGNED)), weights, entropy]]

    def headline(self, state):
        return ""

    def readouts(self, state):
        low, high = state.scores.min(), state.scores.max()
        return {
            "scores": f"from {low:.4f} to {high:.4f} (blue: below 0, red: above)",
            "variance entering softmax": f"{state.variance:.4f}",
            "mean entropy": f"{state.entropy.mean():.2f} bits of at most {torch.tensor(len(self.tokens)).log2():.2f}",
            "largest weight": f"{state.weights.max():.4f}",
            "parameters": f"{state.parameters}" if state.parameters else "none: queries and keys are drawn directly",
        }

    def in_words(self, state):
        low, high = state.scores.min(), state.scores.max()
        return (
            f"Scores from {low:.2f} to {high:.2f}. Largest weight of each row: "
            f"{plots.strongest(state.weights, self.tokens, self.tokens)}. Mean entropy {state.entropy.mean():.2f} bits."
        )

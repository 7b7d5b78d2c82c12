"""Notebook 02: what width, scaling, bias and the input do to scores and weights."""

from typing import NamedTuple

import ipywidgets as widgets
import torch

from .. import frames, plots
from ..core import attention_scores, attention_weights
from ..layers import SelfAttention_v2
from .base import Explorer
from .seeded import seeded
from .words import entropy_in_bits


class QKVState(NamedTuple):
    """What the picture shows; `variance` is that of what enters softmax, over the whole table."""

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


class QKVExplorer(Explorer):
    """Change the width of queries and keys, their input, the seed, the scaling and the bias.

    sentence: a Sentence of up to 8 tokens. Arrays: a QKVState. Units: entropy in bits. Errors: see Explorer.
    """

    def __init__(self, sentence):
        self.tokens, self.embeddings = sentence
        super().__init__()

    def make_controls(self):
        sources = [("toy sentence", "sentence"), ("standard normal queries and keys", "normal")]
        return {
            "source": widgets.Dropdown(options=sources, description="input"),
            "d_out": widgets.IntSlider(2, 1, 64, description="d_out"),
            "seed": widgets.IntSlider(789, 0, 999, description="seed"),
            "scaling": widgets.Checkbox(True, description="divide by √d_k"),
            "qkv_bias": widgets.Checkbox(False, description="qkv_bias"),
        }

    def compute(self, source, d_out, seed, scaling, qkv_bias):
        return attend(self.embeddings, source, d_out, seed, scaling, qkv_bias)

    def adjust(self, moved):
        normal = self.controls["source"].value == "normal"
        self.controls["qkv_bias"].disabled = normal
        return "Queries and keys are drawn directly: no matrices, so no bias." if normal else ""

    def make_figure(self, state):
        figure, axes = frames.row_figure((1.35, 1.35, 1))
        tokens, shape = self.tokens, state.scores.shape
        frames.frame_cells(axes[0], tokens, tokens, shape, "scores", legend=("lowest", "highest"))
        frames.frame_cells(axes[1], tokens, tokens, shape, "weights", legend=(0, 1))
        top = torch.tensor(len(tokens)).log2().item() * 1.18 or 1
        frames.frame_bars(axes[2], tokens, (0, top), "entropy (bits)")
        return figure

    def paint(self, canvas, state):
        canvas.update_heatmap(0, state.scores, frames.limits_of(state.scores))
        canvas.update_heatmap(1, state.weights)
        canvas.update_bars(2, [state.entropy])

    def readouts(self, state):
        low, high = frames.limits_of(state.scores)
        return {
            "scores": f"from {low:.4f} (darkest) to {high:.4f} (lightest)",
            "variance entering softmax": f"{state.variance:.4f}",
            "mean entropy": f"{state.entropy.mean():.2f} bits of at most {torch.tensor(len(self.tokens)).log2():.2f}",
            "largest weight": f"{state.weights.max():.4f}",
            "parameters": f"{state.parameters}" if state.parameters else "none: queries and keys are drawn directly",
        }

    def in_words(self, state):
        low, high = frames.limits_of(state.scores)
        return (
            f"Scores from {low:.2f} to {high:.2f}. Largest weight of each row: "
            f"{plots.strongest(state.weights, self.tokens, self.tokens)}. Mean entropy {state.entropy.mean():.2f} bits."
        )

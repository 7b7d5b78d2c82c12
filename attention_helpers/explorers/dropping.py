"""Notebook 04: dropout on causal weights: one mask, what it leaves, and the average over many."""

from typing import NamedTuple

import ipywidgets as widgets
import torch

from .. import frames
from ..core import causal_mask
from ..dropout import Dropout
from ..layers import CausalAttention
from .base import Explorer
from .seeded import seeded

DRAWS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
BINS = 12  # of row sums, each a quarter wide; the last one holds all that is above


class DropoutState(NamedTuple):
    """What the picture shows; the first draw stands for "one mask"."""

    weights: torch.Tensor  # (num_tokens, num_tokens), before dropout
    kept: torch.Tensor  # (num_tokens, num_tokens), True where the first draw keeps an entry
    dropped: torch.Tensor  # (num_tokens, num_tokens), the weights after the first draw
    average: torch.Tensor  # (num_tokens, num_tokens), over all draws
    row_sums: torch.Tensor  # (draws, num_tokens)
    histogram: torch.Tensor  # (BINS,), shares of the row sums


def attend(embeddings, p, seed, training, draws):
    """From control values to arrays, for embeddings (num_tokens, d_in)."""
    num_tokens, d_in = embeddings.shape
    layer = seeded(CausalAttention, 123, d_in, 2, num_tokens, 0.0)
    weights = layer.steps(embeddings[None]).weights[0]  # (num_tokens, num_tokens)
    dropout = Dropout(p, generator=torch.Generator().manual_seed(seed)).train(training)
    many = dropout(weights.expand(draws, -1, -1))  # (draws, num_tokens, num_tokens)
    row_sums = many.sum(dim=-1)  # (draws, num_tokens)
    bins = (row_sums / 0.25 + 1e-6).long().clamp(max=BINS - 1)
    histogram = torch.bincount(bins.flatten(), minlength=BINS) / bins.numel()
    kept = (many[0] > 0) | (weights == 0)
    return DropoutState(weights, kept, many[0], many.mean(dim=0), row_sums, histogram)


class DropoutExplorer(Explorer):
    """Drop attention weights with probability p, once or many times, in training or in eval mode.

    sentence: a Sentence of up to 8 tokens. Arrays: a DropoutState. Errors: see Explorer.
    """

    def __init__(self, sentence):
        self.tokens, self.embeddings = sentence
        super().__init__()

    def make_controls(self):
        modes = [("train()", True), ("eval()", False)]
        return {
            "p": widgets.FloatSlider(0.5, min=0, max=0.9, step=0.05, description="p"),
            "seed": widgets.IntSlider(123, 0, 999, description="seed"),
            "training": widgets.ToggleButtons(options=modes, description="mode"),
            "draws": widgets.SelectionSlider(options=DRAWS, value=1, description="draws"),
        }

    def compute(self, p, seed, training, draws):
        return attend(self.embeddings, p, seed, training, draws)

    def make_figure(self, state):
        figure, axes = frames.row_figure((1.1, 1.15, 1.35, 1.3), width=11.6, height=3.5)
        tokens, shape = self.tokens, state.weights.shape
        frames.frame_cells(axes[0], tokens, tokens, shape, "one mask (1: kept)")
        frames.frame_cells(axes[1], None, tokens, shape, "weights after it", labels=("", "key"))
        frames.frame_cells(axes[2], None, tokens, shape, "average of the draws", legend=(0, 1), labels=("", "key"))
        edges = [f"{n / 4:g}" for n in range(BINS - 1)] + [f"{(BINS - 1) / 4:g}+"]
        frames.frame_bars(axes[3], edges, (0, 1.18), "row sums from … on, shares")
        return figure

    def paint(self, canvas, state):
        future = causal_mask(len(state.weights))
        canvas.update_heatmap(0, state.kept, hidden=future, decimals=0)
        canvas.update_heatmap(1, state.dropped, hidden=future)
        canvas.update_heatmap(2, state.average, hidden=future)
        canvas.update_bars(3, [state.histogram], size=6)

    def readouts(self, state):
        past = ~causal_mask(len(state.weights))
        sums = state.row_sums
        return {
            "kept in this mask": f"{int((state.kept & past).sum())} of {int(past.sum())} weights",
            "row sums": f"{sums.min():.4f} to {sums.max():.4f}, mean {sums.mean():.4f}",
            "average against no dropout": f"largest difference {(state.average - state.weights).abs().max():.4f}",
        }

    def in_words(self, state):
        past = ~causal_mask(len(state.weights))
        return (
            f"One mask keeps {int((state.kept & past).sum())} of {int(past.sum())} weights. "
            f"Row sums over all draws go from {state.row_sums.min():.2f} to {state.row_sums.max():.2f}, "
            f"with mean {state.row_sums.mean():.2f}. The average differs from the weights without dropout "
            f"by at most {(state.average - state.weights).abs().max():.2f}."
        )

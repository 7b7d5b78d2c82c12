"""Notebook 04: dropout on causal weights: one mask, the weights it leaves, and the average over many masks."""

from typing import NamedTuple

import ipywidgets as widgets
import torch

from ..core import causal_mask
from ..dropout import Dropout
from ..layers import CausalAttention
from ..seeded import seeded
from .base import SentenceExplorer, dropout, seed, stops
from .ink import WEIGHTS
from .svg import bars, beside
from .svg_maps import colour_bar, heatmap

DRAWS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
BINS = 12  # of row sums, each 0.25 wide; the last one is open-ended


class DropoutState(NamedTuple):
    """What the picture shows; "one mask" is the first draw."""

    weights: torch.Tensor  # (num_tokens, num_tokens), before dropout
    kept: torch.Tensor  # (num_tokens, num_tokens), True where the first draw keeps an entry
    dropped: torch.Tensor  # (num_tokens, num_tokens), the weights after the first draw
    average: torch.Tensor  # (num_tokens, num_tokens), over all draws
    row_sums: torch.Tensor  # (draws, num_tokens)
    histogram: torch.Tensor  # (BINS,), fractions of the row sums


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


class DropoutExplorer(SentenceExplorer):
    """Drop attention weights with probability p, once or many times, in training or in eval mode.

    sentence: a Sentence of up to 8 tokens. Arrays: a DropoutState. Errors: as in Explorer.
    """

    def make_controls(self):
        modes = {"options": [("train()", True), ("eval()", False)], "tooltip": "Dropout does nothing in eval()"}
        return {
            "p": dropout("p", 0.5),
            "seed": seed(123),
            "training": widgets.ToggleButtons(description="mode", **modes),
            "draws": stops("draws", DRAWS, 1, "How many masks are averaged"),
        }

    def compute(self, p, seed, training, draws):
        return attend(self.embeddings, p, seed, training, draws)

    def picture(self, state):
        tokens, future = self.tokens, causal_mask(len(state.weights))
        taken = ~state.kept
        mask = {"hidden": future, "taken": taken, "decimals": 0, "tell": "{} keeps {}"}
        edges = [f"{n / 4:g}" for n in range(BINS - 1)] + [f"{(BINS - 1) / 4:g}+"]
        before = heatmap(state.weights, tokens, tokens, "weights before", hidden=future)
        one = heatmap(state.kept, tokens, tokens, "one mask (1: kept)", **mask)
        dropped = heatmap(state.dropped, tokens, tokens, "weights after", taken=taken, hidden=future)
        average = heatmap(state.average, tokens, tokens, "average of the draws", hidden=future)
        sums = bars(
            {"share": state.histogram},
            edges,
            "how often a row sum lies from each number to the next",
            width=700,
            height=90,
        )
        return [[before, one, dropped, beside(average, colour_bar(shade=WEIGHTS, more=True))], [sums]]

    def headline(self, state):
        return ""

    def readouts(self, state):
        past, sums = ~causal_mask(len(state.weights)), state.row_sums
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

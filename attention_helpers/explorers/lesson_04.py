"""Notebook 04: dropout on causal weights: one mask, the weights it leaves, and the average over many masks."""

from typing import NamedTuple

import ipywidgets as widgets
import torch

from ..core import causal_mask
from ..dropout import Dropout
from ..layers import CausalAttention
from ..plots import GREY
from ..seeded import seeded
from .base import SentenceExplorer, dropout, seed, stops
from .ink import NEUTRAL, WEIGHTS, weight_limit
from .svg import bars, beside
from .svg_maps import colour_bar, heatmap

DRAWS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
SIDE = 160  # of a map: four of them fit a page
BINS = 12  # of row sums, each 0.25 wide; the last one is open-ended


class DropoutState(NamedTuple):
    """What the picture shows; "one mask" is the first draw."""

    p: float
    training: bool
    weights: torch.Tensor  # (num_tokens, num_tokens), before dropout
    kept: torch.Tensor  # (num_tokens, num_tokens), True where the first draw keeps an entry
    dropped: torch.Tensor  # (num_tokens, num_tokens), the weights after the first draw
    average: torch.Tensor  # (num_tokens, num_tokens), over all draws
    row_sums: torch.Tensor  # (draws, num_tokens)
    histogram: torch.Tensor  # (BINS,), fractions of the row sums


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
            "draws": stops("draws", DRAWS, 100, "How many masks are averaged"),
        }

    def compute(self, p, seed, training, draws):
        num_tokens, d_in = self.embeddings.shape
        layer = seeded(CausalAttention, 123, d_in, 2, num_tokens, 0.0)
        weights = layer.steps(self.embeddings[None]).weights[0]  # (num_tokens, num_tokens)
        drop = Dropout(p, generator=torch.Generator().manual_seed(seed)).train(training)
        many = drop(weights.expand(draws, -1, -1))  # (draws, num_tokens, num_tokens)
        row_sums = many.sum(dim=-1)  # (draws, num_tokens)
        bins = (row_sums / 0.25 + 1e-6).long().clamp(max=BINS - 1)
        histogram = torch.bincount(bins.flatten(), minlength=BINS) / bins.numel()
        kept = (many[0] > 0) | (weights == 0)
        return DropoutState(p, training, weights, kept, many[0], many.mean(dim=0), row_sums, histogram)

    def note(self, wanted, values):
        if not values["training"]:
            return "p, seed and draws do nothing: eval() turns dropout off."
        return "" if values["p"] else "seed and draws do nothing while p is 0, because nothing is dropped."

    def unused(self, values):
        if not values["training"]:
            return {"p", "seed", "draws"}
        return set() if values["p"] else {"seed", "draws"}

    def picture(self, state):
        future, taken, draws = causal_mask(len(state.weights)), ~state.kept, len(state.row_sums)
        limit = weight_limit(len(self.tokens))

        def table(values, title, **more):
            more = {"limit": limit, "decimals": 2 if values.max() < 9.995 else 1} | more  # four characters fit a cell
            return heatmap(values, self.tokens, self.tokens, title, side=SIDE, hidden=future, **more)

        mask = {"taken": taken, "decimals": 0, "ink": NEUTRAL, "limit": 2, "tell": "{} keeps {}", "beside": False}
        before, one = table(state.weights, "weights"), table(state.kept, "one mask: 1 is kept", **mask)
        after = table(state.dropped, "weights after it", taken=taken)
        average = table(state.average, f"average of {draws} mask{'s' * (draws > 1)}", beside=False)
        edges = [f"{n / 4:g}" for n in range(BINS - 1)] + [f"{(BINS - 1) / 4:g}+"]
        title = "how often a row sums to this much (in ranges of 0.25)"
        sums = bars({"share": state.histogram}, edges, title, width=464, height=70, colours=[GREY])
        bar = colour_bar(limit, WEIGHTS, SIDE, more=True)  # dropout makes weights larger than 1
        return [[beside(before, one), beside(after, average, bar)], [sums]]

    def headline(self, state):
        if not state.training or state.p == 0:
            return f"{'With p = 0' if state.training else 'In eval()'}, nothing is dropped: every row still sums to 1"
        draws, sums, off = len(state.row_sums), state.row_sums, (state.average - state.weights).abs().max()
        if draws == 1:
            grown = f"One mask keeps {self.kept(state)} weights, each times {1 / (1 - state.p):.2f}"
            return f"{grown}: row sums go from {sums.min():.2f} to {sums.max():.2f}"
        return f"One mask keeps {self.kept(state)} weights; the average of {draws} is off by at most {off:.2f}"

    def kept(self, state):
        past = ~causal_mask(len(state.weights))
        return f"{int((state.kept & past).sum())} of {int(past.sum())}"

    def readouts(self, state):
        sums, factor = state.row_sums, 1 / (1 - state.p) if state.training else 1.0
        return {
            "row sums": f"{sums.min():.4f} to {sums.max():.4f}, mean {sums.mean():.4f}",
            "what one mask keeps": f"{self.kept(state)} weights, each times {factor:.2f}",
            "average against no dropout": f"at most {(state.average - state.weights).abs().max():.4f} apart",
        }

    def in_words(self, state):
        return (
            f"One mask keeps {self.kept(state)} weights. "
            f"Row sums over all draws go from {state.row_sums.min():.2f} to {state.row_sums.max():.2f}, "
            f"with mean {state.row_sums.mean():.2f}. The average differs from the weights without dropout "
            f"by at most {(state.average - state.weights).abs().max():.2f}."
        )

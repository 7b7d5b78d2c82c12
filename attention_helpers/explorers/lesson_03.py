"""Notebook 03: four ways to mask, or not to, and what perturbing one token moves."""

from typing import NamedTuple

import ipywidgets as widgets
import torch

from .. import plots
from ..core import causal_mask, context_vectors
from ..layers import CausalAttention
from ..probes import perturbation_influence
from ..seeded import seeded
from .base import SentenceExplorer, slider, stops
from .ink import NEUTRAL, WEIGHTS, largest
from .svg import beside
from .svg_maps import colour_bar, heatmap

METHODS = {
    "-inf": "-inf, then softmax",
    "renormalise": "softmax, tril, renormalise",
    "leaky": "leaky: masked_fill thrown away",
    "none": "no mask",
}


class MaskState(NamedTuple):
    """What the picture shows; `moved` is how far each row's context vector moves when token `poked` is perturbed."""

    method: str
    poked: int
    amount: float
    weights: torch.Tensor  # (num_tokens, num_tokens)
    influence: torch.Tensor  # (num_tokens, num_tokens): how far row i moves when token j is perturbed

    moved = property(lambda self: self.influence[:, self.poked])  # (num_tokens,)


class Masked(torch.nn.Module):
    """A CausalAttention with weights masked by one of the METHODS; x: (1, num_tokens, d_in)."""

    def __init__(self, layer, method):
        super().__init__()
        self.layer, self.method = layer, method

    def weights(self, x):
        if self.method == "-inf":
            return self.layer.steps(x).weights  # (1, num_tokens, num_tokens)
        hide, steps = causal_mask(x.shape[1]), self.layer.steps(x)
        scaled = steps.scores * steps.keys.shape[-1] ** -0.5
        if self.method == "leaky":
            scaled.masked_fill(hide, -torch.inf)  # the bug itself: the result is thrown away
        weights = torch.softmax(scaled, dim=-1)
        if self.method == "renormalise":
            weights = weights * ~hide
            weights = weights / weights.sum(dim=-1, keepdim=True)
        return weights  # (1, num_tokens, num_tokens)

    def forward(self, x):
        return context_vectors(self.weights(x), self.layer.W_value(x))  # (1, num_tokens, d_out)


def attend(embeddings, num_tokens, method, poked, amount):
    """From control values to arrays, for the first num_tokens rows of embeddings (context_length, d_in)."""
    if poked >= num_tokens:
        raise ValueError(f"token {poked} is not among the first {num_tokens}: poke an earlier one, or take more tokens")
    layer = Masked(seeded(CausalAttention, 123, embeddings.shape[1], 2, len(embeddings), 0.0), method).eval()
    x = embeddings[None, :num_tokens]  # (1, num_tokens, d_in)
    return MaskState(method, poked, amount, layer.weights(x)[0], perturbation_influence(layer, x, amount))


class MaskExplorer(SentenceExplorer):
    """Choose how to mask the future, perturb one token, and see which rows move.

    sentence: a Sentence of up to 8 tokens. Arrays: a MaskState. Units: the perturbation's length is in units of the
    embeddings, the influence in units of the context vectors. Errors: as in Explorer.
    """

    def make_controls(self):
        last = len(self.tokens) - 1
        names = [(f"{i} {token}", i) for i, token in enumerate(self.tokens)]
        methods = [(text, key) for key, text in METHODS.items()]
        return {
            "num_tokens": slider("num_tokens", last + 1, 1, last + 1, "How many of the sentence's tokens"),
            "method": widgets.Dropdown(options=methods, description="mask", tooltip="How the future is hidden"),
            "poked": stops("poke", names, last, "The token that is moved"),
            "amount": slider("poke by", 1.0, 0.1, 5.0, "How far it moves, in units of the embeddings", step=0.1),
        }

    def compute(self, num_tokens, method, poked, amount):
        return attend(self.embeddings, num_tokens, method, poked, amount)

    def picture(self, state):
        tokens, future = self.tokens[: len(state.weights)], causal_mask(len(state.weights))
        hidden = future if state.method in ("-inf", "renormalise") else None
        most = largest(state.influence)
        named = {"labels": ("row", "poked token"), "tell": "poking {1} moves {0} by", "column": state.poked}
        weights = heatmap(state.weights, tokens, tokens, "weights", side=230, hidden=hidden)
        influence = heatmap(state.influence, tokens, tokens, "influence", side=230, limit=most, ink=NEUTRAL, **named)
        bars = colour_bar(shade=WEIGHTS, height=230), colour_bar(most, NEUTRAL, height=230)
        return [[beside(weights, bars[0]), beside(influence, bars[1])]]

    def headline(self, state):
        return ""

    def readouts(self, state):
        tokens = self.tokens[: len(state.weights)]
        moves = [f"{token} by {move:.4f}" for token, move in zip(tokens, state.moved.tolist(), strict=True) if move > 0]
        earlier = state.moved[: state.poked].max().item() if state.poked else 0.0
        leak = f"yes: an earlier row moves by {earlier:.4f}" if earlier else "no: no earlier row moves"
        return {
            f"poking “{tokens[state.poked]}” moves": ", ".join(moves),
            "does the future leak?": leak,
            "row sums": f"{state.weights.sum(dim=-1).min():.4f} to {state.weights.sum(dim=-1).max():.4f}",
        }

    def in_words(self, state):
        tokens = self.tokens[: len(state.weights)]
        return (
            f"{METHODS[state.method]}. Largest weight of each row: {plots.strongest(state.weights, tokens, tokens)}. "
            f"Poking {tokens[state.poked]} by {state.amount:.1f} moves the rows by "
            + ", ".join(f"{token} {move:.2f}" for token, move in zip(tokens, state.moved.tolist(), strict=True))
            + "."
        )

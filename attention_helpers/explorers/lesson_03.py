"""Notebook 03: four ways to mask, or not to, and what perturbing one token moves."""

from typing import NamedTuple

import ipywidgets as widgets
import torch

from .. import plots
from ..core import causal_mask, context_vectors
from ..layers import CausalAttention
from ..probes import rounding, step_of
from ..seeded import seeded
from .base import SentenceExplorer, slider, stops
from .ink import NEUTRAL, WEIGHTS, largest, weight_limit
from .svg import BOTTOM, TOP, Drawing, beside, tag, text
from .svg_maps import colour_bar, heatmap, influence_map

SIDE = 210  # of a map
METHODS = {
    "-inf": "-inf, then softmax",
    "renormalise": "softmax, tril, renormalise",
    "leaky": "leaky: masked_fill thrown away",
    "none": "no mask",
}
SHORT = {"-inf": "-inf", "renormalise": "renormalised", "leaky": "leaky", "none": "no mask"}
HOW = {
    "-inf": "With -inf before softmax",
    "renormalise": "With renormalised weights",
    "leaky": "In the leaky layer",
    "none": "Without a mask",
}


class MaskState(NamedTuple):
    """What the picture shows; `moved` is how far each row's context vector moves when token `poked` is perturbed."""

    method: str
    poked: int
    amount: float
    weights: torch.Tensor  # (num_tokens, num_tokens)
    influence: torch.Tensor  # (num_tokens, num_tokens): how far row i moves when token j is perturbed
    correct: torch.Tensor  # (num_tokens, num_tokens), the influence with the correct mask, "-inf"

    moved = property(lambda self: self.influence[:, self.poked])  # (num_tokens,)


def masked(steps, method):
    """The weights of a CausalAttention, masked by one of the METHODS: (b, num_tokens, num_tokens)."""
    if method == "-inf":
        return steps.weights
    hide, scaled = causal_mask(steps.scores.shape[-1]), steps.scores * steps.keys.shape[-1] ** -0.5
    if method == "leaky":
        scaled.masked_fill(hide, -torch.inf)  # the bug itself: the result is thrown away
    weights = torch.softmax(scaled, dim=-1)
    if method == "renormalise":
        weights = weights * ~hide
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights


def rows_moved(context, x):
    """How far row i moves when token j does, (num_tokens, num_tokens), 0 if no more than rounding explains.

    context, x: (1 + num_tokens, num_tokens, ...), first of the sentence as it is, then with token j perturbed.
    """
    before, after = context[:1], context[1:]
    change = (after - before).abs().amax(dim=-1).T  # (num_tokens, num_tokens)
    return change.masked_fill(change <= rounding(before, after, x[1:]), 0.0)


class MaskExplorer(SentenceExplorer):
    """Choose how to mask the future, perturb one token, and see which rows move, there and with the correct mask.

    sentence: a Sentence of up to 8 tokens. Arrays: a MaskState. Units: the perturbation's length is in units of the
    embeddings, the influence in units of the context vectors. Errors: as in Explorer.
    """

    def make_controls(self):
        last = len(self.tokens) - 1
        names = [(f"{i} {token}", i) for i, token in enumerate(self.tokens)]
        methods = [(text, key) for key, text in METHODS.items()]
        mask = {"value": "leaky", "description": "mask", "tooltip": "How the future is hidden"}
        return {
            "num_tokens": slider("num_tokens", last + 1, 1, last + 1, "How many of the sentence's tokens"),
            "method": widgets.Dropdown(options=methods, **mask),
            "poked": stops("perturb", names, min(2, last), "The token to perturb"),
            "amount": slider("perturb by", 1.0, 0.1, 5.0, "How far it moves, in units of the embeddings", step=0.1),
        }

    def compute(self, num_tokens, method, poked, amount):
        if poked >= num_tokens:
            raise ValueError(
                f"token {poked} is not among the first {num_tokens}: perturb an earlier one, or take more tokens"
            )
        embeddings = self.embeddings
        layer = seeded(CausalAttention, 123, embeddings.shape[1], 2, len(embeddings), 0.0).eval()
        x = embeddings[None, :num_tokens]  # (1, num_tokens, d_in)
        perturbed = x + torch.eye(num_tokens)[:, :, None] * step_of(x, amount)  # token j in sentence j
        x = torch.cat((x, perturbed))  # (1 + num_tokens, num_tokens, d_in)
        steps = layer.steps(x)
        weights = {name: masked(steps, name) for name in ("-inf", method)}  # each (1 + num_tokens, num_tokens, ...)
        influence = {name: rows_moved(context_vectors(each, steps.values), x) for name, each in weights.items()}
        return MaskState(method, poked, amount, weights[method][0], influence[method], influence["-inf"])

    def note(self, wanted, values):
        same = values["method"] == "-inf"
        return "This is the correct mask itself, so both influence maps are the same." if same else ""

    def picture(self, state):
        tokens, name, limit = self.tokens[: len(state.weights)], SHORT[state.method], weight_limit(len(state.weights))
        less, more = sorted(map(largest, (state.influence, state.correct)))
        most = min(2 * less, more)  # the weaker map can be seen too
        pair = []
        for title, influence in (("correct", state.correct), (name, state.influence)):
            decimals = 3 if len(tokens) < 7 and largest(influence) < 10 else 2  # as many as a cell has room for
            look = {"limit": most, "column": state.poked, "decimals": decimals, "beside": not pair}
            pair.append(influence_map(influence, tokens, f"{title}: influence", side=SIDE, **look))
        key = with_key(colour_bar(most, NEUTRAL, SIDE, more=most < more))
        hidden = causal_mask(len(tokens)) if state.method in ("-inf", "renormalise") else None
        weights = heatmap(state.weights, tokens, tokens, f"{name}: weights", side=SIDE, hidden=hidden, limit=limit)
        weights = beside(weights, colour_bar(limit, WEIGHTS, SIDE, more=limit < 1))
        maps = beside(*pair, key), weights
        return [[drawing._replace(height=TOP + SIDE + BOTTOM) for drawing in maps]]  # also if few names need less

    def headline(self, state):
        tokens, how = self.tokens, HOW[state.method]
        who, earlier = f"“{tokens[state.poked]}”", state.moved[: state.poked]
        if not state.poked:
            return f"{who} is the first token: every row may read it, so moving it shows no leak"
        if not earlier.any():
            return f"{how}, no row before {who} moves when it changes: no leak found"
        row = int(earlier.argmax())
        return f"{how}, “{tokens[row]}” moves by {earlier[row]:.2g} when {who} changes: it reads the future"

    def readouts(self, state):
        future = causal_mask(len(state.weights))
        moving, none = ((each[future] != 0).sum() for each in (state.influence, state.correct))
        ahead = (state.weights * future).sum(dim=-1)  # (num_tokens,)
        most = f"up to {ahead.max():.2f} of a row, “{self.tokens[int(ahead.argmax())]}”" if ahead.any() else "none"
        return {
            "cells of the future that move": f"{moving} of {future.sum()}; with the correct mask {none}",
            "weight on the future": most,
        }

    def in_words(self, state):
        tokens = self.tokens[: len(state.weights)]
        rows = zip(tokens, state.moved.tolist(), state.correct[:, state.poked].tolist(), strict=True)
        return (
            f"{METHODS[state.method]}. Largest weight of each row: {plots.strongest(state.weights, tokens, tokens)}. "
            f"Perturbing {tokens[state.poked]} by {state.amount:.1f} moves the rows by "
            + ", ".join(f"{token} {move:.3f} (correct: {right:.3f})" for token, move, right in rows)
            + "."
        )


def with_key(bar):
    """A colour bar, and below it what the red outline is."""
    square = tag("rect", x=1, y=TOP + SIDE + 14, width=10, height=10, fill="none", stroke=plots.ABOVE, stroke_width=2)
    return Drawing(bar.svg + square + text(16, TOP + SIDE + 23, "future", "start"), bar.width, TOP + SIDE + 30)

"""Notebook 05: heads side by side, each with its own weights, and their contexts in one row."""

from typing import NamedTuple

import torch

from ..core import causal_mask
from ..layers import MultiHeadAttentionWrapper
from ..seeded import seeded
from .base import stops
from .ink import SIGNED, largest, weight_limit
from .lookup_models import HEADS, switch, trained
from .multi_head import HeadsExplorer, each_head, last_token_reads, right, task, two_lookups
from .svg import beside, number
from .svg_maps import colour_bar, head_maps, strip
from .words import listed

WIDTH = 32  # of all trained heads together
OFFERED = {  # by weights
    "hand-made": {"num_heads": [1, 2], "example": [1, 2]},
    "trained": {"num_heads": HEADS, "example": range(1, 9)},
}


class HeadsState(NamedTuple):
    """What the picture shows."""

    weights: torch.Tensor  # (num_heads, num_tokens, num_tokens)
    context: torch.Tensor  # (num_tokens, num_heads * head_dim), heads side by side
    parameters: int
    tokens: list
    accuracy: torch.Tensor | None = None  # (2,), on each question, with trained weights


class WrapperExplorer(HeadsExplorer):
    """One token asks for two digits: change the number of heads, made by hand or trained, and the example.

    Arrays: a HeadsState. Errors: as in Explorer.
    """

    offered = OFFERED

    def make_controls(self):
        return {
            "num_heads": stops("num_heads", [1, 2], 1, "How many heads work side by side"),
            "example": stops("example", [1, 2], 1, "Made by hand, the second one swaps two digits of the first"),
            "weights": switch(),
        }

    def compute(self, num_heads, example, weights):
        if weights == "hand-made":
            return made_by_hand(num_heads, swapped=example == 2)
        found, head_dim = trained(WIDTH, num_heads, example - 1), WIDTH // num_heads
        parts = [found.state[f"{name}.weight"].split(head_dim) for name in ("W_query", "W_key", "W_value")]
        return run(wrapper(*zip(*parts, strict=True)), found.x, found.tokens, found.accuracy)

    def picture(self, state):
        num_heads, width, tokens = len(state.weights), state.context.shape[1], state.tokens
        limit = weight_limit(len(tokens))
        bar = colour_bar(limit, height=140, more=limit < 1)
        maps = head_maps(state.weights, tokens, limit, causal_mask(len(tokens)), width=462, height=256, bar=bar)
        owners = [column // (width // num_heads) for column in range(width)]
        named = {"label": "digit", "columns": [*"123"] * num_heads} if state.accuracy is None else {}
        context = strip(state.context, tokens, owners, "context vectors, head after head", 398, 95, **named)
        both = beside(context, colour_bar(largest(state.context), SIGNED, height=95))
        return [[maps], [both._replace(height=167)]]  # the same with upright and with slanted numbers below the entries

    def headline(self, state):
        reads = last_token_reads(state.weights, state.tokens)
        if state.accuracy is not None:
            return f"{reads}; {right(state)}"
        return reads if len(state.weights) == 2 else f"{reads} each, so it gets one average of two digits"

    def readouts(self, state):
        num_heads, width = len(state.weights), state.context.shape[1]
        parts = " | ".join(listed(part, 3) for part in state.context[-1].chunk(num_heads))
        return {
            **({f"context of “{state.tokens[-1]}”": parts} if state.accuracy is None else {}),
            "width": f"{num_heads} head{'s' * (num_heads > 1)} × {width // num_heads} = {width}",
            "parameters": f"{num_heads} × {state.parameters // num_heads} = {state.parameters}",
            **task(state),
        }

    def in_words(self, state):
        low, high = (number(each.item()) for each in state.context.aminmax())
        width = state.context.shape[1]
        return f"{each_head(state)} The context vectors are {width} wide, with entries from {low} to {high}."


def made_by_hand(num_heads, swapped):
    """The sentence of notebook 05, and one head that looks for both letters, or two with a letter each."""
    tokens, x = two_lookups(swapped)
    letter, digit, first, second = torch.eye(12).split(3)  # (3, 12) each, as an nn.Linear stores them
    queries = [first, second] if num_heads == 2 else [first + second]
    return run(wrapper(*((query, 10 * letter, digit) for query in queries)), x, tokens)


def run(layer, x, tokens, accuracy=None):
    """A layer's weights and context vectors for x (num_tokens, d_in)."""
    steps, parameters = layer.steps(x[None]), sum(parameter.numel() for parameter in layer.parameters())
    return HeadsState(steps.weights[0], steps.context[0], parameters, tokens, accuracy)


def wrapper(*heads):
    """A MultiHeadAttentionWrapper with each head's W_query, W_key and W_value, (head_dim, d_in)."""
    head_dim, d_in = heads[0][0].shape
    layer = seeded(MultiHeadAttentionWrapper, 0, d_in, head_dim, 8, 0.0, len(heads))
    for head, matrices in zip(layer.heads, heads, strict=True):
        for linear, matrix in zip((head.W_query, head.W_key, head.W_value), matrices, strict=True):
            linear.weight.copy_(matrix)
    return layer

"""Notebook 05: heads side by side, each with its own weights, and their contexts in one row."""

import torch

from attention_helpers.layers import MultiHeadAttentionWrapper
from attention_helpers.seeded import seeded

from .ink import SIGNED, largest
from .lookup_models import dropping, shown, stored
from .multi_head import (
    HeadsExplorer,
    last_token_reads,
    maps_and_planes,
    shares_right,
    state_of,
    task,
    two_lookups,
)
from .svg import beside
from .svg_maps import colour_bar, strip

OFFERED = {  # by weights
    "hand-made": {"num_heads": [1, 2], "d_out": [3], "example": [1, 2]},
    "trained": {"num_heads": [1, 2, 4], "d_out": [1, 2, 4, 8], "example": range(1, 9)},
}


class WrapperExplorer(HeadsExplorer):
    """One token asks for two digits: change the number of heads, made by hand or trained, their width, and dropout."""

    offered, of_d_out = OFFERED, "each head's queries, keys and values"

    def compute(self, num_heads, d_out, example, dropout, seed, weights):
        if weights == "hand-made":
            model, layer, (tokens, x) = None, made_by_hand(num_heads), two_lookups(swapped=example == 2)
        else:
            model = stored(2, num_heads * d_out, num_heads)
            parts = [linear.weight.split(d_out) for linear in [*model.attention.children()][:3]]
            layer, (tokens, x) = wrapper(*zip(*parts, strict=True)), shown(model, example - 1)
        with dropping(layer, dropout, seed):
            steps = layer.steps(x[None])
        return state_of(layer, steps, tokens, dropout, seed, model, example - 1)

    def picture(self, state):
        num_heads, width, tokens = len(state.weights), state.context.shape[1], state.tokens
        owners, trained = [column // (width // num_heads) for column in range(width)], state.accuracy is not None
        look = {"told": 2} if trained else {"label": "digit", "columns": [*"123"] * num_heads}
        context = strip(state.context, tokens, owners, "context vectors, head after head", 398, 95, **look)
        both = beside(context, colour_bar(largest(state.context), SIGNED, height=95))
        maps, planes = maps_and_planes(state, 388, 230)
        # room for the words below planes, and the same height with upright and with slanted numbers below the entries
        return [[maps, planes._replace(width=336)], [both._replace(height=167)]]

    def headline(self, state):
        reads = last_token_reads(state)
        if state.accuracy is not None:
            return f"{reads}; {shares_right(state)}"
        return reads if len(state.weights) == 2 else f"{reads} each, so it gets one average of two digits"

    def readouts(self, state):
        n, width = len(state.weights), state.context.shape[1]
        sizes = f"{n} × {width // n} = {width}, {n} × {state.parameters // n} = {state.parameters}"
        return {"width, parameters": sizes} | task(state)


def made_by_hand(num_heads):
    """The matrices of notebook 05: one head that looks for both letters, or two with a letter each."""
    letter, digit, first, second = torch.eye(12).split(3)  # (3, 12) each, as an nn.Linear stores them
    queries = [first, second] if num_heads == 2 else [first + second]
    return wrapper(*((query, 10 * letter, digit) for query in queries))


def wrapper(*heads):
    """A MultiHeadAttentionWrapper with each head's W_query, W_key and W_value, (head_dim, d_in)."""
    head_dim, d_in = heads[0][0].shape
    layer = seeded(MultiHeadAttentionWrapper, 0, d_in, head_dim, 8, 0.0, len(heads))
    for head, matrices in zip(layer.heads, heads, strict=True):
        for linear, matrix in zip((head.W_query, head.W_key, head.W_value), matrices, strict=True):
            linear.weight.copy_(matrix)
    return layer

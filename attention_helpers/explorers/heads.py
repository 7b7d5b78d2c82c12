"""Notebooks 05 and 06: one heatmap a head; stacked heads, and heads split from one width."""

from functools import lru_cache
from typing import NamedTuple

import torch

from ..core import causal_mask
from ..layers import MultiHeadAttention, MultiHeadAttentionWrapper
from ..trace import trace
from .base import SentenceExplorer
from .cells import colour_bar, heads
from .drawing import beside
from .seeded import DrawnFrom, seeded
from .words import entropy_in_bits

MOST_HEADS, MOST_TOKENS = 12, 64


class HeadsState(NamedTuple):
    """What the picture shows; `shown` are the weights that the context is mixed by, after dropout."""

    weights: torch.Tensor  # (num_heads, num_tokens, num_tokens), before dropout
    shown: torch.Tensor  # (num_heads, num_tokens, num_tokens)
    context: torch.Tensor  # (num_tokens, width), heads side by side
    entropy: torch.Tensor  # (num_heads,), mean over the rows, in bits, before dropout
    parameters: int
    operations: str = ""  # the trace of the call, where it is shown


def run(layer, dropouts, x, seed):
    """Steps of a layer in training mode for x (1, num_tokens, d_in), with masks from the seed, and what they left."""
    generator = torch.Generator()
    for dropout in dropouts:
        dropout.generator = generator
    generator.manual_seed(seed)
    steps = layer.train().steps(x)
    generator.manual_seed(seed)  # the same masks once more, to show what they left of the weights
    heads = steps.weights.split(steps.weights.shape[1] // len(dropouts), dim=1)
    shown = torch.cat([dropout(weights) for dropout, weights in zip(dropouts, heads, strict=True)], dim=1)
    parameters = sum(parameter.numel() for parameter in layer.parameters())
    entropy = entropy_in_bits(steps.weights[0]).mean(dim=-1)  # (num_heads,)
    return HeadsState(steps.weights[0], shown[0], steps.context[0], entropy, parameters)


def stack_heads(embeddings, num_heads, d_out, dropout, seed):
    """From control values to arrays: a MultiHeadAttentionWrapper on embeddings (num_tokens, d_in)."""
    num_tokens, d_in = embeddings.shape
    layer = seeded(MultiHeadAttentionWrapper, seed, d_in, d_out, num_tokens, dropout, num_heads)
    return run(layer, [head.dropout for head in layer.heads], embeddings[None], seed)


def split_heads(embeddings, d_out, num_heads, dropout, num_tokens, seed):
    """From control values to arrays: a MultiHeadAttention on the first num_tokens rows of embeddings."""
    layer = seeded(MultiHeadAttention, seed, embeddings.shape[1], d_out, len(embeddings), dropout, num_heads)
    x = embeddings[None, :num_tokens]  # (1, num_tokens, d_in)
    return run(layer, [layer.dropout], x, seed)


@lru_cache(maxsize=256)
def operations(d_in, d_out, num_heads, num_tokens, dropping):
    """The trace of a MultiHeadAttention in training mode, as text: the same for all weights of these sizes."""
    layer = seeded(MultiHeadAttention, 0, d_in, d_out, MOST_TOKENS, 0.5 * dropping, num_heads)
    with DrawnFrom(torch.Generator()), torch.no_grad():
        return str(trace(layer, torch.zeros(1, num_tokens, d_in)))


class HeadsExplorer(SentenceExplorer):
    """What both explorers of heads share: a heatmap a head, in one grid, and one colour bar."""

    def heads_picture(self, state, tokens, width, height):
        limits, future = lightest(state), causal_mask(len(tokens))
        taken = (state.shown == 0) & (state.weights > 0)
        grid = heads(state.shown, tokens, limits, future, taken, width, height)
        return beside(grid, colour_bar(limits, height=height / 2, more=True))

    def heads_in_words(self, state, tokens):
        most, keys = state.shown[:, -1].max(dim=-1)  # each (num_heads,)
        rows = zip(state.entropy.tolist(), keys.tolist(), most.tolist(), strict=True)
        return " ".join(
            f"Head {head}: mean entropy {entropy:.2f} bits, last token reads {tokens[key]} most ({weight:.2f})."
            for head, (entropy, key, weight) in enumerate(rows, 1)
        )


def lightest(state):
    """The colours' limits: with many tokens the weights are small, and the lightest colour must come down to them."""
    return 0.0, min(1.0, 4 / state.shown.shape[-1])

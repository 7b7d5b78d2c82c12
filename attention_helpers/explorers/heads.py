"""Notebooks 05 and 06: one heatmap a head; stacked heads, and heads split from one width."""

from typing import NamedTuple

import torch

from .. import frames
from ..core import causal_mask
from ..layers import MultiHeadAttention, MultiHeadAttentionWrapper
from ..trace import trace
from .base import Explorer
from .seeded import seeded
from .words import entropy_in_bits

MOST_HEADS = 12


class HeadsState(NamedTuple):
    """What the picture shows; `shown` are the weights that the context is mixed by, after dropout."""

    weights: torch.Tensor  # (num_heads, num_tokens, num_tokens), before dropout
    shown: torch.Tensor  # (num_heads, num_tokens, num_tokens)
    context: torch.Tensor  # (num_tokens, width), heads side by side
    entropy: torch.Tensor  # (num_heads,), mean over the rows, in bits, before dropout
    parameters: int


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
    """From control values to arrays: a MultiHeadAttention on the first num_tokens rows of embeddings, and its trace."""
    layer = seeded(MultiHeadAttention, seed, embeddings.shape[1], d_out, len(embeddings), dropout, num_heads)
    x = embeddings[None, :num_tokens]  # (1, num_tokens, d_in)
    return run(layer, [layer.dropout], x, seed), trace(layer, x)


class HeadsExplorer(Explorer):
    """What both explorers of heads share: a heatmap a head, in one grid."""

    def frame_heads(self, axes, tokens):
        """Frame the heatmaps: token names where they fit, at the left and below only."""
        names = tokens if len(tokens) <= frames.NAMES_UP_TO else None
        for head, ax in enumerate(axes):
            left, below = head % 4 == 0, head + 4 >= len(axes)
            labels = "query" if left else "", "key" if below else ""
            shape = len(tokens), len(tokens)
            rows, columns = names if left else None, names if below else None
            frames.frame_cells(ax, rows, columns, shape, f"head {head + 1}", labels=labels, head=head)

    def paint_heads(self, canvas, state):
        future = causal_mask(state.shown.shape[-1])
        for head, weights in enumerate(state.shown):
            canvas.update_heatmap(head, weights, lightest(state), hidden=future, size=9 if len(state.shown) <= 2 else 6)

    def heads_in_words(self, state, tokens):
        said = [
            f"Head {head}: mean entropy {entropy:.2f} bits, last token reads {tokens[int(row.argmax())]} most "
            f"({row.max():.2f})."
            for head, (entropy, row) in enumerate(zip(state.entropy.tolist(), state.shown[:, -1], strict=True), 1)
        ]
        return " ".join(said)


def lightest(state):
    """The colours' limits: with many tokens the weights are small, and the lightest colour must come down to them."""
    return 0.0, min(1.0, 4 / state.shown.shape[-1])

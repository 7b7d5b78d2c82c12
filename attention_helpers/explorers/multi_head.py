"""Notebooks 05 and 06: one heatmap per head, for stacked heads and for heads split from one width."""

from functools import lru_cache
from typing import NamedTuple

import torch

from ..dropout import Dropout
from ..layers import MultiHeadAttention, MultiHeadAttentionWrapper, Steps
from ..operations import trace
from ..seeded import DrawnFrom, seeded
from .base import SentenceExplorer
from .lookup_models import trained
from .words import entropy_in_bits

MOST_HEADS, MOST_TOKENS = 12, 64
UNUSED = {  # with trained weights
    "num_tokens": "num_tokens does nothing: the trained task has seven tokens.",
    "seed": "seed does nothing without dropout.",
}


class HeadsState(NamedTuple):
    """What the picture shows; `shown` are the weights after dropout, which average the values."""

    weights: torch.Tensor  # (num_heads, num_tokens, num_tokens), before dropout
    shown: torch.Tensor  # (num_heads, num_tokens, num_tokens)
    context: torch.Tensor  # (num_tokens, width), heads side by side
    entropy: torch.Tensor  # (num_heads,), mean over the rows, in bits, before dropout
    parameters: int
    tokens: list
    accuracy: torch.Tensor | None  # (2,), on each question, with trained weights
    x: torch.Tensor  # (num_tokens, d_in)
    steps: Steps  # for a batch of one
    output: torch.Tensor | None = None  # (num_tokens, width), if there is an output projection
    operations: str = ""  # the trace of the call, if it is shown
    where: str = "output"  # how far the picture goes


def run(layer, x, seed, tokens, accuracy=None):
    """A layer's steps in training mode for x (num_tokens, d_in), with dropout masks drawn from the seed."""
    generator, kept = torch.Generator().manual_seed(seed), []
    for dropout in (module for module in layer.modules() if isinstance(module, Dropout)):
        dropout.generator = generator
        dropout.register_forward_hook(lambda *call: kept.append(call[-1].view(-1, len(x), len(x))))
    steps = layer.train().steps(x[None])
    weights, context, output = steps.weights[0], steps.context, None
    if hasattr(layer, "out_proj"):
        output = layer.out_proj(context)[0]
    parameters = sum(parameter.numel() for parameter in layer.parameters())
    entropy = entropy_in_bits(weights).mean(dim=-1)  # (num_heads,)
    shown = torch.cat(kept)  # (num_heads, num_tokens, num_tokens)
    return HeadsState(weights, shown, context[0], entropy, parameters, tokens, accuracy, x, steps, output)


def stack_trained(num_heads, d_out, dropout, seed):
    """A wrapper with the heads of a trained MultiHeadAttention, each with its rows of the matrices."""
    found = trained(num_heads * d_out, num_heads)
    num_tokens, d_in = found.x.shape
    layer = seeded(MultiHeadAttentionWrapper, 0, d_in, d_out, num_tokens, dropout, num_heads)
    for name, rows in found.state.items():
        if not name.startswith("out_proj"):
            for head, part in zip(layer.heads, rows.split(d_out), strict=True):
                head.get_parameter(name).copy_(part)
    return run(layer, found.x, seed, found.tokens, found.accuracy)


@lru_cache(maxsize=256)
def operations(d_in, d_out, num_heads, num_tokens, dropping):
    """The trace of a MultiHeadAttention in training mode, as text; it depends only on these sizes."""
    layer = seeded(MultiHeadAttention, 0, d_in, d_out, MOST_TOKENS, 0.5 * dropping, num_heads)
    with DrawnFrom(torch.Generator()), torch.no_grad():
        return str(trace(layer, torch.zeros(1, num_tokens, d_in)))


class HeadsExplorer(SentenceExplorer):
    """What both explorers of heads share: what trained weights can't have, and which controls they don't need."""

    def unused(self, values):
        greyed = {"num_tokens"} if values["dropout"] else {"num_tokens", "seed"}
        return greyed & values.keys() if values["weights"] == "trained" else set()

    def note(self, wanted, values):
        gave_way = [name for name in ("num_heads", "d_out") if wanted[name] != values[name]]
        without = f"isn't offered with {values['weights']} weights"
        said = [f"{name} is {values[name]} for now: {wanted[name]} {without}." for name in gave_way]
        return " ".join([*said, *(UNUSED[name] for name in sorted(self.unused(values)))])


def taken_from(state):
    """Which weights dropout removed."""
    return (state.shown == 0) & (state.weights > 0)

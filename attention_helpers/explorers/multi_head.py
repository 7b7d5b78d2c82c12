"""Notebooks 05 and 06: heads, stacked or split from one width, and what they read, in words."""

from functools import lru_cache
from typing import NamedTuple

import torch

from ..dropout import Dropout
from ..layers import MultiHeadAttention, Steps
from ..operations import trace
from ..seeded import DrawnFrom, seeded
from .base import SentenceExplorer
from .words import entropy_in_bits

MOST_HEADS, MOST_TOKENS = 12, 64
FEW = 4  # heads that a headline can name
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


def joined(words):
    """ "1, 2 and 4"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def strongest(weights):
    """What the last token reads most, by head: pairs of a token's index and its weight."""
    most, keys = weights[:, -1].max(dim=-1)  # each (num_heads,)
    return list(zip(keys.tolist(), most.tolist(), strict=True))


def last_token_reads(weights, tokens):
    """What the last token reads, as a clause: all about equally, or what each head reads most, if heads are few."""
    row, last, found = weights[:, -1], f"“{tokens[-1]}”", strongest(weights)  # row: (num_heads, num_tokens)
    low, high = (each.item() for each in row.aminmax())
    if len(tokens) == 1:
        return f"{last} can only read itself"
    if high - low <= 0.5 / len(tokens):  # half of an even share
        return f"{last} reads all {len(tokens)} tokens about equally ({low:.2f} to {high:.2f})"
    if 1 < len(found) <= FEW:
        return f"{last} reads {by_token(found, tokens)}"
    head, (key, _) = max(enumerate(found, 1), key=lambda each: each[1][1])
    return f"{last} reads “{tokens[key]}” most: {high:.2f}" + f" in head {head}" * (len(found) > 1)


def by_token(found, tokens):
    """ "“H 8” most in heads 1 and 3, “I 3” in head 2"; found: each head's strongest."""
    heads = {}
    for head, (key, most) in enumerate(found, 1):
        heads.setdefault(tokens[key], []).append(f"{head}" + f" ({most:.2f})" * (len(found) == 2))
    said = [f" in head{'s' * (len(those) > 1)} {joined(those)}" for those in heads.values()]
    first, *others = [f"“{token}”" for token in heads]
    return ", ".join(token + where for token, where in zip([f"{first} most", *others], said, strict=True))


def dropped(state):
    """What dropout did, as a sentence, or "" if it's off."""
    if torch.equal(state.shown, state.weights):
        return ""
    taken, count = taken_from(state), int((state.weights > 0).sum())
    kept = state.weights[~taken].sum().item()
    grew = f"; the others grew {state.shown.sum().item() / kept:.2f} times" if kept else ""
    return f"Dropout removed {int(taken.sum())} of {count} weights{grew}"


def right(state):
    """A trained layer's accuracy, on each of the two questions."""
    first, second = (f"{share:.0%}" for share in state.accuracy.tolist())
    return f"first digit right in {first}, second in {second}"


def task(state):
    """What trained weights were trained for, as a readout; none with random weights."""
    if state.accuracy is None:
        return {}
    last, tokens = state.tokens[-1], state.tokens[:-1]
    pairs = [token for letter in last[:2] for token in tokens if token.startswith(letter)]
    asks = f"“{last}” asks for the digits in {joined([f'“{pair}”' for pair in pairs])}, in this order"
    return {"trained for": f"{asks}. Unseen examples: {right(state)}."}


def each_head(state, weights):
    """What the last token reads most in each head, for readers who can't see it; weights: those that are drawn."""
    last, said = state.tokens[-1], []
    for head, (entropy, (key, most)) in enumerate(zip(state.entropy.tolist(), strongest(weights), strict=True), 1):
        reads = f"“{last}” reads “{state.tokens[key]}” most ({most:.2f})" if most else f"“{last}” reads nothing"
        said.append(f"Head {head}: {reads}, mean entropy {entropy:.2f} bits.")
    return " ".join(said)

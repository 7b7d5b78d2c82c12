"""Notebooks 05 and 06: the sentence with two questions, what heads read of it, and their planes of queries and keys."""

from typing import NamedTuple

import torch

from attention_helpers.core import causal_mask
from attention_helpers.dropout import Dropout
from attention_helpers.sentences import load_sentence

from .base import Explorer, dropout, seed, stops
from .ink import weight_limit
from .lookup_models import best_matched, examples, letters_of, right, switch
from .plane import Plane, by_letter, counted, head_planes
from .svg import LEFT
from .svg_maps import colour_bar, head_maps
from .words import joined, plural


class HeadsExplorer(Explorer):
    """An explorer in which each kind of weights has values of its own for other controls: `offered`, by weights."""

    offered: dict
    of_d_out: str  # whose width d_out is

    def make_controls(self):
        first = {name: options[0] for name, options in self.offered["hand-made"].items()}
        tooltips = {
            "num_heads": "How many heads read the sentence",
            "d_out": f"The width of {self.of_d_out}; matrices made by hand have {first['d_out']}",
            "example": "Made by hand, the second one swaps two digits of the first",
        }
        row = {name: stops(name, [first[name]], first[name], words) for name, words in tooltips.items()}
        return row | {"dropout": dropout(), "seed": seed(0), "weights": switch()}

    def choices(self, values):
        return self.offered[values["weights"]]

    def unused(self, values):
        idle = {"d_out": values["weights"] == "hand-made", "seed": values["dropout"] == 0}
        return {name for name, nothing in idle.items() if nothing}

    def note(self, wanted, values):
        gave_way = [name for name in self.offered["hand-made"] if wanted[name] != values[name]]
        said = []
        for name in gave_way:
            offered = wanted[name] in self.offered[values["weights"]][name]
            why = f"doesn't divide {values['d_out']}" if offered else f"isn't offered with {values['weights']} weights"
            said.append(f"{name} is {values[name]} for now: {wanted[name]} {why}.")
        return " ".join(said)


def two_lookups(swapped):
    """The tokens and embeddings of the sentence with two questions, or of the one with two digits swapped."""
    (a, one, other, last), x = load_sentence("two_lookups")
    if swapped:
        one, other = one[:-1] + other[-1], other[:-1] + one[-1]
        x[[1, 2], 3:6] = x[[2, 1], 3:6]
    return [a, one, other, last], x


class HeadsState(NamedTuple):
    """What the heads of a layer do with one sentence; with dropout, after it."""

    weights: torch.Tensor  # (num_heads, num_tokens, num_tokens)
    dropped: torch.Tensor  # like weights: True for those that dropout removed
    context: torch.Tensor  # (num_tokens, num_heads * head_dim), heads side by side
    parameters: int
    tokens: list
    planes: list  # a Plane per head
    titles: list  # of the planes
    accuracy: torch.Tensor | None = None  # (2,), on each question, with trained weights
    answers: tuple | None = None  # the digits that a trained model answers, and the right ones


def state_of(layer, steps, tokens, p, seed, model=None, example=0):
    """The HeadsState of a layer's steps (of a batch of one) that were made with dropout p from this seed.

    model: the trained LookupModel whose heads these are, or None; example: the number of its sentence.
    """
    keep = Dropout(p, torch.Generator().manual_seed(seed))(torch.ones_like(steps.weights))[0]  # as the layer drew it
    parameters = sum(parameter.numel() for parameter in layer.parameters())
    state = HeadsState(steps.weights[0] * keep, keep == 0, steps.context[0], parameters, tokens, [], [])
    if model is None:
        rows = zip(steps.queries[0], steps.keys[0], state.weights, strict=True)
        planes = [Plane(tokens, keys, queries[:0], queries[-1], row[-1].tolist()) for queries, keys, row in rows]
        return state._replace(planes=planes, titles=[f"head {head}" for head in range(1, len(planes) + 1)])
    logits = model.output_layer(model.attention.out_proj(steps.context[:, -1])).view(2, -1)
    answers = logits.argmax(dim=-1).tolist(), examples(2).answers[example].tolist()
    state = state._replace(accuracy=right(model, p, seed).float().mean(dim=0), answers=answers)
    return planes_of_letters(state, steps, model)


def planes_of_letters(state, steps, model):
    """A HeadsState with the Planes of all letters, as whichever of the two asked for a head matches better."""
    names, planes, titles = [chr(ord("A") + n) for n in range(model.task.letters)], [], []
    for head, (queries, keys) in enumerate(zip(*letters_of(model), strict=True)):
        asks = best_matched(queries @ keys.T)
        here, last = by_letter(names, state.tokens, state.weights[head, -1]), (queries[asks], keys)
        planes.append(Plane(names, keys, queries[asks], steps.queries[0, head, -1], here, last))
        titles.append(("1st letter", "2nd letter")[asks])
    return state._replace(planes=planes, titles=titles)


def maps_and_planes(state, width, height):
    """The heads' maps, and next to them, in the same arrangement, their planes."""
    limit, hidden = weight_limit(len(state.tokens)), causal_mask(len(state.tokens))
    bar = colour_bar(limit, height=height - 116, more=limit < 1)
    maps = head_maps(state.weights, state.tokens, limit, hidden, state.dropped, width, height, bar=bar)
    return [maps, head_planes(state.planes, state.titles, width - LEFT, height)]


def most_read(row, tokens):
    """The tokens with the largest weight of a row."""
    names = [f"“{token}”" for token, weight in zip(tokens, row, strict=True) if weight > row.max() - 1e-6]
    if row.max() == 0:  # dropout left nothing
        return "nothing"
    return "all tokens alike" if len(names) == len(tokens) else joined(names) + " alike" * (len(names) > 1)


def last_token_reads(state):
    """What the last token reads most, as a clause, with the weight if heads are few."""
    rows, tokens, heads = state.weights[:, -1], state.tokens, {}  # rows: (num_heads, num_tokens)
    if len(rows) == 1:
        return f"“{tokens[-1]}” reads {most_read(rows[0], tokens)}: {rows.max():.3f}"
    for head, row in enumerate(rows, 1):
        heads.setdefault(most_read(row, tokens), []).append(f"{head}" + f" ({row.max():.2f})" * (len(rows) == 2))
    said = [f"{names} in {plural('head', len(those))} {joined(those)}" for names, those in heads.items()]
    return f"“{tokens[-1]}” reads {', '.join(said)}"


def shares_right(state):
    """A trained layer's accuracy, on each of the two questions."""
    first, second = (f"{share:.0%}" for share in state.accuracy.tolist())
    return f"first digit right in {first}, second in {second}"


def task(state):
    """What trained weights were trained for and what they answer, as readouts; none with weights made by hand."""
    if state.accuracy is None:
        return {}
    said, wanted = (" and ".join(map(str, digits)) for digits in state.answers)
    pairs = [token for letter in state.tokens[-1][:2] for token in state.tokens[:-1] if token.startswith(letter)]
    asks = f"digits in {joined([f'“{pair}”' for pair in pairs])}, in this order"
    return {
        "asked for": f"the {asks}: {wanted}" if said == wanted else f"the {asks}: {wanted}. Answered: {said}",
        "own key scores highest": "; ".join(f"head {n}: {counted(plane)}" for n, plane in enumerate(state.planes, 1)),
    }

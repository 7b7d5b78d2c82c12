"""Notebooks 05 and 06: the sentence with two questions, what heads read of it, and their planes of queries and keys."""

from contextlib import contextmanager
from functools import partial

import torch
from torch import nn

from attention_helpers.dropout import draw_dropout_from
from attention_helpers.language_model.model import UseNoInit
from attention_helpers.layers import MultiHeadAttention
from attention_helpers.sentences import load_sentence

from .base import Explorer
from .controls import buttons, dropout, seed, stops
from .head_columns import sizes_of
from .lookup_models import drop_weights, examples, find_right, load_lookup, show_example
from .plane import Plane, directions_of, drag
from .words import LOOKS, join_words, plural

ASKED = -1  # where a token is meant: the last token's query, not a key
CUTS = ["view, then transpose", "view alone"]  # how a wide table becomes heads


class HeadsExplorer(Explorer):
    """An explorer in which each kind of weights has values of its own for other controls: `offered`, by weights."""

    offered: dict
    of_d_out: str  # whose width d_out is
    high: int  # pixels of the heads' columns
    # Heads that are switched off, from 0; keys and last queries moved by hand: by num_heads, the width of all heads,
    # example, head and token (or ASKED), how far to the right and up.
    touches = {"off": (), "moved": {}}  # noqa: RUF012

    def make_controls(self):
        first = {name: options[0] for name, options in self.offered["hand-made"].items()}
        tooltips = {
            "num_heads": "How many heads look at the sentence",
            "d_out": f"The width of {self.of_d_out}; matrices made by hand have {first['d_out']}",
            "example": "Made by hand, the second one swaps two digits of the first",
        }
        row = {name: stops(name, [first[name]], first[name], words) for name, words in tooltips.items()}
        weights = buttons("weights", [*self.offered], "Hand-made, or trained for the lookup task")
        return row | {"dropout": dropout(), "seed": seed(0), "weights": weights}

    def choices(self, values):
        return self.offered[values["weights"]]

    def unused(self, values):
        by_hand = {"d_out": "fixed by hand"} if values["weights"] == "hand-made" else {}
        undrawn = {"seed": "only with dropout"} if values["dropout"] == 0 else {}
        return by_hand | undrawn

    def note(self, wanted, values):
        said = []
        for name in [name for name in self.offered["hand-made"] if wanted[name] != values[name]]:
            offered = wanted[name] in self.offered[values["weights"]][name]
            why = f"doesn't divide {values['d_out']}" if offered else f"isn't offered with {values['weights']} weights"
            said.append(f"{name} is {values[name]} for now: {wanted[name]} {why}.")
        off = [str(head + 1) for head in values["off"] if head < values["num_heads"]]
        if off:
            said.append(f"{plural('Head', len(off))} {join_words(off)} switched off.")
        return " ".join(said)

    def touched(self, name, place, at=(), by=None):
        """A head was switched off or on by its map, or a key or query moved to a place, by some pixels, or back."""
        if name == "off":
            return self._try(off=tuple(sorted({*self.shown["off"]} ^ {int(place)})))
        head, token = map(int, place.split(","))
        state, planes = self.arrays, self.arrays.planes
        if at != () or by:
            *_, side = sizes_of(len(planes), self.high)
            point = len(planes), state.context.shape[1], state.example, head, token if name == "key" else ASKED
            self._try(moved=drag(state.moved, point, planes[head], side, name, token, at, by))

    def compute(self, num_heads, d_out, example, dropout, seed, weights, off, moved, cut=CUTS[0]):
        off = tuple(head for head in off if head < num_heads)
        if weights == "hand-made":
            layer = made_by_hand(d_out, num_heads)
            return look(layer, *two_lookups(swapped=example == 2), cut, dropout, seed, off) | {"planes": []}
        moved = {point[3:]: place for point, place in moved.items() if point[:3] == (num_heads, d_out, example)}
        model = load_lookup(2, d_out, num_heads)
        shown = look(model.attention, *show_example(model, example - 1), cut, dropout, seed, off, moved)
        logits = model.output_layer(model.attention.out_proj(shown["context"][-1])).view(2, -1)
        answers = logits.argmax(dim=-1).tolist(), examples(2).answers[example - 1].tolist()  # given, and right
        return shown | {"answers": answers, "accuracy": find_right(model, dropout, seed, off).float().mean(dim=0)}

    def headline(self, state):
        looks = last_token_looks(state)
        if state.accuracy is None:
            return looks
        first, second = (f"{share:.0%}" for share in state.accuracy.tolist())
        point = len(state.planes), state.context.shape[1], state.example
        own = "without moves, " * any(moved[:3] == point for moved in state.moved)
        return f"{looks}; {own}digits right in {first} and {second}"


def two_lookups(swapped):
    """The tokens and embeddings of the sentence with two questions, or of the one with two digits swapped."""
    (a, one, other, last), x = load_sentence("two_lookups")
    if swapped:
        one, other = one[:-1] + other[-1], other[:-1] + one[-1]
        x[[1, 2], 3:6] = x[[2, 1], 3:6]
    return [a, one, other, last], x


def made_by_hand(d_out, num_heads):
    """A layer with notebook 05's matrices: 3 wide, it asks for both letters at once; 6 wide, for each in its half."""
    letter, digit, first, second = torch.eye(12).split(3)  # (3, 12) each, as an nn.Linear stores them
    query = first + second if d_out == 3 else torch.cat((first, second))
    with UseNoInit():  # draws no numbers, and the sentence needs no others than these matrices
        layer = draw_dropout_from(MultiHeadAttention(12, d_out, 4, 0.0, num_heads))
    for linear, matrix in (layer.W_query, query), (layer.W_key, 10 * letter), (layer.W_value, digit):
        linear.weight = nn.Parameter(matrix.repeat(d_out // len(matrix), 1), requires_grad=False)
    return layer


def split(layer, wide, cut):
    """A wide table (num_tokens, d_out), cut into heads in a given way: (num_heads, num_tokens, head_dim)."""
    if cut == CUTS[0]:
        return MultiHeadAttention.split_heads(layer, wide[None])[0]
    return wide.view(layer.num_heads, len(wide), layer.head_dim)


def look(layer, tokens, x, cut, p, seed, off, moved=None):
    """What the heads of a layer do with x (num_tokens, d_in), with dropout p drawn from this seed.

    off: heads that give 0; moved: by head and token, how far its key, or the last query, is moved within its plane.
    wide: queries, keys and values by name, (num_tokens, d_out) each; owners, of the same shape: which head gets each
    entry. weights, after dropout, and dropped: (num_heads, num_tokens, num_tokens). context: (num_tokens, d_out).
    """
    n = len(x)
    own, asking = (split(layer, linear(x), cut) for linear in (layer.W_key, layer.W_query))
    by_hand = {"queries": torch.zeros_like(asking), "keys": torch.zeros_like(own)}
    for (head, token), place in (moved or {}).items():
        point = by_hand["queries"][head, -1] if token == ASKED else by_hand["keys"][head, token]
        point += directions_of(own[head], asking[head, -1]).float() @ torch.tensor(place)
    with drop_weights(layer, p, seed), watch(layer, cut, off, by_hand) as seen:
        layer(x[None])
    wide = {name: seen.pop(name) for name in ("queries", "keys", "values")}
    queries, keys = (split(layer, wide[name], cut) for name in ("queries", "keys"))
    owners = torch.empty(wide["keys"].shape, dtype=torch.long)
    for head, places in enumerate(split(layer, torch.arange(owners.numel()).view(n, -1), cut)):
        owners.view(-1)[places] = head
    names = [*(token[0] for token in tokens[:-1]), "?"]
    rows = zip(asking, queries, keys, seen["weights"][:, -1].tolist(), own, strict=True)
    planes = [Plane(names, k, q[:0], now[-1], row, (q[-1:], first)) for q, now, k, row, first in rows]
    parameters = sum(parameter.numel() for parameter in layer.parameters())
    shown = {"tokens": tokens, "wide": wide, "owners": owners, "planes": planes, "parameters": parameters}
    return shown | seen | {"accuracy": None}


@contextmanager
def watch(layer, cut, off, by_hand):
    """While active, a layer that's called fills a dictionary with what it computes, for one sentence, by name.

    by_hand: what's added to queries and keys, (num_heads, num_tokens, head_dim) each.
    """
    seen, linears = {}, {"queries": layer.W_query, "keys": layer.W_key, "values": layer.W_value}

    def keep_wide(name, _, x, output):
        moved = by_hand[name].transpose(0, 1).flatten(1) if name in by_hand else 0.0
        seen[name] = output[0] + moved
        return seen[name][None]

    def keep_weights(_, before, after):
        seen["dropped"] = (after[0] == 0) & (before[0][0] > 0)
        after = after.clone()
        after[0, list(off)] = 0.0
        seen["weights"] = after[0]
        return after

    hooks = [part.register_forward_hook(partial(keep_wide, name)) for name, part in linears.items()]
    hooks.append(layer.dropout.register_forward_hook(keep_weights))
    hooks.append(layer.out_proj.register_forward_pre_hook(lambda _, inputs: seen.update(context=inputs[0][0])))
    layer.split_heads = lambda table: split(layer, table[0], cut)[None]
    try:
        yield seen
    finally:
        del layer.split_heads
        for hook in hooks:
            hook.remove()


def find_most(row, tokens):
    """The tokens with the largest weight of a row."""
    names = [f"“{token}”" for token, weight in zip(tokens, row, strict=True) if weight > row.max() - 1e-6]
    if row.max() < 5e-4:  # 0.000 as shown: dropout left nothing
        return "nothing"
    return "all tokens alike" if len(names) == len(tokens) else join_words(names) + " alike" * (len(names) > 1)


def last_token_looks(state):
    """What the last token looks at most, as a clause, with the weight if heads are few."""
    rows, tokens, heads = state.weights[:, -1], state.tokens, {}  # rows: (num_heads, num_tokens)
    if len(rows) == 1:
        return LOOKS.format(f"“{tokens[-1]}”", f"{find_most(rows[0], tokens)}: {rows.max():.3f}")
    for head, row in enumerate(rows, 1):
        heads.setdefault(find_most(row, tokens), []).append(f"{head}" + f" ({row.max():.2f})" * (len(rows) == 2))
    said = [f"{names} in {plural('head', len(those))} {join_words(those)}" for names, those in heads.items()]
    return LOOKS.format(f"“{tokens[-1]}”", ", ".join(said))


def task(state):
    """What a trained model answers, and what its heads find, as readouts; none with weights made by hand."""
    if state.accuracy is None:
        return {}
    said, wanted = (" and ".join(map(str, digits)) for digits in state.answers)
    return {"answer": f"{said}, right" if said == wanted else f"{said}, but right is {wanted}"}

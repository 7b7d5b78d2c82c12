"""Notebook 02: where a lookup's question looks, by its queries and keys; and what the width of keys does to softmax."""

from typing import NamedTuple

import ipywidgets as widgets
import torch

from .. import plots
from ..core import attention_scores, attention_weights, context_vectors
from ..sentences import load_sentence
from .base import Explorer, SentenceExplorer, seed, slider
from .ink import SIGNED, WEIGHTS, largest, weight_limit
from .svg import BOTTOM, PALE, TOP, Drawing, bars, beside, line, number, tag, text, title_of
from .svg_maps import colour_bar, heatmap
from .words import entropy_in_bits, listed, shares

SIDE = 200  # of a map
HIGH = 150  # of the opening's maps
SYMBOLS = "ABC123?"  # an embedding's entries
MADE = {"the embeddings": "embeddings", "matrices by hand": "matrices", "the same, one row missing": "row missing"}


class QKVState(NamedTuple):
    """What the picture shows of the lookup's four tokens; scores are those that enter softmax."""

    queries: torch.Tensor  # (4, 7), or (4, 3) if a matrix made them
    keys: torch.Tensor  # like queries
    scores: torch.Tensor  # (4, 4)
    weights: torch.Tensor  # (4, 4)
    read: torch.Tensor  # what the question reads: (7,) or (3,)


class QKVExplorer(Explorer):
    """Choose what makes the queries, keys and values of the lookup. Arrays: a QKVState. Errors: as in Explorer."""

    def __init__(self, **first):
        self.tokens, self.embeddings = load_sentence("lookup")  # embeddings: (4, 7)
        super().__init__(**first)

    def make_controls(self):
        made = widgets.ToggleButtons(options=MADE, description="made from", tooltip="What makes queries, keys, values")
        return {"made": made}

    def compute(self, made):
        x, scale = self.embeddings, 1.0
        queries = keys = values = x
        if made != "embeddings":
            letters, digits, question = torch.eye(7).split((3, 3, 1), dim=1)
            cancel = 10 * question if made == "matrices" else 0
            queries, keys, values = x @ letters, x @ (10 * letters - cancel), x @ digits  # (4, 3) each
            scale = 3**-0.5
        scores = attention_scores(queries, keys) * scale
        weights = attention_weights(scores)
        return QKVState(queries, keys, scores, weights, context_vectors(weights, values)[-1])

    def picture(self, state):
        tokens, wide = self.tokens, len(state.read)
        look = {"side": HIGH, "width": 170, "ink": SIGNED, "decimals": 0, "labels": ("token", "entry")}
        look |= {"limit": largest(state.keys), "tell": "{}, entry {}"}
        queries = heatmap(state.queries, tokens, SYMBOLS[:wide], "queries", **look)
        keys = heatmap(state.keys, tokens, SYMBOLS[:wide], "keys", beside=False, **look)
        weights = heatmap(state.weights, tokens, tokens, "weights", side=HIGH, row=3)
        entries = SYMBOLS if wide == 7 else SYMBOLS[3:6]
        room = {"width": 240, "height": TOP + HIGH, "colours": [WEIGHTS.above]}
        read = bars({"read": state.read}, entries, "what “B ?” reads", **room)
        return [[beside(queries, keys), beside(weights, read)]]

    def headline(self, state):
        pair, itself = state.weights[3, [1, 3]].tolist()
        return f"“B ?” gives {number(pair, 3)} of its weight to “B 1” and {number(itself, 3)} to itself"

    def readouts(self, state):
        back = state.weights[1, 3]
        return {"scores of “B ?”": listed(state.scores[3]), "weight that “B 1” gives to “B ?”": number(back, 3)}

    def in_words(self, state):
        return (
            f"Query of B ?: {listed(state.queries[3], 0)}. Its key: {listed(state.keys[3], 0)}. Its weights: "
            f"{shares(self.tokens, state.weights[3])}. What it reads: {listed(state.read)}."
        )


class ScalingState(NamedTuple):
    """What the picture shows; `variance` is taken over the complete matrix that enters softmax."""

    scores: torch.Tensor  # (num_tokens, num_tokens), before scaling
    weights: torch.Tensor  # (num_tokens, num_tokens)
    variance: torch.Tensor
    entropy: torch.Tensor  # (num_tokens,), in bits
    divided_by: int  # the d_k under the root, or 1


class ScalingExplorer(SentenceExplorer):
    """Change the width of random queries and keys, and whether their scores are divided by its root.

    sentence: a Sentence of up to 8 tokens, which only name rows and columns. Arrays: a ScalingState. Units: entropy in
    bits. Errors: as in Explorer.
    """

    def make_controls(self):
        return {
            "d_k": slider("d_k", 64, 1, 64, "The width of queries and keys"),
            "seed": seed(789),
            "scaling": widgets.Checkbox(False, description="divide by √d_k", tooltip="Scale the scores before softmax"),
        }

    def compute(self, d_k, seed, scaling):
        generator = torch.Generator().manual_seed(seed)
        queries, keys = torch.randn(2, len(self.tokens), d_k, generator=generator)  # each (num_tokens, d_k)
        scores, divided_by = attention_scores(queries, keys), d_k if scaling else 1
        scale = divided_by**-0.5
        weights = attention_weights(scores, scale=scale)
        variance = (scores * scale).var() if len(self.tokens) > 1 else torch.tensor(0.0)
        return ScalingState(scores, weights, variance, entropy_in_bits(weights), divided_by)

    def picture(self, state):
        tokens, most, limit = self.tokens, largest(state.scores), weight_limit(len(self.tokens))
        decimals = 2 if most < 9.995 else 1  # five characters fit a cell
        signed = {"limit": most, "ink": SIGNED, "tell": "{} meets {}", "decimals": decimals}
        scores = heatmap(state.scores, tokens, tokens, "scores", side=SIDE, **signed)
        weights = heatmap(state.weights, tokens, tokens, "weights", side=SIDE, limit=limit, beside=False)
        bar = colour_bar(limit, WEIGHTS, SIDE, more=limit < 1)
        return [[beside(scores, colour_bar(most, SIGNED, SIDE), weights, bar, entropy_bars(state.entropy, tokens))]]

    def headline(self, state):
        what = "Scores" if state.divided_by == 1 else f"Scores ÷ √{state.divided_by}"
        spread, top, even = f"{what} have variance {state.variance:.2g}", state.weights.max(), 1 / len(self.tokens)
        if top - even < 0.05:
            return f"{spread}: every row of weights stays nearly even, at most {number(top)}"
        row, column = divmod(int(state.weights.argmax()), len(self.tokens))
        query, read = self.tokens[row], "itself" if row == column else f"“{self.tokens[column]}”"
        if top >= 0.9:
            return f"{spread}: “{query}” reads almost only {read}, {number(top)}"
        return f"{spread}: the largest weight is {number(top)} (“{query}” reads {read})"

    def readouts(self, state):
        before = f" = {state.variance * state.divided_by:.4f} / {state.divided_by}" if state.divided_by > 1 else ""
        return {
            "variance entering softmax": f"{state.variance:.4f}{before}",
            "mean entropy": f"{state.entropy.mean():.2f} bits of at most {torch.tensor(len(self.tokens)).log2():.2f}",
        }

    def in_words(self, state):
        low, high = state.scores.min(), state.scores.max()
        return (
            f"Scores from {low:.2f} to {high:.2f}. Largest weight of each row: "
            f"{plots.strongest(state.weights, self.tokens, self.tokens)}. Mean entropy {state.entropy.mean():.2f} bits."
        )


def entropy_bars(entropy, names, width=110):
    """A bar for each row of the map to the left, with its number, up to the entropy of an even row."""
    most, each, room = max(torch.tensor(len(names)).log2().item(), 0.1), SIDE / len(names), width - 36
    parts = [title_of("entropy in bits", width), line(0, TOP, 0, TOP + SIDE), line(room, TOP, room, TOP + SIDE)]
    parts.append(text(room, TOP + SIDE + 14, f"even: {most:.2f}", **PALE))
    for n, (name, bits) in enumerate(zip(names, entropy.tolist(), strict=True)):
        y, long = TOP + (n + 0.5) * each, room * bits / most
        place = {"x": 0, "y": y - 0.3 * each, "width": long, "height": 0.6 * each}
        parts.append(tag("rect", says=f"{name}, entropy: {number(bits, 4)} bits", fill=plots.GREY, **place))
        parts.append(text(room + 5, y + 4, number(bits), "start"))
    return Drawing("".join(parts), width, TOP + SIDE + BOTTOM)

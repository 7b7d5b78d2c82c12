"""Notebook 01: one query, its scores and weights, and the resulting context vector."""

import math

import ipywidgets as widgets
import torch

from attention_course.plots import ABOVE, GREY, VALUE, check_labels

from .base import SentenceExplorer
from .controls import stops
from .ink import WEIGHT_INK, weight_limit
from .svg import bars, bars_ends, in_column, in_row, number, shorten
from .svg_maps import Entries, colour_bar, heatmap
from .words import LOOKS

TEMPERATURES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 100)
VECTORS_HIGH = 148  # of the vectors' bars
SCORES_SIDE = 202  # of the map: eight numbers fit a row
BLUE = WEIGHT_INK.above  # of weights: one hue for the map and its bars


class ScoresExplorer(SentenceExplorer):
    """Choose the query token, and a temperature that divides the scores before softmax; drag its embedding's bars.

    Another sentence can be typed, with commas between its tokens. It has words of the first one, with their embeddings,
    and others if they're made of entries' names: these get a 1 at each. sentence: of up to 8 tokens. entries: the names
    of an embedding's entries, or None. In set, changed={(token, entry): value} are entries changed by hand.
    """

    touches = {"changed": {}}  # noqa: RUF012

    def __init__(self, sentence, entries=None, **first):
        self.entries = entries
        super().__init__(sentence, **first)

    def make_controls(self):
        width = self.embeddings.shape[1]
        self.entries = [f"entry {n}" for n in range(width)] if self.entries is None else list(self.entries)
        check_labels("entries", self.entries, width, "name")
        queries = [(f"{n} {token}", n) for n, token in enumerate(self.tokens)]
        look = {"continuous_update": False, "tooltip": "Tokens with commas between them, then press Enter"}
        typed = widgets.Text(", ".join(self.tokens), description="sentence", **look)
        return {
            "query": stops("query", queries, min(1, len(queries) - 1), "The token that looks at all tokens"),
            "temperature": stops("temperature", TEMPERATURES, 1, "Divides the scores before softmax"),
            "sentence": typed,
        }

    def choices(self, values):
        return {"query": list(range(max(1, len(self.tokens_of(values["sentence"])))))}

    def _move_controls(self, values):
        queries = [(f"{n} {token}", n) for n, token in enumerate(self.tokens_of(values["sentence"]))]
        if list(self.controls["query"].options) != queries:
            self.controls["query"].options = queries
        super()._move_controls(values)

    def update(self, **values):
        """As in every explorer; another sentence's entries aren't changed."""
        other = values.get("sentence", self.wanted["sentence"]) != self.wanted["sentence"]
        super().update(**({"changed": {}} if other else {}) | values)

    def tokens_of(self, sentence):
        own = sentence == ", ".join(self.tokens)  # whose tokens may have commas
        return self.tokens if own else [token.strip() for token in sentence.split(",") if token.strip()]

    def embed(self, tokens):
        """The embeddings of tokens, (num_tokens, d_in)."""
        if not 1 <= len(tokens) <= 8:
            raise ValueError(f"sentence must have 1 to 8 tokens with commas between them, got {len(tokens)}")
        if tokens == self.tokens:
            return self.embeddings.clone()
        known = dict(zip(self.tokens, self.embeddings, strict=True))
        for token in tokens:
            if token not in known and not {*token} - {" "} <= {*self.entries}:
                letters = [name for name in self.entries if len(name) == 1]
                more = f", or of {' '.join(letters)}" if letters else ""
                raise ValueError(f"sentence must be made of {', '.join(known)}{more}, got {token!r}")
        made = {token: torch.tensor([float(entry in token) for entry in self.entries]) for token in tokens}
        return torch.stack([(made | known)[token] for token in tokens])

    def compute(self, query, temperature, sentence, changed):
        tokens = self.tokens_of(sentence)
        x = self.embed(tokens)  # (num_tokens, d_in)
        for (token, entry), value in changed.items():
            x[token, entry] = value
        scores = x @ x.T  # (num_tokens, num_tokens)
        weights = torch.softmax(scores / temperature, dim=-1)  # (num_tokens, num_tokens)
        return {"tokens": tokens, "scores": scores, "weights": weights, "context": weights @ x, "embeddings": x}

    def touched(self, name, place, at=(), by=None):
        """A row was chosen, or an entry of the query's embedding dragged to a height, by some pixels, or back."""
        if name != "entry":
            return super().touched(name, place)
        key, entries, limits = (self.arrays.query, int(place)), dict(self.shown["changed"]), axis_range(self.embeddings)
        (low, high), (bottom, top) = limits, bars_ends(limits, VECTORS_HIGH)
        if by:
            now = (self.arrays.embeddings[key].item() - low) / (high - low)
            at = 0, bottom - now * (bottom - top) + by[1]
        if at is None:
            entries.pop(key, None)
        elif at:
            entries[key] = round(low + min(max((bottom - at[1]) / (bottom - top), 0), 1) * (high - low), 2)
        self._try(changed=entries)

    def picture(self, state):
        tokens, query, limit = state.tokens, state.query, weight_limit(len(state.tokens))
        who, of = shorten(tokens[query]), Entries(limit=limit)
        touch = [f"query {n}" for n in range(len(tokens))]
        look = {"row": query, "side": SCORES_SIDE, "touch": touch}
        table = heatmap(state.weights, tokens, tokens, "weights of all queries", of, **look)
        room = {"width": 326, "height": 91}  # wide enough for each bar's number and name
        ends = axis_range(state.scores)
        scores = bars({"score": state.scores[query]}, tokens, f"scores of “{who}”", ends, colours=[ABOVE], **room)
        weights = bars({"weight": state.weights[query]}, tokens, f"weights of “{who}”", colours=[BLUE], **room)
        vectors = {"embedding": state.embeddings[query], "context": state.context[query]}
        room = {"width": 204, "height": VECTORS_HIGH, "colours": [GREY, VALUE], "touch": ["embedding"]}
        context = bars(vectors, self.entries, f"vectors of “{who}”", axis_range(self.embeddings), **room)
        bar = colour_bar(limit, WEIGHT_INK, SCORES_SIDE)
        return [[in_column(scores, weights), context, in_row(table, bar)]]  # in the order in which they are computed

    def headline(self, state):
        row, who = state.weights[state.query].tolist(), state.tokens[state.query]
        most, even = number(max(row)), number(1 / len(row))
        if len(row) > 1 and max(row) - min(row) < 0.02:
            ends = [number(each, 4 if number(min(row)) == most else 2) for each in (min(row), max(row))]
            return LOOKS.format(f"“{who}”", f"all {len(row)} tokens nearly alike: {ends[0]} to {ends[1]}")
        best = [n for n, weight in enumerate(row) if number(weight) == most]  # as the picture shows them
        seen = " and ".join("itself" if n == state.query else f"“{state.tokens[n]}”" for n in best)
        return LOOKS.format(f"“{who}”", f"{seen} most: {most}, where equal weights would be {even}")


def axis_range(values):
    """The range of an axis in tenths, for values of any sign, the same for all queries."""
    low, high = (10 * float(value) for value in values.aminmax())
    return min(0, math.floor(low)) / 10, max(1, math.ceil(high)) / 10

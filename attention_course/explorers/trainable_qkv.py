"""Notebook 02: where a lookup's question looks, by its queries and keys; and what the width of keys does to softmax."""

import math

import ipywidgets as widgets
import torch

from attention_course import plots
from attention_helpers.sentences import load_sentence

from .base import Explorer
from .controls import buttons, seed, slider, stops
from .ink import SIGNED_INK, WEIGHT_INK, largest, weight_limit
from .lookup_models import MODEL_SIZES, STORED_STEPS, ask_again, examples, letters_of, load_lookup, show_example
from .plane import Plane, arrow, by_letter, directions, drag, draw_plane
from .qkv_flow import draw_reading, draw_sources
from .svg import BOTTOM, PALE, TOP, Drawing, bars, draw_title, in_column, in_row, line, move, number, tag, text
from .svg_maps import HEAD, Entries, colour_bar, head_at, heatmap
from .words import LOOKS, join_words, list_numbers

SCALING_SIDE, PLANE = 200, 240  # of maps, and of the plane
NAMES = list("123456")  # of random queries and keys
MADE = {"the embeddings": "embeddings", "matrices by hand": "matrices", "the same, one row missing": "row missing"}


class QKVExplorer(Explorer):
    """Choose what makes the queries, keys and values of the lookup, or type over the matrices' entries.

    In set, written={(made, name, row, column): value} are entries typed over: made is the control's value.
    """

    touches = {"written": {}}  # noqa: RUF012

    def __init__(self, **first):
        self.tokens, self.embeddings = load_sentence("lookup")  # embeddings: (4, 7)
        super().__init__(**first)

    def make_controls(self):
        return {"made": buttons("made from", MADE, "What makes queries, keys, values")}

    def compute(self, made, written):
        letters, digits, question = torch.eye(7).split((3, 3, 1), dim=1)
        cancel = 10 * question if made == "matrices" else 0
        matrices = {"W_query": letters, "W_key": 10 * letters - cancel, "W_value": digits}  # (7, 3) each
        matrices = {name: (torch.eye(7) if made == "embeddings" else matrices[name]).clone() for name in matrices}
        for (of, name, row, column), value in written.items():
            if of == made:
                matrices[name][row, column] = value
        queries, keys, values = (self.embeddings @ matrix for matrix in matrices.values())  # (4, 3) or (4, 7) each
        scores = queries @ keys.T  # (4, 4), without a scale
        weights = torch.softmax(scores, dim=-1)  # (4, 4)
        context = weights @ values  # (4, 3) or (4, 7)
        made = {"queries": queries, "keys": keys, "values": values, "matrices": matrices}
        return made | {"scores": scores, "weights": weights, "context": context}

    def touched(self, name, place, value=None, **how):
        """An entry of a matrix was typed over, or put back."""
        column, row = map(int, place.split(","))
        entry, written = (self.shown["made"], name, row, column), dict(self.shown["written"])
        if value is not None:
            written[entry] = float(value)
        elif "at" in how:
            written.pop(entry, None)
        self._try(written=written)

    def picture(self, state):
        return [[draw_sources(state, self.tokens, self.embeddings), draw_reading(state, self.tokens)]]

    def headline(self, state):
        pair, itself = state.weights[3, [1, 3]].tolist()
        return f"“B ?” gives {number(pair, 3)} of its weight to “B 1” and {number(itself, 3)} to itself"


class KeyWidthExplorer(Explorer):
    """Watch queries and keys learn to match in training, with d_out entries each.

    Ten letters, six pairs and one question, as in the playground; weights from data/.
    """

    plays = "step"
    touches = {"moved": {}}  # noqa: RUF012  # keys and queries moved by hand: by kind and letter, to the right and up

    def make_controls(self):
        letters = [(chr(ord("A") + n), n) for n in range(examples(1).task.letters)]
        return {
            "d_out": stops("d_out", [d_out for d_out, _ in MODEL_SIZES[1]], 2, "The width of queries, keys and values"),
            "step": stops("step", STORED_STEPS, STORED_STEPS[-1], "Steps of training"),
            "asked": stops("asked", letters, 1, "The letter in the question"),
        }

    def compute(self, d_out, step, asked, moved):
        model, (task, x, answers) = load_lookup(1, d_out, 1, step), examples(1)
        letters = x[:, -1, 0] - task.letters  # (500,), the one that each example asks for
        number = int((letters == asked).nonzero()[0])
        tokens, _ = show_example(model, number)
        queries, keys = (each[0] for each in letters_of(model))  # (letters, d_out): there's one head
        last_queries, last_keys = (each[0] for each in letters_of(load_lookup(1, d_out)))
        axes = directions(last_keys).float()  # (d_out, 2)
        by_hand = {"query": torch.zeros_like(queries), "key": torch.zeros_like(keys)}
        for (kind, letter), place in moved.items():
            by_hand[kind][letter] = axes @ torch.tensor(place)
        asking, weights, said = ask_again(model, by_hand["query"], by_hand["key"])
        names = [chr(ord("A") + n) for n in range(task.letters)]
        row, ends = by_letter(names, tokens, weights[number]), (last_queries, last_keys)
        plane = Plane(names, keys + by_hand["key"], queries + by_hand["query"], asking[number], row, ends)
        rights = torch.zeros(task.letters).index_add(0, letters, (said == answers[:, 0]).float())
        accuracy = rights / letters.bincount()
        shown = {"plane": plane, "tokens": tokens, "weights": weights[number], "accuracy": accuracy}
        return shown | {"answer": int(said[number])}

    def touched(self, name, place, at=(), by=None):
        """A letter's query was chosen, or a key or query moved to a place, by some pixels, or back to its own."""
        n = int(place)
        if at != () or by:
            self._try(moved=drag(self.shown["moved"], (name, n), self.arrays.plane, PLANE, name, n, at, by))
        elif name == "query":
            self._try(asked=n)

    def picture(self, state):
        title, look = f"what “{state.tokens[-1]}” gives weight to", {"width": 380, "height": 96}
        weights = bars({"weight": state.weights}, state.tokens, title, **look)
        accuracy = bars({"accuracy": state.accuracy}, state.plane.names, "accuracy by the letter asked", **look)
        plane = titled_plane(state.plane, "queries and keys", PLANE, ("key {}", "query {}", ""))
        return [[plane, in_column(weights, accuracy)]]

    def readouts(self, state):
        if not state.moved:
            return {}
        [right] = [token[-1] for token in state.tokens[:-1] if token[0] == state.tokens[-1][0]]
        verdict = "right" if f"{state.answer}" == right else f"but right is {right}"
        return {f"“{state.tokens[-1]}” is answered": f"{state.answer}, {verdict}"}

    def headline(self, state):
        best, every = (state.plane.queries @ state.plane.keys.T).argmax(dim=-1).tolist(), state.plane.names
        names = [name for n, name in enumerate(every) if best[n] == n]  # whose queries score their own key highest
        score = f"only {join_words(names)} score{'s its' if len(names) == 1 else ' their'} own key highest"
        if len(names) > len(every) / 2:
            others = join_words([f"{name}'s" for name in every if name not in names])
            score = f"every query{' but ' if others else ''}{others} scores its own key highest"
        elif not names:
            score = "no query scores its own key highest"
        right = f"{state.accuracy.mean():.0%} of new answers are right"
        return f"d_out {state.d_out}, step {state.step}: {right}, and {score}"


def titled_plane(plane, title, side, grips):
    """A Plane with its title above it, and below it what its marks are; grips: as in draw_plane."""
    parts = [head_at(0, HEAD, 0, title), move(draw_plane(plane, 0, side, grips), 0, HEAD), legend(plane, HEAD + side)]
    return Drawing("".join(parts), side + 30, HEAD + side + 46)


def legend(plane, y):
    """What the marks of a Plane stand for, and what its directions are, on two lines below it."""
    width = plane.keys.shape[1]
    kinds = {1: "one wide: a line", 2: "two wide: a plane"}
    about = kinds.get(width, f"{width} wide: where keys spread most")
    about += "; pale: not here" if None in plane.weights else ""
    marks = tag("circle", cx=4, cy=y + 11, r=3) + arrow((50, y + 11), (66, y + 11), "currentColor")
    marks += tag("rect", x=112, y=y + 8, width=7, height=7)
    names = {11: "query", 71: "asked", 123: "key, filled by its weight"}
    words = "".join(text(x, y + 15, name, "start") for x, name in names.items())
    return marks + words + text(0, y + 31, about, "start", **PALE)


class ScalingExplorer(Explorer):
    """Change the width of six random queries and keys, and whether their scores are divided by its root."""

    def make_controls(self):
        return {
            "d_k": slider("d_k", 64, 1, 64, "The width of queries and keys"),
            "scaling": widgets.Checkbox(False, description="divide by √d_k", tooltip="Scale the scores before softmax"),
            "seed": seed(789),
        }

    def compute(self, d_k, seed, scaling):
        generator = torch.Generator().manual_seed(seed)
        queries, keys = torch.randn(2, len(NAMES), d_k, generator=generator)  # each (6, d_k)
        scores = queries @ keys.T
        scaled = scores * d_k**-0.5 if scaling else scores
        weights = torch.softmax(scaled, dim=-1)
        entropy = torch.special.entr(weights).sum(dim=-1) / math.log(2)  # (6,), in bits
        return {"scores": scaled, "most": largest(scores), "weights": weights, "entropy": entropy}

    def picture(self, state):
        most, limit = state.most, weight_limit(len(NAMES))  # the same with and without a scale
        decimals = 2 if largest(state.scores) < 9.995 else 1  # five characters fit a cell
        signed = Entries(SIGNED_INK, most, tell="query {} meets key {}", decimals=decimals)
        shares = Entries(limit=limit, tell=LOOKS.format("query {}", "key {}"))
        scores = heatmap(state.scores, NAMES, NAMES, scores_of(state).lower(), signed, side=SCALING_SIDE)
        weights = heatmap(state.weights, NAMES, NAMES, "weights", shares, side=SCALING_SIDE, beside=False)
        bars = colour_bar(most, SIGNED_INK, SCALING_SIDE), colour_bar(limit, WEIGHT_INK, SCALING_SIDE)
        return [[in_row(scores, bars[0], weights, bars[1], entropy_bars(state.entropy))]]

    def headline(self, state):
        spread, top = f"{scores_of(state)} have variance {state.scores.var():.2g}", state.weights.max()
        row, column = divmod(int(state.weights.argmax()), len(NAMES))
        query, key = f"query {NAMES[row]}", f"key {NAMES[column]}"
        if top >= 0.9:
            return f"{spread}: {LOOKS.format(query, f'almost only {key}')}, {number(top)}"
        return f"{spread}: the largest weight is {number(top)} ({LOOKS.format(query, key)})"


def scores_of(state):
    return f"Scores ÷ √{state.d_k}" if state.scaling and state.d_k > 1 else "Scores"


def entropy_bars(entropy, width=110):
    """A bar for each row of the map to the left, with its number, up to the entropy of an even row."""
    most, each, room, down = math.log2(len(NAMES)), SCALING_SIDE / len(NAMES), width - 36, TOP + SCALING_SIDE
    parts = [draw_title("entropy in bits", width), line(0, TOP, 0, down), line(room, TOP, room, down)]
    parts.append(text(room, down + 14, f"even: {most:.2f}", **PALE))
    for n, (name, bits) in enumerate(zip(NAMES, entropy.tolist(), strict=True)):
        y = TOP + (n + 0.5) * each
        place = {"x": 0, "y": y - 0.3 * each, "width": room * bits / most, "height": 0.6 * each}
        parts.append(tag("rect", says=f"query {name}, entropy: {number(bits, 4)} bits", fill=plots.GREY, **place))
        parts.append(text(room + 5, y + 4, number(bits), "start"))
    return Drawing("".join(parts), width, down + BOTTOM, f"entropy in bits: {list_numbers(entropy)}.")

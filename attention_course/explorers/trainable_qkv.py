"""Notebook 02: where a lookup's question looks, by its queries and keys; and what the width of keys does to softmax."""

from typing import NamedTuple

import ipywidgets as widgets
import torch

from attention_course import plots
from attention_helpers.probes import attention_maps
from attention_helpers.sentences import load_sentence

from .base import Explorer, player, seed, slider, stops
from .ink import SIGNED, WEIGHTS, largest, weight_limit
from .lookup_models import SIZES, STEPS, examples, letters_of, right, shown, stored
from .plane import Plane, by_letter, found, head_planes
from .svg import BOTTOM, PALE, TOP, Drawing, bars, below, beside, line, number, tag, text, title_of
from .svg_maps import Entries, colour_bar, heatmap
from .words import entropy_in_bits, joined, listed

SIDE = 200  # of a map
HIGH = 150  # of the opening's maps
PLANE = 240  # of the plane's side
SYMBOLS = "ABC123?"  # an embedding's entries
NAMES = list("123456")  # of random queries and keys
MADE = {"the embeddings": "embeddings", "matrices by hand": "matrices", "the same, one row missing": "row missing"}


class QKVState(NamedTuple):
    """What the picture shows of the lookup's four tokens."""

    queries: torch.Tensor  # (4, 7), or (4, 3) if a matrix made them
    keys: torch.Tensor  # like queries
    weights: torch.Tensor  # (4, 4)
    read: torch.Tensor  # what the question reads: (7,) or (3,)


class QKVExplorer(Explorer):
    """Choose what makes the queries, keys and values of the lookup."""

    def __init__(self, **first):
        self.tokens, self.embeddings = load_sentence("lookup")  # embeddings: (4, 7)
        super().__init__(**first)

    def make_controls(self):
        made = widgets.ToggleButtons(options=MADE, description="made from", tooltip="What makes queries, keys, values")
        return {"made": made}

    def compute(self, made):
        x = self.embeddings
        queries = keys = values = x
        if made != "embeddings":
            letters, digits, question = torch.eye(7).split((3, 3, 1), dim=1)
            cancel = 10 * question if made == "matrices" else 0
            queries, keys, values = x @ letters, x @ (10 * letters - cancel), x @ digits  # (4, 3) each
        weights = torch.softmax(queries @ keys.T, dim=-1)  # without a scale
        return QKVState(queries, keys, weights, (weights @ values)[-1])

    def picture(self, state):
        tokens, wide = self.tokens, len(state.read)
        of = Entries(SIGNED, largest(state.keys), ("token", "entry"), "{}, entry {}", 0)
        room = {"side": HIGH, "width": 170}
        queries = heatmap(state.queries, tokens, SYMBOLS[:wide], "queries", of, **room)
        keys = heatmap(state.keys, tokens, SYMBOLS[:wide], "keys", of, beside=False, **room)
        weights = heatmap(state.weights, tokens, tokens, "weights", side=HIGH, row=3)
        entries = SYMBOLS if wide == 7 else SYMBOLS[3:6]
        room = {"width": 240, "height": TOP + HIGH, "colours": [WEIGHTS.above]}
        read = bars({"read": state.read}, entries, "what “B ?” reads", **room)
        return [[beside(queries, keys), beside(weights, read)]]

    def headline(self, state):
        pair, itself = state.weights[3, [1, 3]].tolist()
        return f"“B ?” gives {number(pair, 3)} of its weight to “B 1” and {number(itself, 3)} to itself"


class WidthState(NamedTuple):
    """What the picture shows of a model at one step of its training."""

    d_out: int
    step: int
    plane: Plane  # of the ten letters
    tokens: list
    weights: torch.Tensor  # (num_tokens,), what the question gives to each token
    accuracy: torch.Tensor  # (letters,), on new examples, by the letter asked


class KeyWidthExplorer(Explorer):
    """Watch queries and keys learn to match in training, with d_out entries each.

    Ten letters, six pairs and one question, as in the playground; weights from data/.
    """

    def make_controls(self):
        letters = [(chr(ord("A") + n), n) for n in range(examples(1).task.letters)]
        return {
            "d_out": stops("d_out", [d_out for d_out, _ in SIZES[1]], 2, "The width of queries, keys and values"),
            "step": stops("step", STEPS, STEPS[-1], "Steps of training"),
            "asked": stops("asked", letters, 1, "The letter in the question"),
        }

    def make_extras(self):
        return [player(self.controls["step"], self._first["step"])]

    def compute(self, d_out, step, asked):
        model, (task, x, _) = stored(1, d_out, 1, step), examples(1)
        letters = x[:, -1, 0] - task.letters
        number = int((letters == asked).nonzero()[0])
        tokens, embedded = shown(model, number)
        queries, keys = letters_of(model)
        last_queries, last_keys = letters_of(stored(1, d_out))
        asking = model.attention.W_query(embedded[-1])  # (d_out,): there's one head
        weights = attention_maps(model.attention, embedded[None])[0][0, 0, -1]
        names = [chr(ord("A") + n) for n in range(task.letters)]
        plane = names, keys[0], queries[0], asking, by_letter(names, tokens, weights)
        ends = last_queries[0], last_keys[0]
        rights = torch.zeros(task.letters).index_add(0, letters, right(model)[:, 0].float())
        return WidthState(d_out, step, Plane(*plane, ends), tokens, weights, rights / letters.bincount())

    def picture(self, state):
        title, look = f"what “{state.tokens[-1]}” gives weight to", {"width": 380, "height": 96}
        weights = bars({"weight": state.weights}, state.tokens, title, **look)
        accuracy = bars({"accuracy": state.accuracy}, state.plane.names, "accuracy by the letter asked", **look)
        plane = head_planes([state.plane], ["queries and keys"], PLANE + 30, PLANE + 70)
        return [[plane, below(weights, accuracy)]]

    def headline(self, state):
        names = found(state.plane)
        score = f"only {joined(names)} score{'s its' if len(names) == 1 else ' their'} own key highest"
        if len(names) in (0, len(state.plane.names)):
            score = f"{'every' if names else 'no'} query scores its own key highest"
        right = f"{state.accuracy.mean():.0%} of new answers are right"
        return f"d_out {state.d_out}, step {state.step}: {right}, and {score}"


class ScalingState(NamedTuple):
    """What the picture shows; `variance` is taken over the complete matrix that enters softmax."""

    scores: torch.Tensor  # (6, 6), before scaling
    weights: torch.Tensor  # (6, 6)
    variance: torch.Tensor
    entropy: torch.Tensor  # (6,), in bits
    divided_by: int  # the d_k under the root, or 1


class ScalingExplorer(Explorer):
    """Change the width of six random queries and keys, and whether their scores are divided by its root."""

    def make_controls(self):
        return {
            "d_k": slider("d_k", 64, 1, 64, "The width of queries and keys"),
            "seed": seed(789),
            "scaling": widgets.Checkbox(False, description="divide by √d_k", tooltip="Scale the scores before softmax"),
        }

    def compute(self, d_k, seed, scaling):
        generator = torch.Generator().manual_seed(seed)
        queries, keys = torch.randn(2, len(NAMES), d_k, generator=generator)  # each (6, d_k)
        scores = queries @ keys.T
        divided_by = d_k if scaling else 1
        scaled = scores * divided_by**-0.5
        weights = torch.softmax(scaled, dim=-1)
        return ScalingState(scores, weights, scaled.var(), entropy_in_bits(weights), divided_by)

    def picture(self, state):
        most, limit = largest(state.scores), weight_limit(len(NAMES))
        decimals = 2 if most < 9.995 else 1  # five characters fit a cell
        signed = Entries(SIGNED, most, tell="query {} meets key {}", decimals=decimals)
        shares = Entries(limit=limit, tell="query {} reads key {}")
        scores = heatmap(state.scores, NAMES, NAMES, "scores", signed, side=SIDE)
        weights = heatmap(state.weights, NAMES, NAMES, "weights", shares, side=SIDE, beside=False)
        bar = colour_bar(limit, WEIGHTS, SIDE, more=limit < 1)
        return [[beside(scores, colour_bar(most, SIGNED, SIDE), weights, bar, entropy_bars(state.entropy, NAMES))]]

    def headline(self, state):
        what = "Scores" if state.divided_by == 1 else f"Scores ÷ √{state.divided_by}"
        spread, top = f"{what} have variance {state.variance:.2g}", state.weights.max()
        row, column = divmod(int(state.weights.argmax()), len(NAMES))
        if top >= 0.9:
            return f"{spread}: query {NAMES[row]} reads almost only key {NAMES[column]}, {number(top)}"
        return f"{spread}: the largest weight is {number(top)} (query {NAMES[row]} reads key {NAMES[column]})"


def entropy_bars(entropy, names, width=110):
    """A bar for each row of the map to the left, with its number, up to the entropy of an even row."""
    most, each, room = max(torch.tensor(len(names)).log2().item(), 0.1), SIDE / len(names), width - 36
    parts = [title_of("entropy in bits", width), line(0, TOP, 0, TOP + SIDE), line(room, TOP, room, TOP + SIDE)]
    parts.append(text(room, TOP + SIDE + 14, f"even: {most:.2f}", **PALE))
    for n, (name, bits) in enumerate(zip(names, entropy.tolist(), strict=True)):
        y, long = TOP + (n + 0.5) * each, room * bits / most
        place = {"x": 0, "y": y - 0.3 * each, "width": long, "height": 0.6 * each}
        parts.append(tag("rect", says=f"query {name}, entropy: {number(bits, 4)} bits", fill=plots.GREY, **place))
        parts.append(text(room + 5, y + 4, number(bits), "start"))
    return Drawing("".join(parts), width, TOP + SIDE + BOTTOM, f"entropy in bits: {listed(entropy)}.")

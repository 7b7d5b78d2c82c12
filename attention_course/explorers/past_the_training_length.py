"""Notebook 11: a text longer than any in training, with the loss by position and a head's scores by distance."""

import itertools
import math
from functools import cache

import numpy as np
import torch

from attention_helpers._data import data_file
from attention_helpers.modern.positions import rope_frequencies
from attention_helpers.training.characters import Characters, load_text

from .base import Explorer
from .chart import Chart
from .controls import listed, stops
from .rope_scaling import llama3_frequencies, yarn_frequencies
from .svg import AXIS, LEFT, PALE, TOP, tag, text

RULES, FACTORS = ("linear", "NTK-aware", "Llama 3", "YaRN"), (1, 2, 4, 8)
SCALINGS = [(RULES[0], 1), *itertools.product(RULES, FACTORS[1:])]  # with factor 1, all rules are the same
SEEN, READ_LENGTHS, LONGEST_TEXT = 32, (32, 48, 64, 96, 128, 192, 256), 256  # characters: in training, and here
WINDOW_WIDTHS = (16, 32, 48, LONGEST_TEXT)
SCORES_FILE, SCORE = data_file("long_texts.npz"), 3000  # how many steps of what is stored make a score of 1
EACH = 8  # positions per point of the loss's curve
PLAIN, SHOWN_HEAD = rope_frequencies(16), 4  # the model's frequencies, and the head of the second layer that is shown
CURVE_WIDE, CURVE_TALL = 380, 200  # of a chart


def frequencies_by(rule, factor):
    """The frequencies that a rule makes, and the factor for queries and keys."""
    if rule == "YaRN":
        return yarn_frequencies(PLAIN, factor, SEEN, base=10_000)
    larger_base = rope_frequencies(16, 10_000 * factor ** (16 / 14))
    by_rule = {"linear": PLAIN / factor, "NTK-aware": larger_base, "Llama 3": llama3_frequencies(PLAIN, factor, SEEN)}
    return by_rule[rule], 1.0


@cache
def load_scores():
    """What tools/training/make_data.py measured: losses, far and scores for each of SCALINGS and WINDOWS.

    Losses are in nats, (scalings, windows, LONGEST_TEXT), by position; far is the weight, at the last position, on
    distances that training never had, (scalings, windows, lengths); scores are the parts of each pair, by distance,
    (scalings, windows, lengths, pairs, LONGEST_TEXT).
    """
    with np.load(SCORES_FILE) as measured:
        losses, far, scores = (torch.from_numpy(measured[name]) for name in ("losses", "far", "scores"))
    return losses, far, scores / SCORE


class LengthExplorer(Explorer):
    """Let a model that was trained on 32 characters read more, with scaled frequencies or a window.

    All numbers are means over held-out text, without further training.
    """

    def make_controls(self):
        widths = [(str(width) if width < LONGEST_TEXT else "none", width) for width in WINDOW_WIDTHS]
        return {
            "length": stops("length", READ_LENGTHS, 64, f"Characters of the text; in training it had {SEEN}"),
            "window": stops("window", widths, LONGEST_TEXT, "How many characters each one sees, including itself"),
            "factor": stops("factor", FACTORS, 1, "The text is to be how many times longer; 1 scales nothing"),
            "rule": listed("rule", RULES, "Llama 3", "Of scaling"),
            "pair": stops("pair", ("all", *map(str, range(8))), "all", "Whose part of the scores is shown"),
        }

    def unused(self, values):
        return {"rule": "factor 1 keeps all frequencies"} if values["factor"] == 1 else {}

    def note(self, wanted, values):
        idle = values["length"] <= values["window"] < LONGEST_TEXT
        return "window does nothing here: the text isn't longer." if idle else ""

    def compute(self, length, window, factor, rule, pair):
        losses, far, scores = load_scores()
        at = SCALINGS.index((rule if factor > 1 else RULES[0], factor)), WINDOW_WIDTHS.index(window)
        read = *at, READ_LENGTHS.index(length)
        parts = scores[read][:, : min(length, window)]  # (pairs, distances)
        shown = parts.sum(dim=0) if pair == "all" else parts[int(pair)]
        told = 2 if pair == "all" else int(pair)
        angle = (len(shown) - 1) * frequencies_by(rule, factor)[0][told].item()
        return {"scores": shown, "losses": losses[at][:length], "far": far[read].item(), "told": told, "angle": angle}

    def picture(self, state):
        means = state.losses.view(-1, EACH).mean(dim=1).tolist()
        spots = [(EACH * (n + 0.5) - 0.5, loss) for n, loss in enumerate(means)]
        title = f"mean score, head {SHOWN_HEAD} of layer 2" + ("" if state.pair == "all" else f", pair {state.pair}")
        scores = draw_chart(title, "distance", range(-20, 16, 5), enumerate(state.scores.tolist()))
        equal = math.log(len(Characters(load_text()).vocabulary))  # the loss of equal probabilities
        return [[draw_chart("loss in nats", "position", range(6), spots, equal), scores]]

    def headline(self, state):
        first, last = state.losses[:SEEN].mean(), state.losses[-SEEN:].mean()
        said = f"Trained on {SEEN} characters. Loss on the first {SEEN}: ≈ {first:.2f}"
        return said + f", on the last {SEEN} of {len(state.losses)}: ≈ {last:.2f}" * (len(state.losses) > SEEN)

    def readouts(self, state):
        pair, keys = state.told, len(state.scores)
        far, equal = f"≈ {state.far:.0%} of its weight", f"{max(keys - SEEN, 0) / keys:.0%}"
        turns = f"turns by up to {state.angle:.2f} radians, in training by {(SEEN - 1) * PLAIN[pair]:.2f}"
        said = f"head {SHOWN_HEAD} gives {far} to distances beyond {SEEN - 1} (equal weights: {equal})"
        return {f"position {state.length - 1}": said, f"pair {pair}": turns}


def draw_chart(title, xlabel, marks, spots, level=None):
    """A curve through pairs (place, value), on grey where training never went; level: of a line across."""
    place, steps = (LEFT, CURVE_WIDE - 10, TOP + 4, TOP + 4 + CURVE_TALL), (0, SEEN, 64, 128, 192, LONGEST_TEXT)
    drawn = Chart(title, place, {n: str(n) for n in steps}, {mark: f"{mark:g}" for mark in marks})
    start = drawn.x(SEEN)
    new = {"x": start, "y": drawn.top, "width": drawn.right - start, "height": CURVE_TALL, "fill_opacity": 0.07}
    drawn.parts += [tag("rect", **new), text(drawn.right - 4, drawn.top + 13, "never in training", "end", **PALE)]
    if level:
        drawn.parts.append(drawn.across(level, **AXIS, stroke_dasharray="4 3"))
        drawn.parts.append(text(LEFT + 4, drawn.y(level) - 5, "equal probabilities", "start", **PALE))
    drawn.parts += [drawn.curve(spots, title), drawn.label_x(xlabel)]
    return drawn.finish(CURVE_WIDE, drawn.bottom + 36)

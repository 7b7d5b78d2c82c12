"""Notebook 04: a model that overfits, step by step, and what dropout changes."""

from functools import cache

import numpy as np
import torch

from attention_course.overfitting import STEPS
from attention_helpers._data import data_file
from attention_helpers.layers import causal_mask

from .base import Explorer
from .chart import Chart
from .controls import stops
from .ink import WEIGHT_INK, weight_limit
from .svg import DASHES, LEFT, PALE, TOP, tag, text
from .svg_maps import Entries, colour_bar, heatmap

RUNS_FILE, RUN_SEED, RATES = data_file("overfitting.npz"), 1, (0.0, 0.1, 0.3, 0.5, 0.7)  # the runs' seed and their p
DAYS = [f"day {day}" for day in range(1, 7)]
CURVES = ("training sequences", "new sequences")
LOSS_WIDE, LOSS_TALL, WEIGHTS_SIDE = 340, 180, 190  # the chart's size, and the map's
LABEL = 14  # pixels from one label to the next, at least


@cache
def load_runs():
    """The losses and maps of a Run for each of RATES, from SEED, and the loss of answering 0 on the new sequences.

    Shapes: (rates, steps measured, 2), (rates, steps measured, 6, 6) and (). Made by tools/training/make_data.py.
    """
    with np.load(RUNS_FILE) as runs:
        return [torch.from_numpy(runs[name]) for name in ("losses", "maps", "always_0")]


class DropoutExplorer(Explorer):
    """Drag through the training of a model that overfits, with more or less dropout on its attention weights."""

    def make_controls(self):
        return {
            "step": stops("step", STEPS, STEPS[-1], "Steps of training"),
            "p": stops("dropout p", RATES, 0.0, "The share of weights dropped in each step"),
        }

    def compute(self, step, p):
        (losses, maps, always_0), run, now = load_runs(), RATES.index(p), STEPS.index(step)
        mask = torch.rand(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(step)) >= 1 - p
        shown = {"losses": losses[run, : now + 1], "weights": maps[run, now], "dropped": mask}
        return shown | {"always_0": always_0.item()}

    def picture(self, state):
        bar = colour_bar(weight_limit(6), WEIGHT_INK, WEIGHTS_SIDE)
        of, title = Entries(limit=weight_limit(6)), "weights, × dropped" if state.p else "attention weights"
        look = {"hidden": causal_mask(6), "taken": state.dropped, "side": WEIGHTS_SIDE}
        return [[self.chart(state), heatmap(state.weights, DAYS, DAYS, title, of, **look), bar]]

    def chart(self, state):
        """Both losses up to the step."""
        steps, place = range(0, STEPS[-1] + 1, 50), (LEFT, LOSS_WIDE - 10, TOP + 4, TOP + 4 + LOSS_TALL)
        chart = Chart("loss", place, {step: f"{step}" for step in steps}, {n: f"{n:g}" for n in (0, 0.5, 1, 1.5)})
        level = text(chart.right, chart.y(state.always_0) + 13, "always answering 0", "end", **PALE)
        chart.parts += [chart.across(state.always_0), level]
        training, new = (losses.tolist() for losses in state.losses.T)
        chart.parts.append(draw_gap(chart, training, new))
        ends = place_labels([chart.y(training[-1]), chart.y(new[-1])])
        for name, losses, dashes, y in zip(CURVES, (training, new), DASHES, ends, strict=False):
            chart.parts.append(chart.curve(zip(STEPS, losses, strict=False), name, 3, stroke_dasharray=dashes))
            chart.parts.append(text(chart.x(STEPS[len(losses) - 1]) + 8, y + 4, name, "start"))
        chart.parts.append(chart.label_x("step"))
        return chart.finish(LOSS_WIDE + 100, chart.bottom + 36)

    def headline(self, state):
        training, new = (f"≈ {loss:.2f}" for loss in state.losses[-1].tolist())
        return f"Step {state.step}, p = {state.p:g}: loss {training} on the training sequences, {new} on new ones"


def draw_gap(chart, training, new):
    """Where the model is worse on new sequences than on those it has learned: the gap that overfitting opens."""
    steps = [n for n in range(len(new)) if new[n] > training[n]]
    if not steps:
        return ""
    there = [f"{chart.x(STEPS[n]):.1f} {chart.y(new[n]):.1f}" for n in steps]
    back = [f"{chart.x(STEPS[n]):.1f} {chart.y(training[n]):.1f}" for n in reversed(steps)]
    return tag("path", f"the gap: {new[-1] - training[-1]:.2f}", d=f"M{'L'.join(there + back)}z", fill_opacity=0.15)


def place_labels(ends):
    """Where labels of two curves' ends are written, so that they don't touch."""
    middle, near = sum(ends) / 2, abs(ends[0] - ends[1]) < LABEL
    if not near:
        return ends
    first = -1 if ends[0] <= ends[1] else 1
    return [middle + first * LABEL / 2, middle - first * LABEL / 2]

"""Notebook 07: scrub through a training run and see its attention map form."""

from typing import NamedTuple

import ipywidgets as widgets
import torch

from ..core import causal_mask
from .base import Explorer, slider, stops
from .svg import arcs, bars, below, lines
from .svg_maps import colour_bar, head_maps
from .words import listed, shares


class LearningState(NamedTuple):
    """What the picture shows of one example, at one step of the run."""

    step: int
    loss: float  # in nats
    accuracy: torch.Tensor  # (questions,), shares of right answers
    weights: torch.Tensor  # (num_heads, num_tokens, num_tokens)
    tokens: list  # the example in words; the last token asks


class LearningExplorer(Explorer):
    """Play or scrub through the snapshots of a Training on a LookupTask; choose the example.

    training: with two snapshots or more, else a ValueError. Arrays: a LearningState. Errors: see Explorer.
    """

    def __init__(self, training):
        if len(training.snapshots) < 2:
            raise ValueError(f"training must have run, got {len(training.snapshots)} snapshots: training.run(30)")
        self.snapshots = list(training.snapshots)
        self.words = [training.task.words(x) for x in training.examples[: len(self.snapshots[0].maps)]]
        super().__init__()

    def make_controls(self):
        steps = [snapshot.step for snapshot in self.snapshots]
        return {
            "step": stops("step", steps, steps[0], "Steps of training"),
            "example": slider("example", 1, 1, len(self.words), "Which of the held-out examples"),
        }

    def make_extras(self):
        """A button that plays; it moves the slider within the page."""
        play = widgets.Play(min=0, max=len(self.snapshots) - 1, interval=250, description="play")
        self.link = widgets.jslink((play, "value"), (self.controls["step"], "index"))
        return [play]

    def compute(self, step, example):
        [snapshot] = [snapshot for snapshot in self.snapshots if snapshot.step == step]
        weights = snapshot.maps[example - 1]  # the page counts from 1
        return LearningState(step, snapshot.loss, snapshot.accuracy, weights, self.words[example - 1])

    def picture(self, state):
        asks, tokens = len(state.tokens) - 1, state.tokens
        rows = {f"head {n}": row for n, row in enumerate(state.weights[:, -1], 1)}
        reads = below(
            arcs(state.weights[:, -1], tokens, asks, "what the question reads", width=220, height=60),
            bars(rows, tokens, width=220, height=80),
        )
        steps, losses = zip(*[(snapshot.step, snapshot.loss) for snapshot in self.snapshots], strict=True)
        names = {n: str(steps[n]) for n in {round(n * (len(steps) - 1) / 5) for n in range(6)}}
        here, ends = steps.index(state.step), (0.0, 1.05 * max(losses))
        bar = colour_bar((0, 1), height=200)
        maps = head_maps(state.weights, tokens, (0, 1), causal_mask(len(tokens)), None, 470, 330, row=asks, bar=bar)
        title, axis = "held-out loss (nats)", "step, not to scale"
        loss = lines({"loss": losses}, {}, names, title, axis, here, ends=ends, width=220)
        return [[maps, reads, loss]]

    def readouts(self, state):
        return {
            "step": f"{state.step} of {self.snapshots[-1].step}",
            "loss": f"{state.loss:.3f} nats",
            "right answers": ", ".join(f"{share:.0%}" for share in state.accuracy.tolist()),
            **{f"“{state.tokens[-1]}” reads, {head}": words for head, words in self.read_by_head(state)},
        }

    def in_words(self, state):
        reads = " ".join(f"By {head}: {words}." for head, words in self.read_by_head(state))
        return (
            f"After {state.step} steps the loss is {state.loss:.2f} and {listed(state.accuracy)} of the answers are "
            f"right. What the question {state.tokens[-1]} reads. {reads}"
        )

    def read_by_head(self, state):
        return [(f"head {n}", shares(state.tokens, row)) for n, row in enumerate(state.weights[:, -1], 1)]

"""Notebook 07: scrub through a training run and see its attention map form."""

from typing import NamedTuple

import ipywidgets as widgets
import torch

from .. import frames
from ..core import causal_mask
from .base import Explorer
from .words import listed, shares


class LearningState(NamedTuple):
    """What the picture shows; `place` is the snapshot's number in the run."""

    place: int
    step: int
    loss: float  # in nats
    score: torch.Tensor  # (questions,), shares of right answers
    weights: torch.Tensor  # (num_tokens, num_tokens), of one example and head


def look_at(snapshots, step, example, head):
    """From control values to arrays; examples and heads are counted from 1."""
    [place] = [n for n, snapshot in enumerate(snapshots) if snapshot.step == step]
    snapshot = snapshots[place]
    return LearningState(place, step, snapshot.loss, snapshot.score, snapshot.maps[example - 1, head - 1])


class LearningExplorer(Explorer):
    """Play or scrub through the snapshots of a Training on a LookUp; choose the example, and the head of several.

    training: a Training with two snapshots or more. Arrays: a LearningState. Units: the loss is in nats. Errors: see
    Explorer; ValueError for a run without snapshots.
    """

    def __init__(self, training):
        if len(training.snapshots) < 2:
            raise ValueError(f"training must have run, got {len(training.snapshots)} snapshots: training.run(30)")
        self.snapshots, self.task = list(training.snapshots), training.task
        self.examples = training.examples[: len(self.snapshots[0].maps)].clone()
        super().__init__()

    def make_controls(self):
        steps = [snapshot.step for snapshot in self.snapshots]
        examples, heads = self.snapshots[0].maps.shape[:2]
        controls = {
            "step": widgets.SelectionSlider(options=steps, value=steps[0], description="step"),
            "example": widgets.IntSlider(1, 1, examples, description="example"),
        }
        if heads > 1:
            controls["head"] = widgets.IntSlider(1, 1, heads, description="head")
        return controls

    def make_extras(self):
        """A button that plays; it moves the slider within the page."""
        play = widgets.Play(min=0, max=len(self.snapshots) - 1, interval=250, description="play")
        self.link = widgets.jslink((play, "value"), (self.controls["step"], "index"))
        return [play]

    def compute(self, step, example, head=1):
        return look_at(self.snapshots, step, example, head)

    def tokens_of(self, example):
        return self.task.words(self.examples[example - 1])

    @property
    def background_of(self):
        """What the background shows beside the shape: the loss of every snapshot, and the example's tokens."""
        losses = tuple(snapshot.loss for snapshot in self.snapshots)
        return losses, tuple(self.tokens_of(self.controls["example"].value))

    def make_figure(self, state):
        tokens = self.tokens_of(self.controls["example"].value)
        figure, axes = frames.row_figure((1.25, 1.1, 1.3), width=10.4, height=3.5)
        frames.frame_cells(axes[0], tokens, tokens, state.weights.shape, "weights", legend=(0, 1))
        frames.frame_bars(axes[1], tokens, (0, 1.18), "what the question reads")
        steps, losses = zip(*[(snapshot.step, snapshot.loss) for snapshot in self.snapshots], strict=True)
        frames.frame_curve(axes[2], steps, losses, "loss of unseen examples", "step (snapshots, evenly spaced)")
        return figure

    def paint(self, canvas, state):
        canvas.update_heatmap(0, state.weights, hidden=causal_mask(len(state.weights)))
        canvas.mark(0, state.weights.shape, row=len(state.weights) - 1)
        canvas.update_bars(1, [state.weights[-1]])
        canvas.rule(2, state.place, len(self.snapshots))

    def readouts(self, state):
        tokens = self.tokens_of(self.controls["example"].value)
        return {
            "step": f"{state.step} of {self.snapshots[-1].step}",
            "loss": f"{state.loss:.3f} nats",
            "right answers": ", ".join(f"{share:.0%}" for share in state.score.tolist()),
            f"“{tokens[-1]}” reads": shares(tokens, state.weights[-1]),
        }

    def in_words(self, state):
        tokens = self.tokens_of(self.controls["example"].value)
        return (
            f"After {state.step} steps the loss is {state.loss:.2f} and {listed(state.score)} of the answers are "
            f"right. The question {tokens[-1]} reads: {shares(tokens, state.weights[-1])}."
        )

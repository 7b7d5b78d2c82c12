"""Notebook 07: scrub through a training run and see its attention map form."""

from typing import NamedTuple

import ipywidgets as widgets
import torch

from ..core import causal_mask
from .base import Explorer, slider, stops
from .cells import colour_bar, heatmap
from .drawing import arcs, bars, below, beside, lines
from .words import listed, shares


class LearningState(NamedTuple):
    """What the picture shows of one example and one head, at one step of the run."""

    step: int
    loss: float  # in nats
    score: torch.Tensor  # (questions,), shares of right answers
    weights: torch.Tensor  # (num_tokens, num_tokens)
    tokens: list  # the example in words; the last token asks


class LearningExplorer(Explorer):
    """Play or scrub through the snapshots of a Training on a LookUp; choose the example, and the head of several.

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
        examples, heads = self.snapshots[0].maps.shape[:2]
        controls = {
            "step": stops("step", steps, steps[0], "Steps of training"),
            "example": slider("example", 1, 1, examples, "Which of the held-out examples"),
        }
        return controls | ({"head": slider("head", 1, 1, heads, "Whose weights are shown")} if heads > 1 else {})

    def make_extras(self):
        """A button that plays; it moves the slider within the page."""
        play = widgets.Play(min=0, max=len(self.snapshots) - 1, interval=250, description="play")
        self.link = widgets.jslink((play, "value"), (self.controls["step"], "index"))
        return [play]

    def compute(self, step, example, head=1):
        [snapshot] = [snapshot for snapshot in self.snapshots if snapshot.step == step]
        weights = snapshot.maps[example - 1, head - 1]  # the page counts both from 1
        return LearningState(step, snapshot.loss, snapshot.score, weights, self.words[example - 1])

    def picture(self, state):
        asks, tokens = len(state.tokens) - 1, state.tokens
        reads = below(
            arcs(state.weights[-1], tokens, asks, "what the question reads", width=220, height=60),
            bars({"weight": state.weights[-1]}, tokens, width=220, height=80),
        )
        steps, losses = zip(*[(snapshot.step, snapshot.loss) for snapshot in self.snapshots], strict=True)
        names = {n: str(steps[n]) for n in {round(n * (len(steps) - 1) / 5) for n in range(6)}}
        here, ends = steps.index(state.step), (0.0, 1.05 * max(losses))
        table = heatmap(state.weights, tokens, tokens, "weights", side=230, hidden=causal_mask(len(tokens)), row=asks)
        loss = lines({"loss": losses}, {}, names, "held-out loss (nats)", "step", here, ends=ends, width=220)
        return [[beside(table, colour_bar((0, 1), height=230)), reads, loss]]

    def readouts(self, state):
        return {
            "step": f"{state.step} of {self.snapshots[-1].step}",
            "loss": f"{state.loss:.3f} nats",
            "right answers": ", ".join(f"{share:.0%}" for share in state.score.tolist()),
            f"“{state.tokens[-1]}” reads": shares(state.tokens, state.weights[-1]),
        }

    def in_words(self, state):
        return (
            f"After {state.step} steps the loss is {state.loss:.2f} and {listed(state.score)} of the answers are "
            f"right. The question {state.tokens[-1]} reads: {shares(state.tokens, state.weights[-1])}."
        )

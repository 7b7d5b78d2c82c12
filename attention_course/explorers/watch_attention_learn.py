"""Notebook 07: scrub through a training run, and see what the question reads at each step."""

import torch

from attention_helpers import causal_mask

from .base import Explorer
from .chart import Chart, key_of
from .controls import slider, stops
from .ink import HEAD_PALETTE, PAGE_INK, WEIGHT_INK, weight_limit
from .svg import DASHES, FRAME, LEFT, PALE, SMALL, TOP, Drawing, arcs, in_column, tag, text
from .svg_maps import colour_bar, frame, head_at, head_maps, pixels
from .words import LOOKS, plural

NOW, SO_FAR = 448, 242  # widths of the picture's two halves
CHART, STRIPS = 84, 222  # heights: the chart of accuracy, and the strips of all heads
ANSWERS = ("first answer", "second answer")


class LearningExplorer(Explorer):
    """Play or scrub through the snapshots of a Training on a LookupTask; choose the example.

    training: has at least two snapshots. It opens at the end of the run, unless you say otherwise.
    """

    plays = "step"

    def __init__(self, training, **first):
        if len(training.snapshots) < 2:
            raise ValueError(f"training must have run, got {len(training.snapshots)} snapshots: training.run(30)")
        self.snapshots = list(training.snapshots)
        self.steps = [snapshot.step for snapshot in self.snapshots]
        self.words = [training.task.words(x) for x in training.examples[: len(self.snapshots[0].maps)]]
        super().__init__(**first)

    def make_controls(self):
        return {
            "step": stops("step", self.steps, self.steps[-1], "Steps of training"),
            "example": slider("example", 1, 1, len(self.words), "Which of the held-out examples"),
        }

    def compute(self, step, example):
        now, tokens = self.snapshots[self.steps.index(step)], self.words[example - 1]  # the page counts from 1
        run = torch.stack([snapshot.maps[example - 1, :, -1] for snapshot in self.snapshots])
        asked = [pair for letter in tokens[-1].split()[0] for pair in tokens[:-1] if pair.startswith(letter)]
        shown = {"loss": now.loss, "accuracy": now.accuracy, "weights": now.maps[example - 1]}
        return shown | {"tokens": tokens, "run": run, "asked": asked}

    def picture(self, state):
        tokens, limit = state.tokens, weight_limit(len(state.tokens))
        asks, hidden = len(tokens) - 1, causal_mask(len(tokens))
        bar = colour_bar(limit, WEIGHT_INK if len(state.weights) == 1 else PAGE_INK, 199)
        looks = arcs(state.weights[:, -1], tokens, asks, f"what “{tokens[-1]}” looks at", width=NOW, height=70)
        maps = head_maps(state.weights, tokens, limit, hidden, None, NOW, 269, row=asks, bar=bar)
        return [[in_column(looks, maps), self.so_far(state, limit)]]

    def so_far(self, state, limit):
        """The run from left to right: accuracy, and below it what the question reads by head; the step is framed."""
        count, num_heads, num_tokens = state.run.shape
        each, here = (SO_FAR - LEFT - 10) / count, self.steps.index(state.step)
        tall, bottom = min(STRIPS / num_heads - 20, 13 * num_tokens), TOP + 4 + CHART
        mark = lambda y, height: frame(LEFT + here * each, y, each, height, 2)  # noqa: E731
        parts = [self.accuracies(bottom), mark(bottom - CHART, CHART)]
        parts.append(key_of(ANSWERS[: len(state.accuracy)], 4, bottom + 20, SO_FAR))
        bottom += 28
        for head in range(num_heads):
            y, strip = bottom + 20, HEAD_PALETTE.indices(state.run[:, head].T, limit, head % 8)  # (num_tokens, count)
            parts.append(pixels(strip, HEAD_PALETTE, LEFT, y, each * count, tall))
            parts += write_names(head, state, y, tall / num_tokens)
            edge = tag("rect", x=LEFT, y=y, width=each * count, height=tall, stroke_opacity=0.3, **FRAME)
            parts.append(edge + mark(y, tall))
            bottom = y + tall
        labels = sorted({round(n * (count - 1) / 5) for n in range(6)})
        parts += [text(LEFT + (place + 0.5) * each, bottom + 14, str(self.steps[place])) for place in labels]
        parts.append(text(SO_FAR - 10, bottom + 29, "step, not to scale →", "end", **PALE))
        return Drawing("".join(parts), SO_FAR, bottom + 34)

    def accuracies(self, bottom):
        ends, ticks = dict.fromkeys((-0.5, len(self.steps) - 0.5), ""), {share: f"{share:.0%}" for share in (0, 0.5, 1)}
        chart = Chart("accuracy on another batch, by step", (LEFT, SO_FAR - 10, bottom - CHART, bottom), ends, ticks)
        runs = zip(*[snapshot.accuracy.tolist() for snapshot in self.snapshots], strict=True)
        for name, dashes, values in zip(ANSWERS, DASHES, runs, strict=False):
            chart.parts.append(chart.curve(enumerate(values), name, stroke_dasharray=dashes))
        return "".join(chart.parts)

    def headline(self, state):
        most = [(head, row.argmax(), row.max()) for head, row in enumerate(state.weights[:, -1], 1)]
        if len(most) > 2:
            most = [max(most, key=lambda each: each[2])]
        looks = (LOOKS.format(f"head {head}", f"{state.tokens[n]} most ({weight:.2f})") for head, n, weight in most)
        first, *second = (f"{share:.0%}" for share in state.accuracy.tolist())
        said = f"{first} on both answers" if second == [first] else " and ".join([first, *second])
        return f"Step {state.step}: accuracy {said}. H{', '.join(looks)[1:]}"

    def readouts(self, state):
        digits = " and ".join(f"{pair[-1]} (from {pair})" for pair in state.asked)
        return {plural("right answer", len(state.asked)): digits, "loss": f"{state.loss:.3f} nats"}


def write_names(head, state, y, each):
    """A strip's title and the names of its rows; the pairs asked for are bold."""
    yield head_at(LEFT, y + 3, head, f"head {head + 1} looks at")
    for place, token in enumerate(state.tokens if each >= SMALL else []):
        weight = "bold" if token in state.asked else "normal"
        yield text(LEFT - 5, y + (place + 0.5) * each + 4, token, "end", font_weight=weight)

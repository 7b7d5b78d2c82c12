"""Notebook 07: scrub through a training run; type a text, and see what trained models attend to and predict."""

from typing import NamedTuple

import ipywidgets as widgets
import torch

from ..core import causal_mask
from ..training.characters import device_of
from .base import Explorer, slider, stops
from .svg import Drawing, arcs, bars, below, lines, title_of
from .svg_maps import colour_bar, head_maps
from .words import listed, shares

MOST_LIKELY = 8  # next characters that are shown
FIRST = "The river "


class LearningState(NamedTuple):
    """What the picture shows: one example at one step of the run."""

    step: int
    loss: float  # in nats
    accuracy: torch.Tensor  # (questions,)
    weights: torch.Tensor  # (num_heads, num_tokens, num_tokens)
    tokens: list  # the example in words; the last token is the question


class LearningExplorer(Explorer):
    """Play or scrub through the snapshots of a Training on a LookupTask; choose the example.

    training: has at least two snapshots. Arrays: a LearningState. Errors: as in Explorer; ValueError for fewer.
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
        """A play button, which moves the slider within the page."""
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
        bar = colour_bar(height=200)
        maps = head_maps(state.weights, tokens, 1.0, causal_mask(len(tokens)), None, 470, 330, row=asks, bar=bar)
        title, axis = "held-out loss (nats)", "step, not to scale"
        loss = lines({"loss": losses}, {}, names, title, axis, here, ends=ends, width=220)
        return [[maps, reads, loss]]

    def headline(self, state):
        return ""

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


class Reading(NamedTuple):
    """One model's attention and predictions for the text."""

    weights: torch.Tensor  # (num_heads, num_tokens, num_tokens)
    shares: torch.Tensor  # (characters,), probabilities of the next character


class TypedState(NamedTuple):
    """What the picture shows; the models read all of `text`, and their predictions are those at position `place`."""

    text: str
    place: int
    vocabulary: list
    readings: dict  # a Reading by the model's name

    written = property(lambda self: self.text[self.place + 1 : self.place + 2])  # what actually comes next, or ""


class TextExplorer(Explorer):
    """Type a text, and see each model's maps and its predictions for the character after one position.

    models: CharacterModels by name, all of one size; one named "leaky" has no mask. task: the Characters they were
    trained on; the models read only the last `window` characters. Arrays: a TypedState. Errors: as in Explorer.
    """

    def __init__(self, models, task):
        self.models, self.task = dict(models), task
        super().__init__()

    def make_controls(self):
        typed = widgets.Text(FIRST, description="text", tooltip="What the models read")
        return {"text": typed, "back": stops("places back", range(len(FIRST)), 0, "From the end of the text")}

    def choices(self, values):
        return {"back": range(max(1, min(len(values["text"]), self.task.window)))}

    def note(self, wanted, values):
        window = self.task.window
        return f"The models read the last {window} characters." if len(values["text"]) > window else ""

    def compute(self, text, back):
        vocabulary = self.task.vocabulary
        if not text or set(text) - set(vocabulary):
            raise ValueError(f"text must be some characters of {''.join(vocabulary)!r}, got {text!r}")
        text = text[-self.task.window :]
        place, token_ids = len(text) - 1 - back, torch.tensor([[vocabulary.index(character) for character in text]])
        readings = {name: read(model, token_ids, place) for name, model in self.models.items()}
        return TypedState(text, place, vocabulary, readings)

    def picture(self, state):
        tokens = [visible(character) for character in state.text]
        future, asked = causal_mask(len(tokens)), visible(state.text[state.place])
        maps, guesses = [], []
        for name, reading in state.readings.items():
            hidden, bar = future & (name != "leaky"), colour_bar(height=200) if maps else None
            grid = head_maps(reading.weights, tokens, 1.0, hidden, None, 380, 380, row=state.place, bar=bar)
            maps.append(below(Drawing(title_of(name, 380), 380, 18), grid, gap=0))
            values, token_ids = reading.shares.topk(MOST_LIKELY)
            names = [visible(state.vocabulary[token_id]) for token_id in token_ids]
            title = f"{name}: after “{asked}” at {state.place + 1}"
            guesses.append(bars({"share": values}, names, title, width=390, height=100))
        return [maps, guesses]

    def headline(self, state):
        return ""

    def readouts(self, state):
        return {
            "read": f"“{state.text[: state.place + 1]}”",
            "comes next": f"“{visible(state.written)}”" if state.written else "nothing is written there yet",
            **{f"next, {name}": words for name, words in self.guesses(state)},
        }

    def in_words(self, state):
        written = f"written there: {visible(state.written)}" if state.written else "nothing is written there"
        guesses = ". ".join(f"{name}: {words}" for name, words in self.guesses(state))
        return f"After “{state.text[: state.place + 1]}” ({written}) the models expect: {guesses}."

    def guesses(self, state):
        """Each model's most likely next characters, and its probability for the one that is written."""
        for name, reading in state.readings.items():
            values, token_ids = reading.shares.topk(4)
            words = shares([visible(state.vocabulary[token_id]) for token_id in token_ids], values)
            if state.written:
                words += f" (the one written: {reading.shares[state.vocabulary.index(state.written)]:.2f})"
            yield name, words

    def _repr_mimebundle_(self, **kwargs):
        return super()._repr_mimebundle_(**kwargs) | {"text/plain": "TextExplorer: run this cell to type."}


def read(model, token_ids, place):
    """A Reading of token_ids (1, num_tokens), with the probabilities after one position; the model's mode stays."""
    training, token_ids = model.training, token_ids.to(device_of(model))
    shares = model.eval()(token_ids)[0, place].softmax(dim=-1).cpu()  # (characters,)
    weights = model.maps(token_ids)[0].cpu()  # (num_heads, num_tokens, num_tokens)
    model.train(training)
    return Reading(weights, shares)


def visible(character):
    return {" ": "␣", "\n": "⏎"}.get(character, character)

"""The playground's controls, picture and words."""

import math
import textwrap
from typing import NamedTuple

import ipywidgets as widgets
import torch
from IPython import get_ipython

from ...checks import check_size
from ...core import causal_mask
from ...training.loop import held_interrupt
from ..base import NAMED, Explorer, answer_quietly, seed, stops
from ..svg import Drawing, arcs, below, printed, text
from ..svg_maps import colour_bar, head_maps
from ..words import shares
from .charts import measured_curves
from .headline import headline, percent
from .player import Player
from .runs import NEXT, TASKS, Run

LONGEST = 500  # steps, after which a playing playground pauses until Play is pressed again
OPEN = set()  # playgrounds that aren't closed; ipywidgets keeps these alive anyway
WIDTH, LINE = 640, 78  # the headline's width, in the picture's pixels, and characters per line


class PlayState(NamedTuple):
    """What the picture shows: a run after its latest step."""

    run: Run
    step: int
    weights: torch.Tensor  # (num_heads, num_tokens, num_tokens), of the first held-out example
    tokens: list  # the same example in words
    mask: str
    measured: list  # one Measured per picture so far; losses in nats
    honest: list  # one Honest now and then, for the next character
    parameters: int
    headline: str


class Playground(Explorer):
    """Train one attention layer and watch it. Moving a control restarts training from the seed, and it keeps playing.

    play() and pause() work like the button; run(steps) trains from code and then shows the result, the same every
    time. Held-out examples are evaluated in eval mode. Only one playground per kernel plays: making or playing another
    pauses it, and so does interrupting the kernel. Running its cell again closes it, and so does close().
    Arrays: a PlayState. Losses in nats. Errors: as in Explorer.
    """

    def __init__(self):
        self.cell, self.execution = this_cell()
        for other in [*OPEN]:
            other.pause()
            if self.cell and other.cell == self.cell and other.execution != self.execution:
                other.close()
        super().__init__()
        self.player = Player(self._lock, self._next_picture, self._show_button)
        OPEN.add(self)

    def make_controls(self):
        return {
            "task": widgets.Dropdown(options=TASKS, description="task", tooltip="What is to be learned"),
            "d_out": stops("d_out", [4, 8, 16, 32, 64], 32, "The width of all heads together; d_in is the same"),
            "num_heads": stops("num_heads", [1, 2, 4], 1, "Among how many heads d_out is split"),
            "dropout": stops("dropout", [0.0, 0.2, 0.5, 0.8], 0.0, "The chance that a weight is dropped in training"),
            "learning_rate": stops("learning rate", [1e-4, 1e-3, 1e-2, 1e-1], 1e-2, "How far a step goes"),
            "mask": widgets.ToggleButtons(options=["causal", "leaky"], description="mask", tooltip="Leaky: none"),
            "seed": seed(0),
        }

    def make_extras(self):
        """A row of buttons, and a slider for the number of steps per picture."""
        self.buttons = {}
        for name, icon, tooltip, pressed in (
            ("Play", "play", "Train on, picture after picture", lambda: self.pause() if self.playing else self.play()),
            ("Step", "step-forward", "Train on to the next picture", lambda: self.run(self.speed.value)),
            ("Restart", "fast-backward", "Back to step 0, with the controls as they are", self.restart),
        ):
            button = widgets.Button(description=name, icon=icon, tooltip=tooltip, layout={"width": "110px"})
            button.on_click(lambda _, pressed=pressed: pressed())
            self.buttons[name] = button
        self.buttons["Play"].button_style = "primary"
        self.speed = stops("steps a picture", [1, 2, 5, 10, 20], 2, "Steps of training between two pictures")
        self.speed.style.description_width = NAMED
        row = [*self.buttons.values(), self.speed]
        for widget in row:
            answer_quietly(widget)
        return [widgets.HBox(row, layout={"grid_area": "auto / 1 / auto / -1", "flex_flow": "row wrap"})]

    def compute(self, **values):
        return self.state_of(Run(**values), values)

    def state_of(self, run, values):
        """What to show of a run with these control values."""
        parameters = sum(parameter.numel() for parameter in run.model.parameters())
        history, said = (run.measured.copy(), run.honest.copy()), headline(run, **values)
        return PlayState(run, run.step, run.map(), run.words(), values["mask"], *history, parameters, said)

    def unused(self, values):
        return set() if values["task"] == NEXT else {"mask"}

    def note(self, wanted, values):
        if values["task"] == NEXT:
            return ""
        return "mask does nothing here: only the question's row is read out, and the question comes last."

    def picture(self, state):
        run, next_character = state.run, state.run.name == NEXT
        hidden = causal_mask(len(state.tokens)) & (state.mask == "causal" or not next_character)
        limit = 0.5 if next_character else 1.0
        bar = colour_bar(limit, height=195, more=next_character)
        table = head_maps(state.weights, state.tokens, limit, hidden, None, 430, 390, run.asks, bar=bar)
        asks = f"character {run.asks + 1}" if next_character else "the question"
        said = [text(0, 18, f"step {state.step}", "start", 16, font_weight="bold")]
        lines = textwrap.wrap(state.headline, LINE)[:3]
        said += [text(90, 18 + 19 * n, words, "start", 14) for n, words in enumerate(lines)]
        reads = arcs(state.weights[:, run.asks], state.tokens, run.asks, f"what {asks} reads", width=420, height=60)
        charts = measured_curves(state.measured, state.honest, 420, 96)
        return [[Drawing("".join(said), WIDTH, 66)], [table, below(reads, charts, gap=0)]]

    def headline(self, state):
        return ""

    def readouts(self, state):
        now, of = state.measured[-1], "next characters" if state.run.name == NEXT else "answers"
        weaker = " (to the weaker question)" if state.run.name == TASKS[0] else ""
        rows = {
            "loss": f"held-out {now.held_loss:.3f} nats" + in_training(now.loss, "{:.3f}"),
            f"right {of}": f"held-out {percent(now.accuracy)}" + in_training(100 * now.right, "{:.0f} %") + weaker,
            f"“{state.tokens[state.run.asks]}” reads": self.strongest(state),
            "parameters": f"{state.parameters:,} in the whole model; d_in is d_out",
        }
        if state.honest:
            step, loss, usual = state.honest[-1]
            rows["honest loss"] = f"{loss:.2f} nats with no future to read, {usual:.2f} with (step {step})"
        return rows

    def strongest(self, state):
        """Each head's largest weights, in words."""
        most = [row.topk(2) for row in state.weights[:, state.run.asks]]
        return "; ".join(
            f"head {head}: {shares([state.tokens[place] for place in places], weights)}"
            for head, (weights, places) in enumerate(most, 1)
        )

    def in_words(self, state):
        return (
            f"Step {state.step}. {state.headline} Held-out loss {state.measured[-1].held_loss:.2f} nats. "
            f"The token {state.tokens[state.run.asks]} reads, by {self.strongest(state)}."
        )

    @property
    def playing(self):
        return self.player.wanted

    def play(self):
        """Keep training, picture after picture, until pause() or for LONGEST steps."""
        for other in OPEN - {self}:
            other.pause()
        self.player.start()
        self._show_button()

    def pause(self):
        """Stop between two pictures; once this returns, no more are drawn."""
        self.player.stop()

    def run(self, steps):
        """Take `steps` steps at once, measured as often as when playing, and show the result.

        An interrupt stops it between two steps. Errors: TypeError or ValueError if steps isn't a whole number of at
        least 1.
        """
        left = check_size("steps", steps)
        self.pause()
        with held_interrupt() as interrupted, self._lock:
            while left and not interrupted():
                taken = min(left, self.speed.value)
                self.arrays.run.take(taken)
                left -= taken
            self._show_run()

    def restart(self):
        """Go back to step 0, and continue from there if it's playing."""
        self.set(**self._shown)

    def close(self):
        """Stop for good and release everything."""
        self.pause()
        OPEN.discard(self)
        self.arrays = self.arrays._replace(run=None)
        for child in self.children:
            close_all(child)
        self.layout.close()
        super().close()

    def _next_picture(self):
        run = self.arrays.run
        before = run.step
        run.take(self.speed.value)
        self._show_run()
        if run.step // LONGEST > before // LONGEST:
            self.player.stop()

    @torch.no_grad()
    def _show_run(self):
        self._draw(self.state_of(self.arrays.run, self._shown))

    def _show_button(self):
        name, icon = ("Pause", "pause") if self.playing else ("Play", "play")
        self.buttons["Play"].description, self.buttons["Play"].icon = name, icon

    def _repr_mimebundle_(self, **kwargs):
        """As in every explorer, but while playing the static picture is that of step 0."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if self.playing:
            first = self.compute(**self.values)
            bundle["image/svg+xml"] = printed(self.picture(first), self.in_words(first))
        return bundle | {"text/plain": "Playground: run this cell to play with it."}


def in_training(number, form):
    return f", training {form.format(number)}" if math.isfinite(number) else ""


def this_cell():
    """The ids of the running cell and of this execution; None outside a notebook."""
    kernel = getattr(get_ipython(), "kernel", None)
    parent = kernel.get_parent() if kernel else {}
    return parent.get("metadata", {}).get("cellId"), parent.get("header", {}).get("msg_id")


def close_all(widget):
    """Close a widget, its children, its style and its layout, because ipywidgets keeps each of them until then."""
    for part in (*getattr(widget, "children", ()), getattr(widget, "style", None), widget.layout):
        if isinstance(part, widgets.DOMWidget):
            close_all(part)
        elif part is not None:
            part.close()
    widget.close()

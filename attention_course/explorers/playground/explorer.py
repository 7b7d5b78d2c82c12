"""The playground's controls, picture and words."""

import math

import ipywidgets as widgets
import torch

from attention_helpers import causal_mask
from attention_helpers.checks import check_size
from attention_helpers.training.loop import held_interrupt

from ..base import Explorer
from ..controls import buttons, listed, make_compact, seed, stops
from ..words import LOOKS, Markup, plural
from .charts import draw_answer, draw_maps, in_nats, in_percent, measured_curves, question_arcs, write_line
from .runs import D_IN, LEARNED, NEXT, STEADY, TASKS, TrainingRun
from .trials import TABS, TRIAL_STEPS, TRIALS, measured_result, trial_of, write_panel

HEAD_COUNTS, D_OUTS = (1, 2, 4), (1, 2, 4, 8, 16, 32)
LONGEST_RUN = 500  # steps, after which a playing playground pauses until Play is pressed again
SURE = 60  # steps, after which little changes
SOON, LATER = 1, 5  # steps per picture up to the step SURE, and from then on
PICTURE_TIME = 40  # milliseconds per picture, at least
D_OUT = f"The width of all heads together; d_in is {D_IN}, or d_out for the next character"


class Playground(Explorer):
    """Train one attention layer and watch it: in three trials, or in free play, where its controls can be moved.

    A trial sets all controls, asks for a prediction, and waits at step 0 for Play. play() and pause() work like the
    button: the page asks for picture after picture. run(steps) trains from code and then shows the result, the same
    every time. A control moved from code to what's no trial's leads to free play. Held-out examples are evaluated in
    eval mode. results: by trial, what was measured after its 100 steps; None keeps and shows none.
    """

    def __init__(self):
        self.results = {}
        super().__init__()
        self.view.pace = PICTURE_TIME

    def make_controls(self):
        return {
            "task": listed("task", TASKS, TASKS[0], "What it should learn"),
            "mask": buttons("mask", ["causal", "leaky"], "leaky: no mask"),
            "num_heads": buttons("heads", HEAD_COUNTS, "They share d_out"),
            "d_out": stops("d_out", D_OUTS, D_IN, D_OUT),
            "dropout": stops("dropout", [0.0, 0.2, 0.5, 0.8], 0.0, "The chance that a weight is dropped in training"),
            "learning_rate": stops("learning rate", [1e-4, 1e-3, 1e-2, 1e-1], 1e-2, "How far a step goes"),
            "seed": seed(0),
        }

    def make_button(self, name, icon, tooltip, press):
        button = widgets.Button(description=name, icon=icon, tooltip=tooltip, layout={"width": "auto"})
        button.on_click(lambda _: press())
        return button

    def arranged(self, reset):
        """The trials as tabs, and in one row the buttons that all need; in free play also the controls."""
        self.tabs = buttons("trial", TABS, "What to try")
        self.tabs.add_class("attention-tabs")
        self.tabs.observe(self._chosen, names="value")
        play = self.play_button()
        play.button_style = "primary"
        restart = self.make_button("Restart", "fast-backward", "Back to step 0, with these controls", self.restart)
        following = self.make_button("Next trial", "", "The next trial, at step 0", self.open_next)
        step = self.make_button("Step", "step-forward", "Up to the next picture", lambda: self.run(self.pace))
        self.buttons = {"Play": play, "Next trial": following}
        paces = [(str(each or "auto"), each) for each in (0, 1, 2, 5, 10, 20)]
        self.speed = stops("steps per picture", paces, 0, f"auto: {SOON} up to step {SURE}, then {LATER}")
        for widget in (self.tabs, self.speed):
            make_compact(widget)
        self.free = widgets.HBox([*self.controls.values(), self.speed, step, reset], layout={"display": "none"})
        return [self.tabs, widgets.HBox([play, restart, following]), self.free]

    def _chosen(self, change):
        """A tab was chosen: a trial begins at step 0, free play goes on from where it is."""
        with self._lock:
            trial = change["new"]
            set_shown(self.free, not trial)
            if trial in (0, trial_of(self._first, self.shown)):
                self.draw(self.arrays)
            else:
                self.pause()
                self.update(**self._first | TRIALS[trial].controls)

    def open_next(self):
        self.tabs.value = self.tabs.value + 1

    def choices(self, values):
        return {"num_heads": [heads for heads in HEAD_COUNTS if values["d_out"] % heads == 0]}

    def note(self, wanted, values):
        asked, heads = wanted["num_heads"], values["num_heads"]
        return "" if asked == heads else f"{asked} doesn't divide d_out {values['d_out']}: {heads} instead."

    def compute(self, **values):
        return shown_of(TrainingRun(**values))

    def unused(self, values):
        return {} if values["task"] == NEXT else {"mask": "the question comes last"}  # it has no future to read

    def picture(self, state):
        next_character = state.task == NEXT
        hidden = causal_mask(len(state.tokens)) & (state.mask == "causal" or not next_character)
        answered = draw_answer(question_of(state), state.predicted, state.answers, state.read_from)
        tables = draw_maps(state, hidden, 0.5 if next_character else 1.0)
        asks = write_line(explain_task(state))
        return [[asks], [question_arcs(state), answered], [tables, measured_curves(state)]]

    def headline(self, state):
        first, now, steps = state.measured[0], state.measured[-1], f"{state.step} {plural('step', state.step)}"
        if not math.isfinite(now.held_loss):
            return f"After {steps} the loss isn't a number any more."
        if state.step == 0:
            return "Untrained: every answer is a guess."
        if state.task == NEXT:
            before, after = in_nats(first.held_loss), in_nats(now.held_loss)
            said = f"In {steps} the loss on new text went from {before} to {after}"
            ahead = f"; where it can't look ahead it's {in_nats(state.honest[-1].loss)}" if state.honest else ""
            return f"{said}{ahead}."
        if state.learned is not None:
            said = f"Learned: {in_percent(LEARNED)} for {STEADY} steps, from step {state.learned} on"
        else:
            which = "answer" if len(state.answers) == 1 else "less accurate answer"
            said = f"After {steps} the {which} is right in {in_percent(now.accuracy)} of new examples"
        most = [state.tokens[token] for token in state.weights[:, state.asks].argmax(dim=-1).tolist()]
        looks = [LOOKS.format(f"head {head}", f"“{token}”") for head, token in enumerate(most, 1)]
        return f"{said}. H{', '.join(looks)[1:]} most."

    @property
    def pace(self):
        """Steps of training up to the next picture."""
        return self.speed.value or (SOON if self.arrays.run.step < SURE else LATER)

    def update(self, **moved):
        """As in every explorer; what's no trial's state is shown in free play."""
        with self._lock:
            super().update(**moved)
            trial = trial_of(self._first, self.shown)
            if self.tabs.value not in (0, trial):
                self.tabs.value = trial

    def play(self):
        """Keep training, picture after picture as the page asks for them, until pause() or for LONGEST_RUN steps."""
        self.view.playing = True

    def pause(self):
        self.view.playing = False

    def run(self, steps):
        """Take `steps` steps at once, measured as often as when playing, and show the result.

        An interrupt stops it between two steps. Errors: TypeError or ValueError if steps isn't a whole number of at
        least 1.
        """
        left = check_size("steps", steps)
        self.pause()
        with held_interrupt() as interrupted, self._lock:
            while left and not interrupted():
                taken = min(left, self.pace)
                self.arrays.run.take(taken)
                left -= taken
            self.show_run()

    def restart(self):
        """Go back to step 0, and continue from there if it's playing; it forgets what wasn't possible."""
        self.wanted = self.shown
        self.update()

    def next_picture(self):
        run = self.arrays.run
        before = run.step
        run.take(self.pace)
        self.show_run()
        told = self.tabs.value and before < TRIAL_STEPS <= run.step
        if told or run.step // LONGEST_RUN > before // LONGEST_RUN:
            self.pause()

    def show_run(self):
        self.draw(self.arrays._replace(**shown_of(self.arrays.run)))

    @torch.no_grad()
    def draw(self, state):
        trial, done = self.tabs.value, state.step >= TRIAL_STEPS
        if trial and done and self.results is not None:
            self.results.setdefault(trial, measured_result(state))
        super().draw(state)
        # It keeps its room, so that nothing jumps when it appears.
        self.buttons["Next trial"].layout.visibility = None if done and trial in (1, 2) else "hidden"
        set_shown(self.controls["mask"], state.task == NEXT)

    def ghosts(self):
        return {"trial": self.tabs.label}

    def readouts(self, state):
        return Markup(write_panel(self.tabs.value, state.step, self.results))


def set_shown(widget, wanted):
    widget.layout.display = None if wanted else "none"


def shown_of(run):
    """What to show of a run, by name; weights: (num_heads, num_tokens, num_tokens), of the first held-out example."""
    measured = {"measured": run.measured.copy(), "honest": run.honest.copy(), "learned": run.learned}
    return {"run": run, "step": run.step, "weights": run.map(), **run.example(), **measured}


def question_of(state):
    """The question, or the characters before the one to predict."""
    if state.task == NEXT:
        return "".join(state.tokens[state.asks - 7 : state.asks + 1]).replace("␣", " ").replace("↵", " ")
    return state.tokens[state.asks]


def explain_task(state):
    """The task in terms of this example; words between asterisks are bold."""
    question, now = question_of(state), f"Step *{state.step}*."
    if state.task == NEXT:
        return f"Which character comes after “*{question}*”? {now}"
    letters = " and ".join(f"*{state.tokens[token][0]}*" for token in state.wanted)
    which = "digit is" if len(state.wanted) == 1 else "digits are"
    return f"“{question}” asks which {which} next to {letters}. {now}"

"""The playground's controls, picture and words."""

import math

import ipywidgets as widgets
import torch

from attention_helpers import causal_mask
from attention_helpers.checks import check_size
from attention_helpers.training.loop import held_interrupt

from ..base import Explorer
from ..controls import buttons, listed, seed, stops
from ..words import LOOKS, plural
from .charts import draw_answer, draw_maps, in_nats, in_percent, measured_curves, question_arcs, write_line
from .runs import D_IN, LEARNED, NEXT, STEADY, TASKS, TrainingRun

HEAD_COUNTS, D_OUTS = (1, 2, 4), (1, 2, 4, 8, 16, 32)
LONGEST_RUN = 500  # steps, after which a playing playground pauses until Play is pressed again
SURE = 60  # steps, after which one head that answers two questions is offered another
SOON, LATER = 1, 5  # steps per picture up to the step SURE, and from then on
PICTURE_TIME = 40  # milliseconds per picture, at least
REMEDY = "Add a head"
ROW_LAYOUT = {"flex_flow": "row wrap", "grid_gap": "4px", "align_items": "center"}
FIRST_ROW = {"task": "166px", "mask": "auto", "num_heads": "134px", "d_out": "162px", "dropout": "177px"}
D_OUT = f"The width of all heads together; d_in is {D_IN}, or d_out for the next character"


class Playground(Explorer):
    """Train one attention layer and watch it. Moving a control restarts training from the seed.

    play() and pause() work like the button: the page asks for picture after picture. run(steps) trains from code and
    then shows the result, the same every time. It starts to play by itself once a page shows it, unless the reader's
    system asks for less motion; from then on, a moved control plays too. Held-out examples are evaluated in eval mode.
    """

    def __init__(self):
        self.lively = False  # whether somebody sees it move
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
        """What a newcomer needs in one line; the rest opens with More."""
        play, look = self.play_button(), {"tooltip": "More controls", "layout": {"width": "auto"}}
        play.button_style, more = "primary", widgets.ToggleButton(description="More", **look)
        remedy = self.make_button(REMEDY, "", "Two heads, from step 0", self.give_second_head)
        remedy.add_class("attention-remedy")
        step = self.make_button("Step", "step-forward", "Up to the next picture", lambda: self.run(self.pace))
        restart = self.make_button("Restart", "fast-backward", "Back to step 0, with these controls", self.restart)
        self.buttons = {"Play": play, REMEDY: remedy}
        paces = [(str(each or "auto"), each) for each in (0, 1, 2, 5, 10, 20)]
        self.speed = stops("steps per picture", paces, 0, f"auto: {SOON} up to step {SURE}, then {LATER}")
        more.add_class("attention-more")
        first = [self.controls[name] for name in FIRST_ROW]
        others = [control for name, control in self.controls.items() if name not in FIRST_ROW]
        for control, width in zip(first, FIRST_ROW.values(), strict=True):
            control.layout.width = width  # heads keep theirs, so that nothing moves where fewer are possible
        for control in (*first, *others, self.speed):
            control.style.description_width = "initial"
        box = widgets.HBox([*others, self.speed, step, restart, reset], layout=ROW_LAYOUT | {"display": "none"})
        more.observe(lambda change: set_shown(box, change["new"]), names="value")
        return [widgets.VBox([widgets.HBox([*first, play, more, remedy], layout=ROW_LAYOUT), box])]

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
        answered = draw_answer(question_of(state), state.predicted, state.answers)
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

    def play(self):
        """Keep training, picture after picture as the page asks for them, until pause() or for LONGEST steps."""
        self.lively = self.view.playing = True

    def seen(self):
        if not self.lively:
            self.play()

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

    def give_second_head(self):
        self.set(num_heads=2)
        self.play()

    def _moved(self, change):
        """As in every explorer; where it's seen to move, it also plays."""
        with self._lock:
            before = self.shown
            super()._moved(change)
        if self.lively and self.shown is not before:
            self.play()

    def next_picture(self):
        run = self.arrays.run
        before = run.step
        run.take(self.pace)
        self.show_run()
        if run.step // LONGEST_RUN > before // LONGEST_RUN:
            self.pause()

    def show_run(self):
        self.draw(self.arrays._replace(**shown_of(self.arrays.run)))

    @torch.no_grad()
    def draw(self, state):
        super().draw(state)
        more = state.num_heads == 1 and state.d_out > 1 and state.step >= SURE and state.learned is None
        # it keeps its room where it may be offered, so that nothing jumps when it is
        self.buttons[REMEDY].layout.visibility = None if more and state.task == TASKS[0] else "hidden"
        set_shown(self.controls["mask"], state.task == NEXT)
        set_shown(self.buttons[REMEDY], state.task != NEXT)


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

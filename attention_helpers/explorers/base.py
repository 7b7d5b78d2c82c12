"""What all explorers share: controls, a picture that follows them, readouts, and a line that explains."""

import html
import re
import threading

import ipywidgets as widgets
import torch

from ..checks import check_tensor
from ..sentences import Sentence
from .svg import live, printed

NAMED = "104px"  # one width for all controls' names, so that the controls stand in columns
MESSAGE = '<span role="status">{}</span>'
# In a dark page a list's own arrow is black on black, and a button that is pressed looks like one that is not.
LOOKS = """<style>.attention-explorer select {appearance: auto; background-image: none}
.attention-explorer .widget-toggle-button.mod-active {box-shadow: inset 0 -3px var(--jp-brand-color1, blue)}</style>"""


def slider(name, value, low, high, tooltip, step=None):
    """A slider over whole numbers, or over others if there is a step."""
    kind, more = (widgets.FloatSlider, {"step": step}) if step else (widgets.IntSlider, {})
    return kind(value, min=low, max=high, description=name, tooltip=tooltip, **more)


def stops(name, options, value, tooltip):
    """A slider over given options, or over pairs of a word and an option."""
    made = widgets.SelectionSlider(options=options, description=name, tooltip=tooltip)
    made.value = value  # given at once, the first of all options would have no label
    return made


def seed(value):
    return slider("seed", value, 0, 999, "From which everything random is drawn")


def dropout(name="dropout", value=0.0):
    return slider(name, value, 0, 0.9, "The chance that a weight is dropped", step=0.05)


class Explorer(widgets.VBox):
    """Controls on top, under them a message, the picture and readouts that follow from the controls' values.

    A subclass has parts that never mix: the controls, what is computed from their values, and how that is shown, in a
    picture and in words. Only `make_controls` and `make_extras` know a widget.

    explorer.set(name=value, ...) moves controls from code; explorer.values holds the controls' values, explorer.arrays
    what was computed from them. Shapes and units: see each explorer's arrays, each control's label.
    Errors: `set` raises ValueError for a control that there is not, a value that it cannot take or a state that cannot
    be, and changes nothing.
    """

    def __init__(self):
        self._lock = threading.RLock()  # callbacks may come on a second thread while a cell calls set
        self._held = False
        self.controls = self.make_controls()
        self._first = self.values
        self._wanted = self.values  # what was last asked for; a value that had to give way comes back when it can
        self.view, self.message = widgets.HTML(), widgets.HTML()
        self.message.layout.min_height = "1.8em"  # its place is kept, so that the picture under it never jumps
        reset = widgets.Button(description="Reset", icon="undo", tooltip="Back to the first state")
        reset.on_click(lambda _: self.set(**self._first))
        for control in self.controls.values():
            control.style.description_width = NAMED  # a new style would leave the old one behind, open for good
            if isinstance(control, widgets.ToggleButtons):
                control.style.button_width = "auto"  # as wide as their words
                control.add_class("widget-inline-hbox")  # which they lack, alone of all: the name stands beside them
            if isinstance(control, widgets.Text):
                control.layout.grid_area = "auto / 1 / auto / -1"  # a row of its own, so that a sentence fits
            control.layout.width = "auto"
            control.observe(self._moved, names="value")
        for control in (*self.controls.values(), reset):
            answer_quietly(control)
        row = [*self.controls.values(), reset, *self.make_extras()]
        columns = "repeat(auto-fit, minmax(270px, 1fr))"
        grid = widgets.GridBox(row, layout=widgets.Layout(grid_template_columns=columns, grid_gap="2px 12px"))
        looks = widgets.HTML(LOOKS, layout={"display": "none"})
        super().__init__([grid, self.message, self.view, looks])
        self.add_class("attention-explorer")
        self.add_class(type(self).__name__)  # by which a page with several of them tells them apart
        self._show(*self._settled(self._wanted))

    def make_controls(self):
        """The controls by name, in their first state."""
        raise NotImplementedError

    def compute(self, **values):
        """All that is shown, a named tuple that follows from the values alone; ValueError for an impossible state."""
        raise NotImplementedError

    def picture(self, arrays):
        """The arrays as rows of Drawings, lists each of one size in every state."""
        raise NotImplementedError

    def in_words(self, arrays):
        """What the picture shows, for those who cannot see it."""
        raise NotImplementedError

    def readouts(self, arrays):
        """The table under the picture: texts, or Markup, by name."""
        raise NotImplementedError

    def make_extras(self):
        """Widgets that move controls and hold no value of their own."""
        return []

    def choices(self, values):
        """The options, by name, of the controls whose options follow from other values, each after those."""
        return {}

    def note(self, wanted, values):
        """What to say of a state; `wanted` differs from it where a value had to give way."""
        return ""

    def unused(self, values):
        """The names of controls that do nothing in a state: they are greyed."""
        return set()

    @property
    def values(self):
        """The controls' values, by name."""
        return {name: control.value for name, control in self.controls.items()}

    def set(self, **values):
        """Move controls from code, all at once or not at all."""
        with self._lock:
            follow = self.choices(self._wanted).keys()
            for name, value in values.items():
                if name not in self.controls:
                    raise ValueError(f"name must be one of {', '.join(self.controls)}, got {name!r}")
                if name not in follow:
                    check_value(name, self.controls[name], value)
            wanted = self._wanted | {name: value for name, value in values.items() if name not in follow}
            for name in [name for name in follow if name in values]:  # each after those that it follows
                refuse_unless(values[name] in (options := self.choices(wanted)[name]), name, options, values[name])
                wanted |= {name: values[name]}
            settled = self._settled(wanted)
            self._wanted = wanted
            self._show(*settled)

    def _settled(self, wanted):
        """The state that can be, as near as possible to the one that is wanted; its arrays; and what to say."""
        values = dict(wanted)
        for name, options in self.choices(wanted).items():
            if values[name] not in options:
                values[name] = max((option for option in options if option <= wanted[name]), default=options[0])
        with torch.no_grad():
            return values, self.compute(**values), self.note(wanted, values)

    def _moved(self, change):
        """A learner moved a control: show its state, or explain why it cannot be; then the last picture stays."""
        with self._lock:  # a second thread waits; the same thread is `_show` at work
            if self._held:
                return
            [name] = [name for name, control in self.controls.items() if control is change["owner"]]
            self._wanted = self._wanted | {name: change["new"]}
            try:
                self._show(*self._settled(self._wanted))
            except ValueError as error:
                self.message.value = MESSAGE.format(f"⚠ {html.escape(str(error))}")

    def _show(self, values, arrays, note):
        """Bring picture, words and controls to a state that was computed."""
        self._draw(arrays)
        self._shown, self._held = values, True  # controls that move now draw nothing
        for name, options in self.choices(values).items():
            if list(self.controls[name].options) != list(options):
                self.controls[name].options = list(options)
        for name, value in values.items():
            self.controls[name].value, self.controls[name].disabled = value, name in self.unused(values)
        self._held = False
        self.message.value = MESSAGE.format(html.escape(note)) if note else ""

    def _draw(self, arrays):
        """Bring picture and words to arrays, and leave the controls where a hand may be moving them."""
        alt, rows, readout = self.in_words(arrays), self.picture(arrays), table(self.readouts(arrays))
        self.arrays, self.alt, self._rows, self.readout = arrays, alt, rows, readout
        self.svg = live(rows, alt)
        # one message: the picture and its numbers change together, and sooner than by two
        self.view.value = self.svg + readout

    def _repr_mimebundle_(self, **kwargs):
        """The live widget, and for places without one the picture, on white, and a line of text."""
        return super()._repr_mimebundle_(**kwargs) | {
            "image/svg+xml": printed(self._rows, self.alt),
            "text/plain": f"{type(self).__name__}: run this cell to move its sliders.",
        }


class SentenceExplorer(Explorer):
    """An explorer of a Sentence of at most `most` tokens; it sees the embeddings as float32, without a gradient."""

    most = 8

    def __init__(self, sentence):
        if not isinstance(sentence, Sentence) or not all(isinstance(token, str) for token in sentence.tokens):
            raise TypeError(
                f"sentence must be a Sentence, its tokens strings, got {type(sentence).__name__}: {sentence!r}"
            )
        tokens, embeddings = list(sentence.tokens), sentence.embeddings
        check_tensor("sentence.embeddings", embeddings, (2,), "(num_tokens, d_in)")
        if not 1 <= len(tokens) <= self.most or len(tokens) != len(embeddings):
            got = f"{len(tokens)} tokens and embeddings {tuple(embeddings.shape)}"
            raise ValueError(f"sentence must have 1 to {self.most} tokens and an embedding for each, got {got}")
        if not embeddings.isfinite().all():
            raise ValueError(f"sentence.embeddings must be finite, got {embeddings!r}")
        self.tokens, self.embeddings = self.extended(tokens, embeddings.detach().float().cpu())  # (num_tokens, d_in)
        super().__init__()

    def extended(self, tokens, embeddings):
        """The tokens and embeddings to show; by default the sentence's own."""
        return tokens, embeddings


def answer_quietly(control):
    """Let a control's messages end without the events that mark a cell's end.

    ipykernel sends them after each message, on a second thread if it came on one; at a cell's end, matplotlib's inline
    backend closes all of pyplot's figures. A cell that draws with pyplot meanwhile would lose its figure.
    """
    if control.comm is not None:
        control.comm.handle_msg = control._handle_msg


def check_value(name, control, value):
    """ValueError for a value that a control does not take; a slider itself would clip it silently."""
    if hasattr(control, "options"):
        refuse_unless(value in (options := [option for _, option in control._options_full]), name, options, value)
    elif hasattr(control, "min"):
        number = isinstance(value, int if isinstance(control.value, int) else (int, float)) and value is not True
        rule = f"from {control.min:g} to {control.max:g} in steps of {control.step:g}"
        refuse_unless(number and control.min <= value <= control.max, name, rule, value)
    elif isinstance(control, widgets.Text):
        refuse_unless(isinstance(value, str), name, "a string", value)
    else:
        refuse_unless(isinstance(value, bool), name, "True or False", value)


def refuse_unless(fits, name, rule, value):
    """rule: what the value must be, in words, or a list or range of what it may be."""
    if not fits:
        if isinstance(rule, range):
            rule = f"from {rule[0]} to {rule[-1]} in steps of {rule.step}"
        rule = rule if isinstance(rule, str) else f"one of {', '.join(map(str, rule))}"
        raise ValueError(f"{name} must be {rule}, got {value!r}")


class Markup(str):
    """A readout that is HTML already; all others are plain text."""


def marked(text):
    return Markup(re.sub("`([^`]*)`", r"<code>\1</code>", html.escape(text)))


def table(rows):
    """Readouts as an HTML table: a name and a text each; what stands between backticks is code."""
    head = '<tr><th scope="row" style="text-align:left;white-space:nowrap;padding-right:1em">'
    cells = [(html.escape(name), text if isinstance(text, Markup) else marked(text)) for name, text in rows.items()]
    return "<table>" + "".join(f"{head}{name}</th><td>{text}</td></tr>" for name, text in cells) + "</table>"

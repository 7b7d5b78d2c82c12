"""What all explorers share: controls, a picture that follows them, readouts and a message."""

import html
import re
import threading
from pathlib import Path

import ipywidgets as widgets
import torch
from traitlets import TraitError

from attention_helpers.checks import check_tensor
from attention_helpers.sentences import Sentence

from .svg import live, printed

NAMED = "104px"  # one width for all controls' names, so that the controls line up in columns
MESSAGE = "<span>{}</span>"
PAGE = (
    '<div class="attention-headline">{}</div>'
    '<div class="attention-page">{}<div class="attention-readouts">{}</div></div>'
)
# A screen reader hears a slider without its name, and "2.00" where the page shows "0.01". So a script, which a style
# runs, copies what's on the screen to where a screen reader looks, each time something changes.
SCRIPT = Path(__file__).with_name("access.js").read_text(encoding="utf-8").strip()
# On a dark page, a list's own arrow is black on black, and a pressed button looks like any other. A list is as wide as
# its longest option. After a restart of the kernel, ipywidgets marks each widget, by an icon of its own.
LOOKS = (
    f'<style onload="{html.escape(SCRIPT)}">'
    """.attention-explorer select {appearance: auto; background-image: none}
.attention-explorer .widget-toggle-button.mod-active {box-shadow: inset 0 -3px var(--jp-brand-color1, blue)}
.attention-explorer .widget-toggle-buttons button {padding: 0 8px}
.attention-explorer .attention-headline {font-size: 17px; font-weight: 600; line-height: 1.3; margin-bottom: 4px}
.attention-explorer .attention-page {display: flex; flex-wrap: wrap; gap: 6px 24px; line-height: 1.4}
.attention-explorer :is(.widget-html-content, [role=img]) {min-width: 0}
.attention-explorer [role=img] svg {overflow: visible}
.attention-explorer .attention-message .widget-html-content {line-height: 1.3}
.attention-explorer .attention-readouts:empty {display: none}
.attention-explorer .attention-readouts {flex: 1 1 260px; min-width: 0}
.attention-explorer .attention-dimmed, .attention-explorer.jupyter-widgets-disconnected > * {opacity: 0.4}
.attention-explorer .jupyter-widgets-disconnected::before {content: none}
.attention-explorer.jupyter-widgets-disconnected::before {font: inherit; font-weight: 600; color: inherit;
    content: "⚠ The kernel behind this picture is gone. Run this cell again"}
.attention-explorer .widget-dropdown > select {min-width: max-content}
.attention-explorer .widget-dropdown > .widget-label {flex-shrink: 1; min-width: max-content}
body[data-jp-theme-light="false"] .attention-explorer .attention-black {filter: invert(1)}</style>"""
)


def slider(name, value, low, high, tooltip, step=None):
    """A slider for whole numbers, or for floats if a step is given."""
    kind, more = (widgets.FloatSlider, {"step": step}) if step else (widgets.IntSlider, {})
    return kind(value, min=low, max=high, description=name, tooltip=tooltip, **more)


class Stops(widgets.SelectionSlider):
    """A slider whose options can become fewer while the page, a moment behind, still moves among the former ones."""

    def set_state(self, sync_data):
        try:
            super().set_state(sync_data)
        except TraitError:  # there's no such option any more: the page learns what there is
            self.send_state()


def stops(name, options, value, tooltip):
    """A slider for the given options, or for pairs of a label and an option."""
    made = Stops(options=options, description=name, tooltip=tooltip)
    made.value = value  # set afterwards, or the first option would have no label
    return made


def player(control, value):
    """A play button, which moves a slider of stops within the page; at the end it stops, then starts over.

    value: where it begins, or the page would move the slider.
    """
    now, last = [option for _, option in control._options_full].index(value), len(control._options_full) - 1
    play = widgets.Play(value=now, max=last, interval=250, repeat=True, show_repeat=False)
    play.link = widgets.jslink(
        (play, "value"), (control, "index")
    )  # it would move the slider to where the button begins

    def stop_at_end(change):
        if change["new"] == last:
            play.playing = False

    play.observe(stop_at_end, names="value")
    answer_quietly(play)
    return play


def seed(value):
    return slider("seed", value, 0, 999, "From which everything random is drawn")


def dropout(name="dropout", value=0.0):
    return slider(name, value, 0, 0.9, "The chance that a weight is dropped", step=0.05)


class Explorer(widgets.VBox):
    """Controls on top; below them a headline, a picture and readouts, all computed from the controls' values.

    A subclass keeps three things apart: the controls, what is computed from their values, and how that is shown, as a
    picture and in words. Only `make_controls` and `make_extras` know about widgets. It has:

    - make_controls(): the controls by name, in their initial state
    - compute(**values): everything shown, as a named tuple (the arrays) that depends only on the controls' values;
      ValueError for an impossible state
    - picture(arrays): rows (lists) of Drawings, whose sizes are the same in every state
    - headline(arrays): one sentence on what you see, with its numbers, as text or Markup
    - readouts(arrays): what neither says, in a table below the picture, as text or Markup by name

    Explorer(name=value, ...) gives the first state, to which Reset leads back, and explorer.set(name=value, ...) moves
    controls from code. Both raise ValueError for an unknown control, a value that it can't take or an impossible state,
    and then nothing changes. explorer.values holds the controls' values, explorer.arrays what was computed from them.
    """

    def __init__(self, **first):
        self._lock = threading.RLock()  # callbacks can run on a second thread while a cell calls set
        self._held = False
        self.controls = self.make_controls()
        self._wanted = self.values  # last requested values; one that isn't possible now returns when it is
        self._first = self._wanted = self._asked(first)
        self.view, self.message = widgets.HTML(), widgets.HTML()
        self.message.add_class("attention-message")  # what's written there is read aloud: see access.js
        self.message.layout = {"flex": "1", "align_self": "center", "margin": "2px 0 2px 12px"}
        reset = widgets.Button(description="Reset", icon="undo", tooltip="Back to the first state")
        reset.on_click(self._reset)
        for control in self.controls.values():
            control.style.description_width = NAMED  # a new style object would leak the old one
            if isinstance(control, widgets.ToggleButtons):
                control.style.button_width = "auto"  # as wide as their labels
                control.add_class("widget-inline-hbox")  # only this widget lacks it: name to the left
            if isinstance(control, widgets.Text):
                control.layout.grid_area = "auto / 1 / auto / -1"  # its own row, so that a sentence fits
            control.layout.width = "auto"
            control.observe(self._moved, names="value")
        for control in (*self.controls.values(), reset):
            answer_quietly(control)
        looks = widgets.HTML(LOOKS, layout={"display": "none"})
        super().__init__([*self.arranged(reset), self.make_view(), looks])
        self.add_class("attention-explorer")
        self.add_class(type(self).__name__)  # tells several explorers on a page apart
        self._begin()

    def make_view(self):
        """The widget that shows self.view."""
        return self.view

    def make_extras(self):
        """Widgets that move controls but have no value of their own."""
        return []

    def arranged(self, reset):
        """What's above the picture: a grid of controls and extras with as many columns as there's room, and a line.

        The message is beside the Reset button, so that the picture doesn't jump when there is one.
        """
        columns = "repeat(auto-fit, minmax(270px, 1fr))"
        layout = widgets.Layout(grid_template_columns=columns, grid_gap="2px 12px")
        grid = widgets.GridBox([*self.controls.values(), *self.make_extras()], layout=layout)
        return [grid, widgets.HBox([reset, self.message])]

    def choices(self, values):
        """Options, by name, for controls whose options depend on other values; each control after those it needs."""
        return {}

    def note(self, wanted, values):
        """The message for a state; `wanted` differs from `values` where a requested value isn't possible."""
        return ""

    def readouts(self, arrays):
        return {}

    def unused(self, values):
        """The names of controls that do nothing in a state; they are greyed out."""
        return set()

    @property
    def values(self):
        """The controls' values, by name."""
        return {name: control.value for name, control in self.controls.items()}

    def set(self, **values):
        """Move controls from code: all of them, or none if one value is refused."""
        with self._lock:
            wanted = self._asked(values)
            settled = self._settled(wanted)
            self._wanted = wanted
            self._show(*settled)

    def set_nearest(self, **values):
        """Like set, but values that don't go together give way to the nearest that do, as under a learner's hand."""
        with self._lock:
            self._wanted = self._wanted | values
            self._show(*self._settled(self._wanted))

    def _asked(self, values):
        """The values that are wanted once some controls have moved to `values`."""
        wanted, follow = self._wanted | values, self.choices(self._wanted).keys()
        for name in sorted(values, key=follow.__contains__):  # what others depend on comes first
            if name not in self.controls:
                raise ValueError(f"name must be one of {', '.join(self.controls)}, got {name!r}")
            options = self.choices(wanted)[name] if name in follow else None
            check_value(name, self.controls[name], values[name], options)
        return wanted

    def _begin(self):
        """Show the first state."""
        self._show(*self._settled(self._wanted))

    def _settled(self, wanted):
        """The possible state nearest to the wanted one, its arrays, and its message."""
        values = dict(wanted)
        for name, options in self.choices(wanted).items():
            if values[name] not in options:
                values[name] = nearest(options, wanted[name])
        with torch.no_grad():
            return values, self.compute(**values), self.note(wanted, values)

    def _moved(self, change):
        """A learner moved a control: show the new state, or keep the picture and explain why it isn't possible."""
        with self._lock:  # a second thread waits; on the same thread, `_show` is at work
            if self._held:
                return
            [name] = [name for name, control in self.controls.items() if control is change["owner"]]
            self._wanted = self._wanted | {name: change["new"]}
            try:
                self._show(*self._settled(self._wanted))
            except ValueError as error:
                self._refuse(error)

    def _reset(self, _):
        try:
            self.set(**self._first)
        except ValueError as error:  # the first state is possible, except for a class that the learner typed
            self._refuse(error)

    def _refuse(self, error):
        """Explain why a state isn't possible; the picture stays, dimmed, because it shows another one."""
        self.message.value = MESSAGE.format(f"⚠ {marked(str(error))}")
        self.view.add_class("attention-dimmed")

    def _show(self, values, arrays, note):
        """Bring picture, words and controls to a computed state."""
        self._draw(arrays)
        try:
            self._shown, self._held = values, True  # controls that move now don't draw
            for name, options in self.choices(values).items():
                if list(self.controls[name].options) != list(options):
                    self.controls[name].options = list(options)
            for name, value in values.items():
                self.controls[name].value, self.controls[name].disabled = value, name in self.unused(values)
        finally:  # an interrupt may come in between, and must not leave the controls deaf
            self._held = False
        self.message.value = MESSAGE.format(html.escape(note)) if note else ""

    def _draw(self, arrays):
        """Update picture and words, but not the controls, which the learner may be moving."""
        self.said, rows, readout = self.headline(arrays), self.picture(arrays), table(self.readouts(arrays))
        words = [part.words for row in rows for part in row if part.words]
        alt = " ".join([f"{plain(self.said).rstrip('.')}.", *words])
        self.svg = live(rows, alt)
        self.arrays, self.alt, self._rows, self.readout = arrays, alt, rows, readout
        # one widget message: headline, picture and numbers change together, and sooner than with several
        self.view.value = PAGE.format(marked(self.said), self.svg, readout)
        self.view.remove_class("attention-dimmed")

    def _repr_mimebundle_(self, **kwargs):
        """The live widget, plus a static picture on white and a line of text for places without widgets."""
        return super()._repr_mimebundle_(**kwargs) | {
            "image/svg+xml": printed(self._rows, self.alt, plain(self.said)),
            "text/plain": f"{type(self).__name__}: run this cell to move its sliders.",
        }


class SentenceExplorer(Explorer):
    """An explorer of a Sentence of at most 8 tokens; it uses the embeddings as float32, without gradients."""

    def __init__(self, sentence, **first):
        if not isinstance(sentence, Sentence) or not all(isinstance(token, str) for token in sentence.tokens):
            raise TypeError(f"sentence must be a Sentence with str tokens, got {type(sentence).__name__}: {sentence!r}")
        tokens, embeddings = list(sentence.tokens), sentence.embeddings
        check_tensor("sentence.embeddings", embeddings, (2,), "(num_tokens, d_in)")
        if not 1 <= len(tokens) <= 8 or len(tokens) != len(embeddings):
            got = f"{len(tokens)} tokens and embeddings {tuple(embeddings.shape)}"
            raise ValueError(f"sentence must have 1 to 8 tokens and an embedding for each, got {got}")
        if not embeddings.isfinite().all():
            raise ValueError(f"sentence.embeddings must be finite, got {embeddings!r}")
        self.tokens, self.embeddings = tokens, embeddings.detach().float().cpu()  # (num_tokens, d_in)
        super().__init__(**first)


def nearest(options, value):
    """The largest option that isn't above a value, or else the first."""
    return max((option for option in options if option <= value), default=options[0])


def answer_quietly(control):
    """Handle a control's messages without triggering the events that mark the end of a cell.

    ipykernel triggers them after each message, on the message's thread, and at a cell's end matplotlib's inline backend
    closes all pyplot figures. A cell that is drawing with pyplot at that moment would lose its figure.
    """
    if control.comm is not None:
        control.comm.handle_msg = control._handle_msg


def check_value(name, control, value, options=None):
    """ValueError for a value that a control can't take; a slider itself would silently clip it.

    options: those of a control that others give them; by default the control's own.
    """
    if options is None and hasattr(control, "options"):
        options = [option for _, option in control._options_full]
    if options is not None:
        fits = type(value) in map(type, options) and value in options  # True == 1, too
        rule = f"one of {', '.join(map(str, options))}"
        if isinstance(options, range):
            rule = f"from {options[0]} to {options[-1]} in steps of {options.step}"
    elif hasattr(control, "min"):
        kinds = (int,) if isinstance(control.value, int) else (int, float)
        fits = type(value) in kinds and control.min <= value <= control.max
        rule = f"from {control.min:g} to {control.max:g} in steps of {control.step:g}"
    else:
        kind = type(control.value)
        fits, rule = type(value) is kind, "a string" if kind is str else "True or False"
    if not fits:
        raise ValueError(f"{name} must be {rule}, got {value!r}")


class Markup(str):
    """A readout that is already HTML; all others are plain text."""


def marked(text):
    """Text as Markup: what's between backticks becomes code."""
    return text if isinstance(text, Markup) else Markup(re.sub("`([^`]*)`", r"<code>\1</code>", html.escape(text)))


def plain(text):
    """Text or Markup without tags."""
    return html.unescape(re.sub("<[^>]*>", "", marked(text)))


def table(rows):
    """Readouts as an HTML table of names and texts."""
    head = '<tr><th scope="row" style="text-align:left;vertical-align:top;padding-right:1em">'
    cells = [f"{head}{html.escape(name)}</th><td>{marked(text)}</td></tr>" for name, text in rows.items()]
    return f"<table><tbody>{''.join(cells)}</tbody></table>" if cells else ""

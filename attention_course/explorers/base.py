"""What all explorers share: controls, and one view that shows message, headline, picture and readouts."""

import html
import re
import threading
from pathlib import Path
from types import SimpleNamespace

import anywidget
import ipywidgets as widgets
import torch
from traitlets import Bool, Int, Unicode

from attention_helpers.checks import check_tensor
from attention_helpers.sentences import Sentence

from .controls import answer_quietly, check_value, make_compact, nearest, options_of, shown_value
from .still import draw_still
from .svg import draw_live
from .words import Markup, mark_code, plain, table

PAGE = (
    '<div class="attention-headline"><span>{}</span></div>'
    '<div class="attention-page">{}<div class="attention-readouts">{}</div></div>'
)


class State(SimpleNamespace):
    """An explorer's values and what it has computed from them, by name; its `compute` says what each is."""

    def _replace(self, **values):
        return State(**vars(self) | values)


class View(anywidget.AnyWidget):
    """What the page shows of an explorer; picture.js says when it wants the next picture, or is touched."""

    _esm = Path(__file__).with_name("picture.js")
    _css = Path(__file__).with_name("picture.css")
    html = Unicode().tag(sync=True)  # headline, picture and readouts: one message, so that they change together
    message = Unicode().tag(sync=True)
    playing = Bool().tag(sync=True)
    pace = Int(250).tag(sync=True)  # milliseconds per picture, at least


class Explorer(widgets.VBox):
    """Controls on top; below them a headline, a picture and readouts, all computed from the controls' values.

    A subclass keeps three things apart: the controls, what is computed from their values, and how that is shown, as a
    picture and in words. Only `make_controls` knows about widgets. It has:

    - make_controls(): the controls by name, in their initial state
    - compute(**values): what is shown, by name, which depends only on the controls' values and becomes a State with
      them; or a complete state. ValueError for an impossible one
    - picture(arrays): rows (lists) of Drawings, whose sizes are the same in every state
    - headline(arrays): one sentence on what you see, with its numbers, as text or Markup
    - readouts(arrays): what neither says, in a table below the picture, as text or Markup by name; or Markup

    Explorer(name=value, ...) gives the first state, to which Reset leads back, and explorer.set(name=value, ...) moves
    controls from code, and what can be touched in the picture. Both raise ValueError for an unknown control, a value
    that it can't take or an impossible state, and then nothing changes. explorer.values holds the controls' values,
    explorer.arrays what was computed from them.
    """

    plays = None  # the name of a slider of stops that a Play button moves
    touches = {}  # noqa: RUF012  # values that only touching the picture, or set, changes: by name, the first

    def __init__(self, **first):
        self._lock = threading.RLock()  # callbacks can run on a second thread while a cell calls set
        self._moving = False  # whether we move the controls ourselves
        self.controls, self.view = self.make_controls(), View()
        self.shown = self.values | self.touches
        self._tooltips = {name: control.tooltip for name, control in self.controls.items()}
        reset = widgets.Button(description="Reset", icon="undo", tooltip="Back to the first state")
        reset.add_class("attention-reset")
        reset.on_click(lambda _: self._try(**self._first))
        for control in self.controls.values():
            make_compact(control)
            control.observe(self._moved, names="value")
        self.view.on_msg(self._heard)
        super().__init__([*self.arranged(reset), self.view])
        answer_quietly(self)
        self.add_class("attention-explorer")
        self.add_class(type(self).__name__)  # tells several explorers on a page apart
        self.wanted = self.shown  # what isn't possible now returns when it is
        self._first = self.wanted | self.checked(first)
        self.begin()

    def begin(self):
        """Show the first state."""
        self.update(**self._first)

    def play_button(self):
        """A button that lets the page ask for picture after picture."""
        button = widgets.ToggleButton(tooltip="Picture after picture", layout={"width": "80px"})
        widgets.link((button, "value"), (self.view, "playing"))
        widgets.dlink((button, "value"), (button, "description"), lambda playing: "Pause" if playing else "Play")
        widgets.dlink((button, "value"), (button, "icon"), lambda playing: "pause" if playing else "play")
        return button

    def arranged(self, reset):
        """What's above the picture: controls and buttons in a row, or in as many as they need."""
        plays = [self.play_button()] if self.plays else []
        return [widgets.HBox([*self.controls.values(), *plays, reset])]

    def choices(self, values):
        """Options, by name, for controls whose options depend on other values; each control after those it needs."""
        return {}

    def note(self, wanted, values):
        """The message for a state; `wanted` differs from `values` where a wanted value isn't possible."""
        return ""

    def readouts(self, arrays):
        return {}

    def unused(self, values):
        """By name, why a control does nothing in a state, in a few words: it's greyed out, and they're beside it."""
        return {}

    values = property(lambda self: {name: control.value for name, control in self.controls.items()})
    message = property(lambda self: self.view.message)

    def set(self, **values):
        """Move controls from code: all of them, or none if one value is refused."""
        with self._lock:
            self.update(**self.checked(values))

    def checked(self, values):
        """The same values, or ValueError for one that its control can't take in the state that they ask for."""
        wanted, follow = self.wanted | values, self.choices(self.wanted).keys()
        named = [name for name in values if name not in self.touches]
        for name in sorted(named, key=follow.__contains__):  # what others depend on comes first
            if name not in self.controls:
                raise ValueError(f"name must be one of {', '.join(self.controls)}, got {name!r}")
            options = self.choices(wanted)[name] if name in follow else None
            check_value(name, self.controls[name], values[name], options)
        return values

    @torch.no_grad()
    def update(self, **moved):
        """Show the possible state nearest to the one with these values; ValueError if there's none: nothing changes."""
        with self._lock:
            wanted = self.wanted | moved
            values = wanted | {name: nearest(options, wanted[name]) for name, options in self.choices(wanted).items()}
            computed = self.compute(**values)
            self.draw(State(**values | computed) if isinstance(computed, dict) else computed)
            self.wanted, self.shown, self._moving = wanted, values, True
            try:
                self._move_controls(values)
            finally:  # an interrupt may come in between, and must not leave the controls deaf
                self._moving = False
            self.view.message = f"<span>{html.escape(note)}</span>" if (note := self.note(wanted, values)) else ""

    def _move_controls(self, values):
        offered, unused = self.choices(values), self.unused(values)
        for name, control in self.controls.items():
            if name in offered and options_of(control) != list(offered[name]):
                # Old and new options have this place. From another, a page may move the slider itself, and send that.
                control.index = 0
                control.options = list(offered[name])
            control.value = values[name]
            control.disabled = name in unused
            control.tooltip = unused.get(name, self._tooltips[name])

    def _moved(self, change):
        """A learner moved a control."""
        with self._lock:  # a second thread waits; on the same thread, `update` is at work
            if not self._moving:
                [name] = [name for name, control in self.controls.items() if control is change["owner"]]
                self._try(**{name: change["new"]})

    def _try(self, **moved):
        """Show a new state, or explain why it isn't possible; then the picture, of another one, stays dimmed."""
        try:
            self.update(**moved)
        except ValueError as error:
            self.refuse(error)

    def refuse(self, error):
        self.view.message = f'<span class="attention-refused">⚠ {mark_code(str(error))}</span>'

    def _heard(self, view, content, buffers):
        """What the page says; it waits for the answer before it says more."""
        try:
            with self._lock:
                if content.get("next") and view.playing:
                    self.next_picture()
                elif "touch" in content:
                    name, place = content.pop("touch").split()
                    self.touched(name, place, **content)
        finally:
            view.send("heard")

    def next_picture(self):
        """Move the slider that plays by one, from its end to its start; at the end it stops."""
        control = self.controls[self.plays]
        control.index = (control.index + 1) % len(control.options)
        self.view.playing = control.index < len(control.options) - 1

    def touched(self, name, place, **how):
        """The picture was touched where it has data-touch="name place": that chooses a control's value."""
        if name in self.controls and not self.controls[name].disabled:
            self._try(**{name: int(place)})

    def draw(self, arrays):
        """Show arrays in the picture and in words, but not in the controls, which the learner may be moving."""
        self.said, rows, readouts = self.headline(arrays), self.picture(arrays), self.readouts(arrays)
        self.readout = readouts if isinstance(readouts, Markup) else table(readouts)
        words = [part.words for row in rows for part in row if part.words]
        self.alt = " ".join([f"{plain(self.said).rstrip('.')}.", *words])
        self.svg = draw_live(rows, self.alt)
        self.arrays, self._rows = arrays, rows
        said = re.sub("“[^ “”]+ [^ “”]+”", r'<span style="white-space:nowrap">\g<0></span>', mark_code(self.said))
        self.view.html = PAGE.format(said, self.svg, self.readout)

    def ghosts(self):
        """What a stored picture shows of the controls: their names, and what they stand at."""
        return {control.description: shown_value(control) for control in self.controls.values()}

    def _repr_mimebundle_(self, **kwargs):
        """The live widget, plus a static picture on white and a line of text for places without widgets."""
        return super()._repr_mimebundle_(**kwargs) | {
            "image/svg+xml": draw_still(self._rows, self.alt, plain(self.said), self.ghosts()),
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

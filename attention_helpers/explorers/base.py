"""What all explorers share: controls, a picture that follows them, readouts, and a line that explains."""

import base64
import html
import threading
from collections import OrderedDict
from contextlib import contextmanager

import ipywidgets as widgets

from ..canvas import Canvas

KEPT_BACKGROUNDS = 8  # pictures of other shapes come back at once, and memory stays bounded


class Explorer(widgets.VBox):
    """Controls on top, under them the picture, readouts and message that follow from the controls' values.

    A subclass has three parts that never mix: `make_controls` (ipywidgets, by name), `compute` (from values to a named
    tuple of arrays, by the layers that the lesson shows; its ValueError explains an impossible state), and the
    picture: `make_figure` for what stands still, `paint` for what moves, `in_words` and `readouts` for who reads.

    explorer.set(name=value, ...) moves controls from code; explorer.values holds the controls' values, explorer.arrays
    what was computed from them. Shapes and units: see each explorer's arrays, each control's label.
    Errors: `set` raises ValueError for a control that there is not or a value that it cannot take, and changes nothing.
    """

    def __init_subclass__(cls):
        """What the explorers of one class share, so that a cell run again need not draw its background again."""
        cls._lock = threading.RLock()  # callbacks may come on a second thread while a cell calls set
        cls._backgrounds = OrderedDict()

    def __init__(self):
        self._held = False
        self._shown = None
        self.arrays, self.png, self.alt, self.readout = None, b"", "", ""
        self.controls = self.make_controls()
        self._first = self.values
        self.picture, self.message = widgets.HTML(), widgets.HTML()
        reset = widgets.Button(description="Reset", icon="undo", tooltip="Back to the first state")
        reset.on_click(lambda _: self.set(**self._first))
        for control in self.controls.values():
            control.style.description_width = "initial"  # as wide as its text, which is else cut off
            control.observe(self._moved, names="value")
        for control in (*self.controls.values(), reset):
            answer_quietly(control)
        row = [*self.controls.values(), reset, *self.make_extras()]
        rows = widgets.HBox(row, layout=widgets.Layout(flex_flow="row wrap"))
        super().__init__([rows, self.message, self.picture])
        with self._lock:
            with self._settling():
                self.adjust(None)
            self._redraw("")

    def make_extras(self):
        """Widgets that move controls and hold no value of their own."""
        return []

    @property
    def values(self):
        """The controls' values, by name."""
        return {name: control.value for name, control in self.controls.items()}

    def set(self, **values):
        """Move controls from code, all at once."""
        with self._lock:
            before = self.values
            with self._settling():
                try:
                    for name, value in values.items():
                        self._put(name, value)
                        self.adjust(name)
                    for name, value in values.items():
                        if self.controls[name].value != value:
                            raise ValueError(f"{name} cannot be {value!r} together with {self.values}")
                except ValueError:
                    for name, value in before.items():
                        self._put(name, value)
                        self.adjust(name)
                    raise
            self._redraw("")

    def adjust(self, moved):
        """Bring other controls in line after the one named `moved` (None: at the start); return what to say."""
        return ""

    def _put(self, name, value):
        if name not in self.controls:
            raise ValueError(f"name must be one of {', '.join(self.controls)}, got {name!r}")
        control = self.controls[name]
        try:
            control.value = value
        except Exception as error:  # traitlets' own errors name neither the control nor its range
            raise ValueError(f"{name} must be {allowed(control)}, got {value!r}") from error
        if control.value != value:  # a slider clips silently
            raise ValueError(f"{name} must be {allowed(control)}, got {value!r}")

    @contextmanager
    def _settling(self):
        """Controls that move in here draw nothing."""
        self._held = True
        try:
            yield
        finally:
            self._held = False

    def _moved(self, change):
        with self._lock:  # a second thread waits; the same thread is `set` or `adjust` at work
            if self._held:
                return
            [name] = [name for name, control in self.controls.items() if control is change["owner"]]
            with self._settling():
                note = self.adjust(name)
            self._redraw(note)

    def _redraw(self, note):
        """Compute and show the present state, once; an impossible one is explained, and the last picture stays."""
        values = self.values
        if values != self._shown:
            try:
                arrays = self.compute(**values)
            except ValueError as error:
                self.message.value = f'<span role="status">⚠ {html.escape(str(error))}</span>'
                return
            canvas = self._canvas(arrays)
            canvas.start()
            self.paint(canvas, arrays)
            self.arrays, self.png, self.alt, self._shown = arrays, canvas.png(), self.in_words(arrays), values
            self._width, height = canvas.size
            self.readout = table(self.readouts(arrays))
            # one message: the picture and its numbers change together, and sooner than by two
            self.picture.value = self._image(self._width, height) + self.readout
        self.message.value = f'<span role="status">{html.escape(note)}</span>' if note else ""

    def _canvas(self, arrays):
        """The background for pictures of this kind and shape, drawn once."""
        key = self.background_of, self.shape_of_picture(arrays)
        if key not in self._backgrounds:
            self._backgrounds[key] = Canvas(self.make_figure(arrays))
        self._backgrounds.move_to_end(key)
        while len(self._backgrounds) > KEPT_BACKGROUNDS:
            self._backgrounds.popitem(last=False)
        return self._backgrounds[key]

    @property
    def background_of(self):
        """What else the background depends on: the sentence."""
        return tuple(self.tokens), self.embeddings.numpy().tobytes()

    def _image(self, width, height):
        source = base64.b64encode(self.png).decode()
        style = f"width:{width}px;max-width:100%;height:auto;aspect-ratio:{width}/{height}"
        return f'<img alt="{html.escape(self.alt)}" style="{style}" src="data:image/png;base64,{source}">'

    def shape_of_picture(self, arrays):
        """What decides the figure's axes and labels: states with the same answer share a background."""
        return None

    def _repr_mimebundle_(self, **kwargs):
        """The live widget, and for places without one the picture and a line of text."""
        bundle = super()._repr_mimebundle_(**kwargs)
        bundle |= {
            "image/png": base64.b64encode(self.png).decode(),
            "text/plain": f"{type(self).__name__}: run this cell to move its sliders.",
        }
        return bundle, {"image/png": {"alt": self.alt, "width": self._width}}


def answer_quietly(control):
    """Let a control's messages end without the events that mark a cell's end.

    ipykernel sends them after each message, on a second thread if it came on one; at a cell's end, matplotlib's inline
    backend closes all of pyplot's figures. A cell that draws with pyplot meanwhile would lose its figure.
    """
    if control.comm is not None:
        control.comm.handle_msg = control._handle_msg


def allowed(control):
    """Say which values a control takes."""
    if hasattr(control, "options"):
        return f"one of {', '.join(str(value) for _, value in control._options_full)}"
    if hasattr(control, "min"):
        return f"from {control.min:g} to {control.max:g} in steps of {control.step:g}"
    return "True or False"


def table(rows):
    """Readouts as an HTML table: a name and a text each."""
    cells = "".join(
        f'<tr><th scope="row" style="text-align:left;padding-right:1em">{html.escape(name)}</th><td>{text}</td></tr>'
        for name, text in rows.items()
    )
    return f"<table>{cells}</table>"

"""The controls of explorers: how they are made, and which values they take."""

import ipywidgets as widgets
from traitlets import TraitError, validate


def slider(name, value, low, high, tooltip):
    """A slider for whole numbers."""
    return widgets.IntSlider(value, min=low, max=high, description=name, tooltip=tooltip)


class Stops(widgets.SelectionSlider):
    """A slider whose options can become fewer while the page, a moment behind, still moves among the former ones.

    An only option is there twice, because Colab doesn't draw a slider with nowhere to go.
    """

    @validate("options")
    def _validate_options(self, proposal):
        given = super()._validate_options(proposal)
        if len(self._options_full) == 1:
            self._options_full *= 2
        return given

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


def seed(value):
    return slider("seed", value, 0, 999, "From which everything random is drawn")


def dropout(name="dropout"):
    look = {"description": name, "tooltip": "The chance that a weight is dropped"}
    return widgets.FloatSlider(0.0, min=0, max=0.9, step=0.05, **look)


def listed(name, options, value, tooltip):
    return widgets.Dropdown(options=options, value=value, description=name, tooltip=tooltip)


def buttons(name, options, tooltip, **more):
    """A button for each option, of which one is pressed, at first the first."""
    return widgets.ToggleButtons(options=options, description=name, tooltip=tooltip, **more)


TRACK = 64  # pixels of a slider
LONG_TRACK = 130  # if it has many options
MANY = 30


def make_compact(control):
    """A control as wide as it needs to be, and as wide in each state, so that its neighbours keep their places."""
    control.style.description_width = "initial"  # a new style object would leak the old one
    control.layout.width = "auto"
    if isinstance(control, widgets.ToggleButtons):
        control.style.button_width = "auto"  # as wide as their labels
        control.add_class("widget-inline-hbox")  # only this widget lacks it: name to the left
    if isinstance(control, widgets.Checkbox):
        control.indent = False
    if isinstance(control, widgets.SelectionSlider):
        letters = max(len(label) for label, _ in control._options_full)
        track = LONG_TRACK if len(control._options_full) > MANY else TRACK
        control.layout.width = f"calc({len(control.description) + max(letters, 3)}ch + {track + 34}px)"


def options_of(control):
    """A control's options, each once."""
    return [*dict.fromkeys(option for _, option in getattr(control, "_options_full", []))]


def shown_value(control):
    """What a control stands at, in words."""
    if hasattr(control, "label"):
        return control.label
    if isinstance(control.value, bool):
        return "yes" if control.value else "no"
    return f"{control.value:g}" if hasattr(control, "min") else control.value


def answer_quietly(widget):
    """Handle the messages of a widget and of all in it without triggering the events that mark the end of a cell.

    ipykernel triggers them after each message, on the message's thread, and at a cell's end matplotlib's inline backend
    closes all pyplot figures. A cell that is drawing with pyplot at that moment would lose its figure.
    """
    if widget.comm is not None:
        widget.comm.handle_msg = widget._handle_msg
    for child in getattr(widget, "children", ()):
        answer_quietly(child)


def check_value(name, control, value, options=None):
    """ValueError for a value that a control can't take, and would clip; options: if others give them to the control."""
    kind = type(control.value)
    options = options or options_of(control)
    if options:
        fits = type(value) in map(type, options) and value in options  # True == 1, too
        rule = f"one of {', '.join(map(str, options))}"
        if isinstance(options, range):
            rule = f"from {options[0]} to {options[-1]} in steps of {options.step}"
    elif hasattr(control, "min"):
        fits = type(value) in (int, kind) and control.min <= value <= control.max
        rule = f"from {control.min:g} to {control.max:g} in steps of {control.step:g}"
    else:
        fits, rule = type(value) is kind, "a string" if kind is str else "True or False"
    if not fits:
        raise ValueError(f"{name} must be {rule}, got {value!r}")


def nearest(options, value):
    """The largest option that isn't above a value, or else the first."""
    return max((option for option in options if option <= value), default=options[0])

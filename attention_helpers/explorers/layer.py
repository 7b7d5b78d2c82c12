"""Notebooks 03 and 06: sliders for a layer that the learner typed, and verdicts on it."""

import html

import ipywidgets as widgets

from .. import plots
from ..any_layer.inspection import learners_code, look_at, try_out
from ..any_layer.signature import kinds_of, name_of
from ..seeded import seeded
from .base import Markup, SentenceExplorer, dropout, seed, slider
from .ink import NEUTRAL, largest
from .svg import Drawing, beside, text
from .svg_maps import colour_bar, head_maps, heatmap, strip

MOST_MAPS = 12
# For each kind of argument: its slider's initial, lowest and highest value, and its tooltip.
SLIDERS = {
    "d_out": (4, 1, 24, "The width of what comes out"),
    "head_dim": (2, 1, 8, "The width of one head"),
    "num_heads": (2, 1, 8, "How many heads"),
    "num_groups": (1, 1, 8, "How many heads the keys and values have"),
    "context_length": (8, 1, 12, "The most tokens that the layer is made for"),
}


class LayerExplorer(SentenceExplorer):
    """Sliders for your own class: all its attention maps, its influence map, and a list of verdicts.

    attention: a class or function that makes a layer from sizes with the usual names (d_in, d_out, num_heads, dropout,
    qkv_bias, context_length, ...); arguments: those that should stay fixed, and those with other names. The layer takes
    (1, num_tokens, d_in) or (num_tokens, d_in), and returns one row per token, alone or first in a tuple. sentence: a
    Sentence of 2 to 8 tokens; its width is d_in. Arrays: a LayerState. Verdicts are for eval mode.
    Errors: as in Explorer; TypeError for an argument that the class doesn't take, or that it needs and we can't guess;
    ValueError with the line of an error in the class. If a slider causes an error, it's shown and the picture stays.
    """

    def __init__(self, attention, sentence, **arguments):
        self.attention, self.arguments = attention, arguments
        self.kinds = kinds_of(attention, arguments)
        super().__init__(sentence)

    def make_controls(self):
        if len(self.tokens) < 2:
            raise ValueError(f"sentence must have at least 2 tokens, because one has no future, got {self.tokens!r}")
        controls = {}
        for name, (kind, default) in self.kinds.items():
            if kind == "dropout":
                controls[name] = dropout(name)
            elif kind == "flag":
                controls[name] = widgets.Checkbox(default is True, description=name, tooltip="Yes or no")
            elif kind in SLIDERS:
                controls[name] = slider(name, *SLIDERS[kind])
            control = controls.get(name)
            if kind != "flag" and control and isinstance(default, (int, float)) and default <= control.max:
                control.value = default
        controls["training"] = widgets.Checkbox(True, description="training", tooltip="train(), or eval()")
        controls["seed"] = seed(123)
        self.find_first_state(controls)
        return controls

    def find_first_state(self, controls):
        """Start with a number of heads that the class accepts: its default or two if possible, else one or three."""
        [name] = [name for name, (kind, _) in self.kinds.items() if kind == "num_heads"] or [None]
        values, errors = {name: control.value for name, control in controls.items()}, []
        for num_heads in dict.fromkeys([values.get(name), 1, 3] if name else [None]):
            if name:
                values[name] = controls[name].value = num_heads
            try:
                return try_out(self.layer_of(**values), self.embeddings, values["seed"])
            except ValueError as error:
                errors.append(error)
        raise errors[0]

    def layer_of(self, training, seed, **values):
        """The layer that the class makes from the controls' values."""
        widths = {name: self.embeddings.shape[1] for name, (kind, _) in self.kinds.items() if kind == "d_in"}
        with learners_code():
            layer = seeded(self.attention, seed, **widths | values | self.arguments)
        if not callable(layer):
            raise ValueError(f"{name_of(self.attention)} must make a layer that can be called, got {layer!r}")
        return layer

    def compute(self, training, seed, **values):
        heads = [value for name, value in values.items() if self.kinds[name][0] == "num_heads"]
        return look_at(self.layer_of(training, seed, **values), self.embeddings, seed, training, *heads)

    def picture(self, state):
        maps, shown = state.maps[:MOST_MAPS], state.shown[:MOST_MAPS]
        most = largest(state.influence)
        title = "influence, in eval()" if state.judged else "influence: it is random"
        named = {"labels": ("row", "poked token"), "tell": "poking {1} moves {0} by"}
        influence = heatmap(
            state.influence, self.tokens, self.tokens, title, side=230, limit=most, ink=NEUTRAL, **named
        )
        width = state.context.shape[1]
        each = -(-width // max(1, len(maps)))
        owners = [n // each for n in range(width)]
        context = strip(state.context, self.tokens, owners, "context", width=620, height=130)
        return [[self.drawn_maps(maps, shown), beside(influence, colour_bar(most, NEUTRAL, height=230))], [context]]

    def drawn_maps(self, maps, shown):
        (width, height), bar = (420, 314), colour_bar(height=200)
        if not len(maps):
            words = text(width / 2, height / 2, "no attention map was found", size=14)
            return beside(Drawing(words, width, height), bar)
        taken = (shown == 0) & (maps > 0)
        return head_maps(shown, self.tokens, 1.0, (maps == 0).all(dim=0), taken, width, height, bar=bar)

    def headline(self, state):
        return ""

    def readouts(self, state):
        more = f" (the first {MOST_MAPS} are shown)" if len(state.maps) > MOST_MAPS else ""
        trace, width = html.escape(state.operations), state.context.shape[1]
        return state.verdicts | {
            "attention maps": f"{len(state.maps)}{more}{': ' * bool(state.found)}{'; '.join(state.found)}",
            "marks": "hatched: no weight from the start; ×: taken away before values are mixed, as by dropout",
            "context": "blue below 0, red above",
            "given, returned": f"{state.given}, {width} numbers a token; {state.parameters} parameters",
            "every operation": Markup(f"<details><summary>the trace</summary><pre>{trace}</pre></details>"),
        }

    def in_words(self, state):
        said = " ".join(f"{name.capitalize().strip('?')}: {words}." for name, words in state.verdicts.items())
        maps = " ".join(
            f"Map {n}, largest weights: {plots.strongest(shown, self.tokens, self.tokens)}."
            for n, shown in enumerate(state.shown[:MOST_MAPS], 1)
        )
        moves = zip(self.tokens, state.influence[:, -1].tolist(), strict=True)
        poked = ", ".join(f"{token} {move:.2f}" for token, move in moves)
        count = f"{len(state.maps)} attention map{'s' * (len(state.maps) != 1)}."
        return f"{count} {maps} {said} Poking {self.tokens[-1]} moves the rows by {poked}."

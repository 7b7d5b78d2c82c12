"""Notebooks 03 and 06: sliders for a layer that the learner typed, and verdicts on it."""

import gc
import html

import ipywidgets as widgets

from attention_course.build import build_layer

from ..any_layer.calling import Unsuited, learners_code
from ..any_layer.inspection import look_at
from ..any_layer.signature import kinds_of, name_of, with_sizes
from ..any_layer.verdicts import headline
from .base import PAGE, Markup, SentenceExplorer, dropout, marked, seed, slider, stops
from .layer_picture import MOST_MAPS, attention_maps, influence, refusal, result, verdict_list
from .svg import below, live

# For each kind of argument: its slider's initial, lowest and highest value, and its tooltip.
SLIDERS = {
    "d_out": (4, 1, 24, "The width of what comes out"),
    "head_dim": (2, 1, 8, "The width of one head"),
    "num_heads": (2, 1, 8, "How many heads"),
    "num_groups": (1, 1, 8, "How many heads the keys and values have"),
    "context_length": (8, 1, 12, "The most tokens that the layer is made for"),
}


class LayerExplorer(SentenceExplorer):
    """Sliders for your own class: verdicts on it, all its attention maps, its influence map, and what it returns.

    attention: a class or function that makes a layer from sizes with the usual names (d_in, d_out, num_heads, dropout,
    qkv_bias, context_length, ...), or from a config with such names; arguments: those that should stay fixed, and those
    with other names, where a list is for a slider. The layer's `forward` takes (1, num_tokens, d_in), (num_tokens,
    d_in) or (num_tokens, 1, d_in), once or as queries, keys, values and context, and returns one row per token, alone
    or with other tensors in a tuple, list or dict. sentence: a Sentence of 2 to 8 tokens; its width is d_in. Arrays: a
    LayerState; None until the class has run without an error. Verdicts are for eval mode, unless they say otherwise.
    Errors: as in Explorer; TypeError for an argument that the class doesn't take, or that it needs and we can't guess.
    If the class itself fails, the explorer shows the line.
    """

    def __init__(self, attention, sentence, **arguments):
        embeddings = getattr(sentence, "embeddings", None)
        if not arguments and getattr(embeddings, "ndim", 0) == 2:
            attention = with_sizes(attention, embeddings.shape[1])
        self.attention, self.arguments = attention, arguments
        self.kinds = kinds_of(attention, arguments)
        super().__init__(sentence)

    def make_controls(self):
        if len(self.tokens) < 2:
            raise ValueError(f"sentence must have at least 2 tokens, because one has no future, got {self.tokens!r}")
        controls = {}
        for name, (kind, default) in self.kinds.items():
            if kind == "flag":
                controls[name] = widgets.Checkbox(default is True, description=name, tooltip="Yes or no")
            elif kind == "choice":
                controls[name] = stops(name, self.arguments[name], default, "Your own values")
            elif kind in ("dropout", *SLIDERS):
                controls[name] = dropout(name) if kind == "dropout" else slider(name, *SLIDERS[kind])
                if isinstance(default, (int, float)) and default <= controls[name].max:
                    controls[name].value = default
        controls["training"] = widgets.Checkbox(True, description="training", tooltip="train(), or eval()")
        controls["seed"] = seed(123)
        for name in self.named("num_heads"):
            controls[name].value = self.first_heads(name, controls)
        return controls

    def named(self, *kinds):
        return [name for name, (kind, _) in self.kinds.items() if kind in kinds]

    def first_heads(self, name, controls):
        """How many heads to begin with: what the class has by default, or two, or what divides the width.

        Heads of width 1 would hide faults, because there each scale is right, and so would a single head.
        """
        wanted = controls[name].value
        if self.named("head_dim"):
            return wanted
        width = min([controls[each].value for each in self.named("d_out")] or [self.embeddings.shape[1]])
        fits = [n for n in range(wanted, 1, -1) if width % n == 0 and n < width]
        return next(iter(fits), width if 1 < width <= controls[name].max else wanted)

    def layer_of(self, training, seed, **values):
        """The layer that the class makes from the controls' values."""
        widths = dict.fromkeys(self.named("d_in"), self.embeddings.shape[1])
        with learners_code():
            layer = build_layer(self.attention, seed, **self.arguments | widths | values)
        if not callable(layer):
            raise ValueError(f"{name_of(self.attention)} must make a layer that can be called, got {layer!r}")
        return layer

    def compute(self, **values):
        return look_at(self.layer_of(**values), self.embeddings, values["seed"], values["training"], self.tokens)

    def headline(self, state):
        return headline(state.verdicts, name_of(self.attention))

    def picture(self, state):
        left = below(verdict_list(state.verdicts), attention_maps(state, self.tokens))
        return [[left, below(influence(state, self.tokens), result(state, self.tokens))]]

    def readouts(self, state):
        more = f", the first {MOST_MAPS} are shown" if len(state.maps) > MOST_MAPS else ""
        maps = marked(f"{len(state.maps)} attention map{'s' * (len(state.maps) != 1)}{more}")
        trace = html.escape(state.operations)
        return {"layer": Markup(f"<details><summary>{state.size}</summary>{maps}<pre>{trace}</pre></details>")}

    def _begin(self):
        """Show the first state; if the class fails, its line."""
        try:
            super()._begin()
            gc.collect()  # else Python does it while a slider moves, for 0.1 s
        except ValueError as error:
            self.arrays, self.alt, self.readout = None, str(error), ""
            self.said = f"{name_of(self.attention)} has no picture yet"
            self._rows, self.svg = [[refusal(str(error))]], live([], str(error))
            self.view.value = PAGE.format(marked(self.said), self.svg, self.readout)
            fix = "" if isinstance(error, Unsuited) else ". Fix it, and run the cell again"
            self._refuse(ValueError(f"{str(error).rstrip('.')}{fix}"))

"""Notebooks 03 and 06: sliders for a layer that the learner typed, and verdicts on it."""

import gc
import html
import itertools
from contextlib import suppress

import ipywidgets as widgets
import torch
from IPython import get_ipython

from ..build import build_layer
from ..judge.calling import Call, Unsuited, learners_code
from ..judge.inspection import look_at, look_elsewhere
from ..judge.sizes import kinds_of, name_of, with_sizes
from ..judge.verdicts import headline
from .base import PAGE, SentenceExplorer
from .controls import dropout, seed, slider, stops
from .layer_picture import MOST_MAPS, draw_influence_map, draw_layer_maps, draw_refusal, draw_result, draw_verdicts
from .svg import draw_live, in_column
from .words import Markup, mark_code

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
        self.typed, self.attention, self.arguments = attention, attention, arguments
        if not arguments and getattr(getattr(sentence, "embeddings", None), "ndim", 0) == 2:
            self.attention = with_sizes(attention, sentence.embeddings.shape[1])
        self.kinds = kinds_of(self.attention, arguments)
        self.found_elsewhere = {}
        self.size = {kind: name for name, (kind, _) in self.kinds.items()}
        self.judged = getattr(attention, "func", attention)  # of a partial, its class
        shell = get_ipython()
        is_typed = shell and shell.user_ns.get(name_of(attention)) is self.judged
        self.names = shell.user_ns if is_typed else {}  # the notebook's
        super().__init__(sentence)
        if is_typed:
            shell.events.register("post_run_cell", self.look_again)

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
        for name, value in self.first_sizes({name: each.value for name, each in controls.items()}).items():
            controls[name].value = value
        if width := self.shared_width():
            first = controls[width]
            controls[width] = stops(width, range(first.min, first.max + 1), first.value, first.tooltip)
        training = widgets.Checkbox(True, description="training", tooltip="train(), or eval()")
        return controls | {"training": training, "seed": seed(123)}

    def shared_width(self):
        """The name of the width that the heads share, if there is one."""
        if "num_heads" in self.size and "head_dim" not in self.size:
            return self.size.get("d_out")

    def choices(self, values):
        """Only widths that the heads can share evenly."""
        if not (width := self.shared_width()):
            return {}
        heads = values[self.size["num_heads"]]
        return {width: range(heads, SLIDERS["d_out"][2] + 1, heads)}

    def note(self, wanted, values):
        width = self.shared_width()
        if not width or wanted[width] == values[width]:
            return ""
        heads = values[self.size["num_heads"]]
        return f"{width} is {values[width]} for now: {heads} heads can't share {wanted[width]} evenly."

    def first_sizes(self, values):
        """Begin with two heads or the class's own number, or what divides the width; with others if it refuses those.

        Heads of width 1 would hide faults, because there each scale is right, and so would a single head. We only try
        others where what we chose ourselves may be refused: odd heads, and keys' heads that don't divide the others.
        """
        size = self.size
        width = values.get(size.get("d_out"), self.embeddings.shape[1])
        heads = values.get(size.get("num_heads"), 1)
        if "num_heads" in size and "head_dim" not in size:
            fits = [n for n in range(heads, 1, -1) if width % n == 0 and n < width]
            heads = next(iter(fits), width if 1 < width <= 8 else heads)
            values[size["num_heads"]] = heads
        head_dim = values.get(size.get("head_dim"), width / heads)
        if head_dim % 2 == 0 and heads % values.get(size.get("num_groups"), 1) == 0:
            return values
        others = {"num_heads": [2, 1], "num_groups": [1], "head_dim": [2, 4], "d_out": [4, 8]}
        options = {size[kind]: [values[size[kind]], *sizes] for kind, sizes in others.items() if kind in size}
        tried = (values | dict(zip(options, sizes, strict=True)) for sizes in itertools.product(*options.values()))
        return next((each for each in tried if self.runs(self.embeddings, each)), values)

    def runs(self, x, values, attention=None):
        """Whether a layer of these sizes can be made and called."""
        with suppress(ValueError), learners_code(), torch.no_grad():
            Call(self.layer_of(0, attention, x.shape[1], **values), x)
            return True
        return False

    def layer_of(self, seed, attention=None, width=None, **values):
        """The layer that the class makes from the controls' values."""
        widths = {name: width or self.embeddings.shape[1] for name, (kind, _) in self.kinds.items() if kind == "d_in"}
        with learners_code():
            layer = build_layer(attention or self.attention, seed, **self.arguments | widths | values)
        if not callable(layer):
            raise ValueError(f"{name_of(self.attention)} must make a layer that can be called, got {layer!r}")
        return layer

    def compute(self, training, seed, **values):
        layer, twin, hint = self.specimen(seed, **values)
        elsewhere = self.elsewhere(values)
        return look_at(layer, self.embeddings, seed, training, self.tokens, twin, hint, elsewhere)

    def specimen(self, seed, attention=None, width=None, **values):
        """A layer, the same one with dropout if it has none, and how many heads it has, as far as its sizes say so."""
        layer = self.layer_of(seed, attention, width, **values)
        twin, rate = None, self.size.get("dropout")
        if values.get(rate) == 0:
            with suppress(ValueError):
                twin = self.layer_of(seed, attention, width, **values | {rate: 0.2})
        return layer, twin, values.get(self.size.get("num_heads"))

    def elsewhere(self, values):
        """What's found at other sizes, no two of which are equal, so that none can be taken for another."""
        key = tuple(values.get(name) for name, (kind, _) in self.kinds.items() if kind in ("flag", "choice"))
        if key not in self.found_elsewhere:
            self.found_elsewhere[key] = None
            for width, num_tokens, sizes in self.other_sizes(values):
                attention = self.attention if self.attention is self.typed else with_sizes(self.typed, width)
                x = 1.5 * torch.randn(num_tokens, width, generator=torch.Generator().manual_seed(7))
                with suppress(ValueError):
                    found = look_elsewhere(x, *self.specimen(0, attention, width, **sizes))
                    if found:
                        self.found_elsewhere[key] = found
                        break
        return self.found_elsewhere[key]

    def other_sizes(self, values):
        """(width, how many tokens, sizes) to try."""
        groups = "num_groups" in self.size
        sizes = {
            "num_heads": 6 if groups else 3,
            "num_groups": 2,
            "head_dim": 4,
            "d_out": 24 if groups else 12,
            "context_length": 9,
        }
        chosen = values | {name: sizes[kind] for kind, name in self.size.items() if kind in sizes}
        d_out, here = sizes["d_out"], self.embeddings.shape[1]
        return [(d_out - 2, 7, chosen)] * ("d_out" in self.size) + [
            (d_out, 7, chosen),
            (here, 7, values),
            (here, 5, values),
        ]

    def is_replaced(self):
        """Whether the notebook has defined the class's name again, as another class."""
        return self.names.get(name_of(self.judged), self.judged) is not self.judged

    def look_again(self, result):
        """After each of the notebook's cells: it may have been the class's."""
        with self._lock:  # after what a second thread may be drawing
            if self.is_replaced():
                self.update()

    def update(self, **moved):
        """As in Explorer, but without a verdict on a class that's gone."""
        if not self.is_replaced():
            return super().update(**moved)
        said = f"{name_of(self.judged)} was defined again after this cell ran"
        self.show_words(said, said, "Run this cell again, and you'll see the new one.")

    def headline(self, state):
        return headline(state.verdicts, name_of(self.attention))

    def picture(self, state):
        left = in_column(draw_verdicts(state.verdicts), draw_layer_maps(state, self.tokens))
        return [[left, in_column(draw_influence_map(state, self.tokens), draw_result(state, self.tokens))]]

    def readouts(self, state):
        more = f", the first {MOST_MAPS} are shown" if len(state.maps) > MOST_MAPS else ""
        maps = mark_code(f"{len(state.maps)} attention map{'s' * (len(state.maps) != 1)}{more}")
        trace = html.escape(state.operations)
        return {"layer": Markup(f"<details><summary>{state.size}</summary>{maps}<pre>{trace}</pre></details>")}

    def begin(self):
        """Show the first state; if the class fails, its line."""
        try:
            super().begin()
            gc.collect(1)  # the young ones: else Python does it while a slider moves
        except ValueError as error:
            self.show_words(f"{name_of(self.attention)} has no picture yet", str(error), self.advice(error))

    def show_words(self, said, words, advice):
        """Show words and advice in place of a picture, and neither verdicts nor arrays."""
        self.arrays, self.alt, self.readout, self.said = None, words, "", said
        self._rows, self.svg = [[draw_refusal(words)]], draw_live([], words)
        self.view.html = PAGE.format(mark_code(self.said), self.svg, self.readout)
        self.refuse(ValueError(advice))

    def advice(self, error):
        """What to do about an error in the first state: it's not the class's fault if it takes a wider sentence."""
        if isinstance(error, Unsuited):
            return str(error)
        wide, width = torch.eye(len(self.tokens), 8), self.embeddings.shape[1]
        first = {"num_heads": 2, "num_groups": 1, "head_dim": 4, "d_out": 8}
        sizes = {name: each.value for name, each in self.controls.items() if name not in ("training", "seed")}
        sizes |= {self.size[kind]: value for kind, value in first.items() if kind in self.size}
        with suppress(Exception):
            attention = self.attention if self.attention is self.typed else with_sizes(self.typed, 8)
            if self.runs(wide, sizes, attention):
                return f"no sizes that we tried suit tokens of width {width}, but width 8 runs. At {width}, {error}"
        return f"{str(error).rstrip('.')}. Fix it, and run the cell again"

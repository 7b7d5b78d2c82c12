"""Notebook 12: what published models keep of each token, in texts of any length."""

import math

from attention_course.published import describe_layer, model_cache_bytes

from .base import Explorer
from .chart import Chart, key_of
from .controls import listed, stops
from .svg import COLOURS, DASHES, PALE, TOP, line, tag, text

TEXT_LENGTHS = tuple(2**n for n in range(10, 21))  # 1,024 to 1,048,576
LAYER_KINDS = ("full", "sliding", "latent", "linear")  # of layers; a model's line looks like the last one that it has
TICKS = tuple(2**n for n in range(4, 11))  # KiB: 16 to 1,024
CHART_LEFT, CHART_RIGHT, LABELS, CHART_BOTTOM = 56, 520, 130, 320
NAMES_APART = 13  # of the models' names


class ModelsExplorer(Explorer):
    """Let a text grow, and see what each model's cache keeps per token; mark a model, or fade some kinds.

    models: rows of `published_models`.
    """

    def __init__(self, models, **first):
        self.models = {model["name"]: model for model in models}
        super().__init__(**first)

    def make_controls(self):
        names = [*self.models]
        fade = "Models with layers of this kind; the others fade"
        return {
            "model": listed("model", names, names[-1], "Whose line is marked"),
            "num_tokens": stops("num_tokens", TEXT_LENGTHS, 2**17, "The length of one text"),
            "kind": listed("show", ("all", *LAYER_KINDS), "all", fade),
        }

    def choices(self, values):
        """GPT-2's positions end."""
        most = self.models[values["model"]].get("learned_positions", TEXT_LENGTHS[-1])
        return {"num_tokens": [length for length in TEXT_LENGTHS if length <= most]}

    def note(self, wanted, values):
        said = f"num_tokens is {values['num_tokens']:,} for now: {values['model']} has no more positions."
        return "" if wanted["num_tokens"] == values["num_tokens"] else said

    def compute(self, model, num_tokens, kind):
        lengths = {name: self.choices({"model": name})["num_tokens"] for name in self.models}
        kept = {name: [model_cache_bytes(row, n) for n in lengths[name]] for name, row in self.models.items()}
        lit = {name for name, row in self.models.items() if kind == "all" or kind in layer_kinds(row)}
        row = self.models[model]
        layers = {describe_layer(layer, row)[0]: row | {"layers": [layer]} for layer in row["layers"]}
        parts = {layer: model_cache_bytes(part, num_tokens) for layer, part in layers.items()}
        return {"kept": kept, "lit": lit, "parts": parts, "total": sum(parts.values())}  # bytes, of the marked model

    def picture(self, state):
        ticks, names = {1024 * n: f"{n:,} KiB" for n in TICKS}, {n: f"{n:,}" for n in TEXT_LENGTHS[::2]}
        title, place = "what the layers keep, divided by num_tokens", (CHART_LEFT, CHART_RIGHT, TOP, CHART_BOTTOM)
        chart = Chart(title, place, names, ticks, math.log, (8, 8), per_token)
        chart.parts.append(chart.upright(state.num_tokens))
        ends = {name: kept[-1] / TEXT_LENGTHS[len(kept) - 1] for name, kept in state.kept.items()}
        above = 0  # where the name above is
        for name in sorted(ends, key=ends.get, reverse=True):
            kept, end = state.kept[name], chart.y(ends[name])
            drawn, look = self.line_of(name, chart, state), {"font_weight": "bold" if name == state.model else "normal"}
            if len(kept) == len(TEXT_LENGTHS):
                above = max(above + NAMES_APART, end)
                drawn += line(CHART_RIGHT - 8, end, CHART_RIGHT + 20, above, stroke="currentColor", stroke_opacity=0.4)
                drawn += text(CHART_RIGHT + 23, above + 4, name, "start", **look)
            else:
                drawn += text(chart.x(TEXT_LENGTHS[len(kept) - 1]), end + 18, name, "start", **look)
            chart.parts.append(tag("g", drawn, opacity="1" if name in state.lit or name == state.model else "0.2"))
        if faded := [name for name in state.kept if name not in state.lit | {state.model}]:
            chart.words.append(f"faded: {', '.join(faded)}")
        chart.parts.append(text((CHART_LEFT + CHART_RIGHT) / 2, CHART_BOTTOM + 30, "num_tokens", **PALE))
        names = [f"{kind} layers" + " and others" * (kind in ("sliding", "linear")) for kind in LAYER_KINDS]
        colours = dict(zip(names, COLOURS, strict=True))
        chart.parts.append(key_of(names, 4, CHART_BOTTOM + 48, CHART_RIGHT + LABELS, colours))
        return [[chart.finish(CHART_RIGHT + LABELS, CHART_BOTTOM + 54)]]

    def line_of(self, name, chart, state):
        """A model's line, and its point at the text's length, with its numbers and their source as a tooltip."""
        marked, kind = name == state.model, LAYER_KINDS.index(layer_kinds(self.models[name])[-1])
        kept = dict(zip(TEXT_LENGTHS, state.kept[name], strict=False))
        look = {"stroke": COLOURS[kind], "stroke_dasharray": DASHES[kind], "stroke_width": 3 if marked else 1.6}
        n = min(state.num_tokens, max(kept))
        said = f"{name}: {per_token(kept[n], n)} per token at {n:,} tokens"
        circle = {"cx": chart.x(n), "cy": chart.y(kept[n] / n), "r": 7 if marked else 4.5, "fill": COLOURS[kind]}
        dot = tag("circle", says=f"{said}. Source: {self.models[name]['source']}", **circle)
        return chart.curve([(n, count / n) for n, count in kept.items()], name, **look) + dot

    def headline(self, state):
        each, total = per_token(state.total, state.num_tokens), size_of(state.total)
        return f"At {state.num_tokens:,} tokens {state.model} keeps {each} per token, {total} in all"

    def readouts(self, state):
        n, parts = state.num_tokens, state.parts.items()
        said = {layer: f"{size_of(count)}, {per_token(count, n)} per token" for layer, count in parts}
        return said | {"source": self.models[state.model]["source"]}


def layer_kinds(model):
    return [kind for kind in LAYER_KINDS if any(kind in layer["kind"] for layer in model["layers"])]


def per_token(count, num_tokens=1):
    return f"{count / num_tokens / 1024:.3g} KiB"


def size_of(count):
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"

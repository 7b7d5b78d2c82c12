"""Notebook 09: what a layer costs, by formula."""

import math

from attention_helpers.costs import flops

from .base import Explorer
from .chart import costs
from .controls import stops
from .svg import COLOURS, Drawing, draw_title, tag, text
from .words import plural, size_in_words

COST_LENGTHS = tuple(2**n for n in range(5, 14))  # 32 to 8192
COST_WIDTHS, MOST_HEADS = (768, 1024, 1600, 2048, 4096, 8192), 64  # from GPT-2 small to models of 70 billion parameters
BYTES = {"float32": 4, "bfloat16": 2, "int8": 1}
SQUARE_SIDE, SQUARES_ROOM = 190, 330  # of the largest square, and the width of the drawing with all squares
KEYS_VALUES = "keys and values"


def divisors(number):
    return [n for n in range(1, MOST_HEADS + 1) if number % n == 0]


def table_bytes(num_tokens, num_heads, bytes):
    return num_heads * num_tokens**2 * bytes


def cache_bytes(num_tokens, width, bytes):
    return 2 * num_tokens * width * bytes


class CostExplorer(Explorer):
    """Change a layer's sizes and the bytes per number, and see where the FLOPs and the memory go."""

    def make_controls(self):
        width, heads = COST_WIDTHS[0], 12  # of GPT-2 small
        return {
            "num_tokens": stops("num_tokens", COST_LENGTHS, COST_LENGTHS[-1], "The length of one sentence"),
            "num_heads": stops("num_heads", divisors(width), heads, "How many heads share the width"),
            "width": stops("width", COST_WIDTHS, width, "The width of a token's vector before and after the layer"),
            "bytes": stops("dtype", BYTES.items(), 4, "The type of the stored numbers: 4, 2 or 1 bytes each"),
        }

    def choices(self, values):
        return {"num_heads": divisors(values["width"])}

    def note(self, wanted, values):
        asked, heads = wanted["num_heads"], values["num_heads"]
        return "" if asked == heads else f"{asked} doesn't divide the width {values['width']}: {heads} heads instead."

    def compute(self, num_tokens, num_heads, width, bytes):
        return {
            "operations": flops(num_tokens, width, width),  # by part of the layer
            "table": table_bytes(num_tokens, num_heads, bytes),
            "cache": cache_bytes(num_tokens, width, bytes),
            "parameters": bytes * (4 * width + 1) * width,  # four matrices, and out_proj's bias
        }

    def picture(self, state):
        return [[squares(state), self.memory(state)]]

    def memory(self, state):
        curves = {
            name_scores(state.num_heads): [table_bytes(n, state.num_heads, state.bytes) for n in COST_LENGTHS],
            KEYS_VALUES: [cache_bytes(n, state.width, state.bytes) for n in COST_LENGTHS],
        }
        least = cache_bytes(COST_LENGTHS[0], COST_WIDTHS[0] // MOST_HEADS, 1)
        ends = least, table_bytes(COST_LENGTHS[-1], MOST_HEADS, 4)
        return costs(curves, COST_LENGTHS, "memory by length", state.num_tokens, ends, 488)

    def headline(self, state):
        parts = [(state.table, f"the {name_scores(state.num_heads)}"), (state.cache, KEYS_VALUES)]
        (most, first), (least, second) = sorted(parts, reverse=True)
        return f"At {state.num_tokens:,} tokens {first} take {size_in_words(most)}, {second} {size_in_words(least)}"

    def readouts(self, state):
        n, each, total = f"{state.num_tokens:,}", state.bytes, sum(state.operations.values())
        quadratic = f"{(state.operations['scores'] + state.operations['context']) / total:.0%} of them"
        return {
            "FLOPs": f"{total / 1e9:,.2f} billion; {quadratic}, for scores and context, grow with num_tokens squared",
            "scores": f"{state.num_heads} × {n} × {n} × {each} bytes = {size_in_words(state.table)}",
            KEYS_VALUES: f"2 × {n} × {state.width:,} × {each} bytes = {size_in_words(state.cache)}",
        }


def squares(state):
    """Squares whose areas are bytes: the score matrices, and at their right keys and values, and the parameters."""
    parts = {name_scores(state.num_heads): state.table, KEYS_VALUES: state.cache, "parameters": state.parameters}
    table, cache, held = (math.sqrt(size) for size in parts.values())
    # The other two are one above the other, with their names.
    scale = min(SQUARE_SIDE / table, (SQUARE_SIDE - 40) / (cache + held))
    corners = [(0, 30), (SQUARE_SIDE + 14, 30), (SQUARE_SIDE + 14, 70 + scale * cache)]
    drawn = [draw_title("memory, to scale", SQUARES_ROOM)]
    for (name, size), (x, y), colour in zip(parts.items(), corners, (*COLOURS[:2], "none"), strict=True):
        side, words = scale * math.sqrt(size), f"{name}: {size_in_words(size)}"
        look = {"width": side, "height": side, "fill": colour, "stroke": "currentColor", "stroke_opacity": 0.5}
        drawn += [tag("rect", says=words, x=float(x), y=float(y), **look), text(x, y + side + 15, words, "start")]
    said = ", ".join(f"{name}: {size_in_words(size)}" for name, size in parts.items())
    return Drawing("".join(drawn), SQUARES_ROOM, SQUARE_SIDE + 50, f"memory, {said}.")


def name_scores(num_heads):
    return f"scores of {num_heads} {plural('head', num_heads)}"

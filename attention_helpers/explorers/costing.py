"""Notebook 08: what a layer costs, by a formula, beside what was measured."""

from typing import NamedTuple

import ipywidgets as widgets

from .. import frames
from ..beyond.costs import cache_bytes, flops, table_bytes
from .base import Explorer
from .words import size_in_words

LENGTHS = tuple(2**n for n in range(5, 14))  # 32 to 8192


class CostState(NamedTuple):
    """What the picture shows: operations by part, and bytes of float32, for one sentence."""

    num_tokens: int
    num_heads: int
    operations: dict
    table: int  # one table of scores for all heads
    cache: int  # keys and values


def count(width, num_tokens, num_heads):
    """From control values to numbers, for d_in = d_out = width."""
    operations = flops(num_tokens, width, width)
    return CostState(
        num_tokens, num_heads, operations, table_bytes(num_tokens, num_heads), cache_bytes(num_tokens, width)
    )


class CostExplorer(Explorer):
    """Change the number of tokens and heads, and see where the operations and the memory go.

    measured: bytes by number of tokens, by name, to stand beside the formula's curves: {"split": {512: 42467328}}.
    width: d_in = d_out. Arrays: a CostState. Units: operations, bytes. Errors: see Explorer.
    """

    def __init__(self, measured, width=768):
        self.measured, self.width = measured, width
        super().__init__()

    def make_controls(self):
        heads = [n for n in range(1, 49) if self.width % n == 0]
        first = 12 if 12 in heads else 1
        return {
            "num_tokens": widgets.SelectionSlider(options=LENGTHS, value=1024, description="num_tokens"),
            "num_heads": widgets.SelectionSlider(options=heads, value=first, description="num_heads"),
        }

    def compute(self, num_tokens, num_heads):
        return count(self.width, num_tokens, num_heads)

    @property
    def background_of(self):
        return self.width, tuple((name, *points.items()) for name, points in self.measured.items())

    def shape_of_picture(self, state):
        return state.num_heads

    def make_figure(self, state):
        figure, (left, right) = frames.row_figure((1, 1.35), width=9.4, height=3.6)
        frames.frame_bars(left, list(state.operations), (0, 1.18), "share of the operations")
        curves = {
            f"scores of {state.num_heads} heads": [table_bytes(n, state.num_heads) for n in LENGTHS],
            "keys and values": [cache_bytes(n, self.width) for n in LENGTHS],
        }
        frames.frame_powers(right, LENGTHS, curves, self.measured, "memory", "num_tokens", "bytes")
        return figure

    def paint(self, canvas, state):
        total = sum(state.operations.values())
        canvas.update_bars(0, [[part / total for part in state.operations.values()]])
        canvas.rule(1, LENGTHS.index(state.num_tokens), len(LENGTHS))

    def readouts(self, state):
        total = sum(state.operations.values())
        return {
            "operations": f"{total / 1e9:.2f} billion; {self.quadratic(state):.0%} grow with num_tokens squared",
            "one table of scores": f"{state.num_heads} × {state.num_tokens} × {state.num_tokens} numbers, "
            f"{size_in_words(state.table)}",
            "keys and values": size_in_words(state.cache),
            "measured, in all, with 12 heads": self.measured_at(state.num_tokens),
        }

    def quadratic(self, state):
        return (state.operations["scores"] + state.operations["context"]) / sum(state.operations.values())

    def in_words(self, state):
        total = sum(state.operations.values()) / 1e9
        return (
            f"At {state.num_tokens} tokens and {state.num_heads} heads one pass takes {total:.2f} billion operations, "
            f"{self.quadratic(state):.2f} of them on scores and context. One table of scores takes "
            f"{size_in_words(state.table)}, keys and values {size_in_words(state.cache)}. Measured in all, with 12 "
            f"heads: {self.measured_at(state.num_tokens)}."
        )

    def measured_at(self, num_tokens):
        there = {name: points[num_tokens] for name, points in self.measured.items() if num_tokens in points}
        return ", ".join(f"{name} {size_in_words(held)}" for name, held in there.items()) or "nothing at this length"

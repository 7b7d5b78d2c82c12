"""Notebook 08: what a layer costs, by formula and as measured."""

import math
from typing import NamedTuple

from ..fast.costs import cache_bytes, flops, table_bytes
from .base import Explorer, stops
from .svg import bars, lines
from .words import size_in_words

LENGTHS = tuple(2**n for n in range(5, 14))  # 32 to 8192


def place(num_tokens):
    """Where a length is on the axis, one step per doubling."""
    return math.log2(num_tokens / LENGTHS[0])


class CostState(NamedTuple):
    """What the picture shows: FLOPs by part, and bytes of float32, for one sentence."""

    num_tokens: int
    num_heads: int
    operations: dict
    table: int  # the score matrices of all heads
    cache: int  # keys and values


class CostExplorer(Explorer):
    """Change the number of tokens and heads, and see where the FLOPs and the memory go.

    measured: bytes by number of tokens, by name, shown with the formula's curves: {"split": {512: 42467328}}.
    width: d_in = d_out. Arrays: a CostState. Units: FLOPs, bytes. Errors: as in Explorer.
    """

    def __init__(self, measured, width=768):
        self.measured, self.width = measured, width
        super().__init__()

    def make_controls(self):
        heads = [n for n in range(1, 49) if self.width % n == 0]
        return {
            "num_tokens": stops("num_tokens", LENGTHS, 1024, "The length of one sentence"),
            "num_heads": stops("num_heads", heads, 12 if 12 in heads else 1, "Among how many heads the width is split"),
        }

    def compute(self, num_tokens, num_heads):
        operations, table = flops(num_tokens, self.width, self.width), table_bytes(num_tokens, num_heads)
        return CostState(num_tokens, num_heads, operations, table, cache_bytes(num_tokens, self.width))

    def picture(self, state):
        total = sum(state.operations.values())
        shares = {"share": [part / total for part in state.operations.values()]}
        curves = {
            f"scores of {state.num_heads} heads": [table_bytes(n, state.num_heads) for n in LENGTHS],
            "keys and values": [cache_bytes(n, self.width) for n in LENGTHS],
        }
        points = {name: {place(n): held for n, held in there.items()} for name, there in self.measured.items()}
        ends = table_bytes(LENGTHS[0], 1), table_bytes(LENGTHS[-1], 48)  # the same for every number of heads
        names, here = {place(n): str(n) for n in LENGTHS}, place(state.num_tokens)
        title, xlabel = "memory of one layer (bytes)", "num_tokens"
        memory = lines(curves, points, names, title, xlabel, here, ends=ends, log=True, width=540)
        return [[bars(shares, list(state.operations), "share of the operations", width=300, height=210), memory]]

    def headline(self, state):
        return ""

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

"""Notebook 09: what a layer costs, by formula and as measured."""

import math
from typing import NamedTuple

from ..fast.costs import cache_bytes, flops, flops_per_cached_byte, table_bytes
from ..plots import GREY
from .base import Explorer, stops
from .svg import bars, lines
from .words import size_in_words

LENGTHS = tuple(2**n for n in range(5, 14))  # 32 to 8192
WIDTHS, MOST_HEADS = (768, 1024, 1600, 2048, 4096, 8192), 64  # from GPT-2 small to models of 70 billion parameters
BYTES = {"float32": 4, "bfloat16": 2, "int8": 1}
MEASURED = {"num_heads": 12, "width": 768, "num_kv_heads": 12, "bytes": 4}  # GPT-2 small, float32
PEAKS = {"split": (3, 3), "fused": (0, 5)}  # the score matrices and the rows per token that a layer holds at its peak


def place(num_tokens):
    """Where a length is on the axis, one step per doubling."""
    return math.log2(num_tokens / LENGTHS[0])


def divisors(number):
    """The numbers of heads into which a width can be split, or of KV heads that a number of heads can share."""
    return [n for n in range(1, min(number, MOST_HEADS) + 1) if number % n == 0]


class CostState(NamedTuple):
    """What the picture shows: FLOPs by part and bytes, for one sentence; `measured` is empty for other sizes."""

    num_tokens: int
    num_heads: int
    width: int  # d_in and d_out
    num_kv_heads: int
    bytes: int  # per number
    kv_width: int  # of all KV heads together
    operations: dict  # FLOPs by part
    table: int  # the score matrices of all heads
    cache: int  # keys and values
    measured: dict  # bytes by number of tokens, by name

    quadratic = property(lambda self: (self.operations["scores"] + self.operations["context"]) / self.total)
    total = property(lambda self: sum(self.operations.values()))


class CostExplorer(Explorer):
    """Change a layer's sizes and the bytes per number, and see where the FLOPs and the memory go.

    measured: for each name, bytes by number of tokens, as in {"split": {512: 42467328}}. They should come from layers
    of the sizes MEASURED (width is d_in and d_out), and are only shown for these, with the formulas' curves.
    Arrays: a CostState. Units: FLOPs, bytes. Errors: as in Explorer.
    """

    def __init__(self, measured):
        self.measured = measured
        super().__init__()

    def make_controls(self):
        width, heads = MEASURED["width"], MEASURED["num_heads"]
        return {
            "num_tokens": stops("num_tokens", LENGTHS, LENGTHS[-1], "The length of one sentence"),
            "num_heads": stops("num_heads", divisors(width), heads, "How many heads share the width"),
            "width": stops("width", WIDTHS, width, "The width of a token's vector before and after the layer"),
            "num_kv_heads": stops(
                "num_kv_heads", divisors(heads), heads, "Heads of keys and values, which the query heads share"
            ),
            "bytes": stops("dtype", BYTES.items(), 4, "The type of the stored numbers: 4, 2 or 1 bytes each"),
        }

    def choices(self, values):
        heads = divisors(values["width"])
        num_heads = max(n for n in heads if n <= values["num_heads"])
        return {"num_heads": heads, "num_kv_heads": divisors(num_heads)}

    def goes_with(self, changes):
        """If each head has its own keys and values, it still does after num_heads changes."""
        each = self._wanted["num_kv_heads"] == self._wanted["num_heads"]
        return ({"num_kv_heads": changes["num_heads"]} if each and "num_heads" in changes else {}) | changes

    def note(self, wanted, values):
        said, (heads, shared) = [], (values["num_heads"], values["num_kv_heads"])
        if wanted["num_heads"] != heads:
            said.append(f"{wanted['num_heads']} doesn't divide the width {values['width']}: {heads} heads instead.")
        if wanted["num_kv_heads"] not in (shared, wanted["num_heads"]):
            said.append(f"{wanted['num_kv_heads']} doesn't divide {many(heads)}: {many(shared, 'KV head')} instead.")
        if self.measured and not values.items() >= MEASURED.items():
            known = "{num_heads} heads, width {width}".format(**MEASURED)
            said.append(f"No measured points: they were taken with {known}, float32.")
        return " ".join(said)

    def compute(self, num_tokens, num_heads, width, num_kv_heads, bytes):
        sizes = {"num_heads": num_heads, "width": width, "num_kv_heads": num_kv_heads, "bytes": bytes}
        kv_width, measured = width // num_heads * num_kv_heads, self.measured if sizes == MEASURED else {}
        operations = flops(num_tokens, width, width) | {"q, k, v": 2 * num_tokens * width * (width + 2 * kv_width)}
        table, cache = table_bytes(num_tokens, num_heads, 1, bytes), cache_bytes(num_tokens, kv_width, 1, bytes)
        computed = {"kv_width": kv_width, "operations": operations, "table": table, "cache": cache}
        return CostState(num_tokens, **sizes, **computed, measured=measured)

    def picture(self, state):
        shares = {"share": [part / state.total for part in state.operations.values()]}
        look = {"width": 246, "height": 206, "colours": [GREY]}
        return [[bars(shares, list(state.operations), "share of the FLOPs", **look), self.memory(state)]]

    def memory(self, state):
        """The chart of bytes by length: scores, keys and values, and what was measured, with its formulas."""
        kinds = {f"{name} layer's peak": (there, PEAKS.get(name)) for name, there in state.measured.items()}
        curves = {
            scores_of(state.num_heads): [table_bytes(n, state.num_heads, 1, state.bytes) for n in LENGTHS],
            "keys and values": [cache_bytes(n, state.kv_width, 1, state.bytes) for n in LENGTHS],
            **{name: peaks(there, *parts, state) for name, (there, parts) in kinds.items() if parts and there},
        }
        points = {name: {place(n): held for n, held in there.items()} for name, (there, _) in kinds.items()}
        ends = cache_bytes(LENGTHS[0], WIDTHS[0] // MOST_HEADS, 1, 1), table_bytes(LENGTHS[-1], MOST_HEADS)
        look = {"ends": ends, "written": rounded_size, "width": 516, "height": 220}
        title, names = "memory of one layer" + ", points measured" * bool(points), {place(n): f"{n:,}" for n in LENGTHS}
        return lines(curves, points, names, title, "num_tokens", place(state.num_tokens), **look)

    def headline(self, state):
        parts = [(state.table, f"the {scores_of(state.num_heads)}"), (state.cache, "keys and values")]
        (most, first), (least, second) = sorted(parts, reverse=True)
        return f"At {state.num_tokens:,} tokens {first} take {size_in_words(most)}, {second} {size_in_words(least)}"

    def readouts(self, state):
        n, each, measured = f"{state.num_tokens:,}", state.bytes, self.measured_at(state)
        in_cache = flops_per_cached_byte(state.num_heads, state.num_kv_heads, each)
        return {
            "FLOPs": f"{state.total / 1e9:,.2f} billion; {state.quadratic:.0%} of them, for scores and context, grow "
            "with num_tokens squared",
            "scores": f"{state.num_heads} × {n} × {n} × {each} bytes = {size_in_words(state.table)}",
            "keys and values": f"2 × {n} × {state.kv_width:,} × {each} bytes = {size_in_words(state.cache)}",
            "decoding": f"{in_cache:g} FLOPs per byte of keys and values",
        } | ({"measured peak": measured} if measured else {})

    def measured_at(self, state):
        n, measured = state.num_tokens, state.measured
        return ", ".join(f"{name} {size_in_words(there[n])}" for name, there in measured.items() if n in there)

    def in_words(self, state):
        measured = self.measured_at(state)
        return (
            f"With {state.num_tokens:,} tokens, num_heads {state.num_heads}, num_kv_heads {state.num_kv_heads} and a "
            f"width of {state.width:,} one pass takes {state.total / 1e9:,.2f} billion FLOPs, {state.quadratic:.2f} of "
            f"them for scores and context. In numbers of {state.bytes} bytes the scores take "
            f"{size_in_words(state.table)}, keys and values {size_in_words(state.cache)}."
            + (f" Measured peak: {measured}." if measured else "")
        )


def scores_of(num_heads):
    return f"scores of {many(num_heads)}"


def many(count, name="head"):
    return f"{count} {name}{'s' * (count > 1)}"


def rounded_size(count):
    """As on an axis: "1 MB"."""
    return size_in_words(round(count)).replace(".0 ", " ")


def peaks(there, tables, rows, state):
    """A layer's peak memory by formula, at the lengths between the measured ones."""
    held = [tables * table_bytes(n, state.num_heads) + rows * n * state.width * state.bytes for n in LENGTHS]
    return [each if min(there) <= n <= max(there) else None for n, each in zip(LENGTHS, held, strict=True)]

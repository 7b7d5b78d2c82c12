"""Arrays to SVG: the cells of a map, their numbers, and the marks on them."""

import html
from typing import NamedTuple

import numpy as np

from attention_course.plots import as_array

from .ink import WEIGHT_INK, Ink, levels
from .svg import DIGIT, HATCHED, SMALL, number, tag
from .words import LOOKS

CELL_LINES = 'stroke="currentColor" stroke-opacity="0.08" shape-rendering="crispEdges"'  # two cells share each line
STROKES = {"stroke": "currentColor", "pointer_events": "none"}


class Entries(NamedTuple):
    """What the entries of a map are, and so how they're drawn."""

    ink: Ink = WEIGHT_INK
    limit: float = 1.0  # the value with full colour
    labels: tuple = ("query", "key")  # what rows and columns are
    tell: str = LOOKS  # what a tooltip says of a row and a column
    decimals: int | None = 2  # of the numbers in the cells; None for no numbers
    told: int = 4  # decimals in tooltips


SHARES = Entries()


def draw_cells(values, rows, columns, width, height, of=SHARES, hidden=None, taken=None, touch=None):
    """A map's cells from (0, 0) on, with numbers where they fit, and whether minuses stand for them."""
    w, h = width / len(columns), height / len(rows)
    shown = np.ones((len(rows), len(columns)), bool) if hidden is None else as_array(hidden) == 0
    gone = shown & (False if taken is None else as_array(taken) != 0)
    spots, numbers, steps = np.argwhere(shown).tolist(), values[shown].tolist(), levels(values, of.limit)
    rows, columns = ([html.escape(name) for name in names] for names in (rows, columns))
    chosen = [f'data-touch="{name}" ' + 'data-write="" ' * ("{}" in name) for name in touch or []] or [""] * len(rows)
    size, tell, looks, told = f'width="{w:.2f}" height="{h:.2f}"', of.tell, of.ink.cells, of.told
    cells = [
        f'<rect x="{j * w:.2f}" y="{i * h:.2f}" {size} {chosen[i].format(j)}{looks[step]}>'
        f"<title>{tell.format(rows[i], columns[j])}: {value + 1e-7:.{told}f}</title></rect>"
        for (i, j), step, value in zip(spots, steps[shown].tolist(), numbers, strict=True)
    ]
    written, dashes = write_numbers(spots, numbers, steps, gone, w, h, of), ""
    if not written and min(w, h) >= 6:  # a minus below zero, for readers who can't tell its green
        dashes = draw_marks((steps < -3) & shown, w, h, 0.5, f"h{0.4 * w:.1f}")
    cross = f"l{0.4 * w:.1f} {0.4 * h:.1f}m0 {-0.4 * h:.1f}l{-0.4 * w:.1f} {0.4 * h:.1f}"
    crosses = draw_marks(gone, w, h, 0.3, cross, stroke_opacity=0.75, stroke_width=1.5)
    svg = f"<g {of.ink.group} {CELL_LINES}>{''.join(cells)}</g>{hatching(~shown, w, h)}{written or dashes}"
    return svg + crosses, bool(dashes)


def write_numbers(spots, numbers, steps, gone, w, h, of):
    """The numbers of cells, but for those that are gone, if the longest one fits its cell."""
    if of.decimals is None or not numbers:
        return ""
    written = [number(value, of.decimals) for value in numbers]
    size = min(12, 0.97 * w / (DIGIT * max(map(len, written))), 0.75 * h)
    if size < SMALL:
        return ""
    looks, down = of.ink.numbers, 0.5 * h + 0.35 * size
    texts = [
        f'<text x="{(j + 0.5) * w:.1f}" y="{i * h + down:.1f}" {looks[steps[i, j]]}>{words}</text>'
        for (i, j), words in zip(spots, written, strict=True)
        if not gone[i, j]
    ]
    return tag("g", "".join(texts), font_size=size, text_anchor="middle", pointer_events="none")


def draw_marks(cells, w, h, down, strokes, **look):
    """A mark in each True cell, of strokes that begin so far down in it."""
    path = "".join(f"M{(j + 0.3) * w:.1f} {(i + down) * h:.1f}{strokes}" for i, j in np.argwhere(cells).tolist())
    return tag("path", d=path, **look, **STROKES) if path else ""


def hatching(hidden, w, h, edge=False):
    """Slanted lines over the True cells of a table, each w x h pixels; edge: also a line around them."""
    path, borders = "", np.diff(np.asarray(hidden, bool).astype(int), axis=1, prepend=0, append=0)
    ends = np.argwhere(borders).tolist()  # row by row, where True cells begin and end
    for (i, start), (_, end) in zip(ends[::2], ends[1::2], strict=True):
        path += f"M{start * w:.1f} {i * h:.1f}h{(end - start) * w:.1f}v{h:.1f}H{start * w:.1f}z"
    lines = tag("path", d=path, fill=HATCHED, pointer_events="none") if path else ""
    return lines + (outline(hidden, w, h, stroke="currentColor", stroke_opacity=0.3) if edge and path else "")


def outline(cells, w, h, **ink):
    """A line around each group of True cells: the borders between True and False."""
    padded = np.pad(np.asarray(cells, bool), 1).astype(int)
    lying, standing = np.argwhere(np.diff(padded, axis=0)[:, 1:-1]), np.argwhere(np.diff(padded, axis=1)[1:-1])
    path = "".join(f"M{j * w:.1f} {i * h:.1f}h{w:.1f}" for i, j in lying.tolist())
    path += "".join(f"M{j * w:.1f} {i * h:.1f}v{h:.1f}" for i, j in standing.tolist())
    return tag("path", d=path, fill="none", pointer_events="none", **ink)

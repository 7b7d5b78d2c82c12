"""Hidden cells are hatched, and some are outlined: paths over a table of cells."""

from functools import lru_cache

import numpy as np

from .svg import tag

APART = 7  # pixels between two lines of the hatching
HATCHED = {"stroke": "currentColor", "stroke_opacity": 0.3, "fill": "none", "pointer_events": "none"}


def hatching(hidden, w, h, edge=False):
    """Slanted lines over the True cells of a table, each w x h pixels; edge: also a line around them."""
    hidden = np.asarray(hidden, bool)
    path = slants(hidden.tobytes(), hidden.shape, w, h)
    return tag("path", d=path + (around(hidden, w, h) if edge else ""), **HATCHED) if path else ""


def outline(cells, w, h, **ink):
    """A line around each group of True cells."""
    return tag("path", d=around(np.asarray(cells, bool), w, h), **{"fill": "none", "pointer_events": "none"} | ink)


@lru_cache(maxsize=64)
def slants(cells, shape, w, h):
    """Each slanted line over neighbouring True cells as one stroke, so that 64 x 64 cells take few."""
    times = max(1, round(min(w, h) / APART))  # strokes per cell, where cells are large
    fine, each = np.kron(np.frombuffer(cells, bool).reshape(shape), np.ones((times, times), bool)), ""
    every, (w, h) = max(1, round(APART * times / min(w, h))), (w / times, h / times)
    for place in range(0, sum(fine.shape) - 1, every):  # cells (i, j) with i + j = place
        first = max(0, place - fine.shape[1] + 1)
        line = fine[::-1].diagonal(place - fine.shape[0] + 1)[::-1]  # from the top right, going down
        ends = np.flatnonzero(np.diff(np.concatenate([[False], line, [False]]).astype(int)))
        for start, end in zip(ends[::2], ends[1::2], strict=True):
            i, n = first + start, end - start
            each += f"M{(place - i + 1) * w:.1f} {i * h:.1f}l{-n * w:.1f} {n * h:.1f}"
    return each


def around(cells, w, h):
    """The border between True and False cells, as a path."""
    padded = np.pad(cells, 1).astype(int)
    lying, standing = np.argwhere(np.diff(padded, axis=0)[:, 1:-1]), np.argwhere(np.diff(padded, axis=1)[1:-1])
    path = "".join(f"M{j * w:.1f} {i * h:.1f}h{w:.1f}" for i, j in lying.tolist())
    return path + "".join(f"M{j * w:.1f} {i * h:.1f}v{h:.1f}" for i, j in standing.tolist())

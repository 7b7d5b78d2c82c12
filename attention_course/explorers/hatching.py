"""Hidden cells are hatched, and some are outlined: paths over a table of cells."""

import numpy as np

from .svg import HATCHED, tag


def hatching(hidden, w, h, edge=False):
    """Slanted lines over the True cells of a table, each w x h pixels; edge: also a line around them."""
    hidden = np.asarray(hidden, bool)
    path = ""
    for i, row in enumerate(hidden):
        ends = np.flatnonzero(np.diff(row.astype(int), prepend=0, append=0)).tolist()
        for start, end in zip(ends[::2], ends[1::2], strict=True):
            path += f"M{start * w:.1f} {i * h:.1f}h{(end - start) * w:.1f}v{h:.1f}H{start * w:.1f}z"
    lines = tag("path", d=path, fill=HATCHED, pointer_events="none") if path else ""
    return lines + (outline(hidden, w, h, stroke="currentColor", stroke_opacity=0.3) if edge and path else "")


def outline(cells, w, h, **ink):
    """A line around each group of True cells: the borders between True and False."""
    padded = np.pad(np.asarray(cells, bool), 1).astype(int)
    lying, standing = np.argwhere(np.diff(padded, axis=0)[:, 1:-1]), np.argwhere(np.diff(padded, axis=1)[1:-1])
    path = "".join(f"M{j * w:.1f} {i * h:.1f}h{w:.1f}" for i, j in lying.tolist())
    path += "".join(f"M{j * w:.1f} {i * h:.1f}v{h:.1f}" for i, j in standing.tolist())
    return tag("path", d=path, **{"fill": "none", "pointer_events": "none"} | ink)

"""Arrays to SVG: heatmaps, single or one per head, their colour bars, and strips of vectors."""

import base64
import html
import math
from collections import namedtuple
from io import BytesIO

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex
from PIL import Image

from ..plots import as_array, as_table, check_labels, head_colour, luminance
from . import svg as draw
from .svg import BOTTOM, LEFT, TOP, Drawing, moved, number, tag, text

STEPS = 65  # odd, so that 0.5, 0.25, ... are in the middle of a step, not between two
CELLS_UP_TO = 16  # cells per side that are separate shapes; a larger map is one small image
GAP, HEAD = 14, 24  # between the maps of a grid; above each, for its head's name
GREY, LINES, NOTHING = STEPS, STEPS + 1, STEPS + 2  # an image's other colours: hidden, its hatching, no cell
OPAQUE = bytes([255] * STEPS + [40, 120, 0])  # alpha: data is opaque, the page shows through the hatching


Colours = namedtuple("Colours", "fills inks palette")  # inks: black or white, whichever is easier to read on the colour


def colours(name):
    rgb = colormaps[name](np.linspace(0, 1, STEPS))[:, :3]
    inks = ["#000" if each > 0.179 else "#fff" for each in luminance(rgb)]  # contrast of at least 4.5:1
    palette = (rgb * 255).round().astype(np.uint8).tobytes() + bytes([128] * 9)
    return Colours([to_hex(each) for each in rgb], inks, palette)


WEIGHTS, SIGNED = colours("viridis"), colours("RdBu_r")  # from 0 up; and diverging, with the lightest colour at zero


def levels(values, limits):
    """The colour step of each value, from 0 at the lower limit to STEPS - 1 at the upper, clipped beyond them."""
    low, high = limits
    share = (np.asarray(values) - low) / ((high - low) or 1)
    return np.rint(np.fmin(np.fmax(share, 0), 1) * (STEPS - 1)).astype(int)  # fmax turns NaN into 0


def hatching(hidden, w, h):
    """Hidden cells, grey and hatched, as paths, because an SVG pattern is lost if its first user isn't shown."""
    spots, strokes = np.argwhere(hidden).tolist(), max(1, round(min(w, h) / 9))
    ends = [(min(t, 1), max(t - 1, 0)) for t in (k / strokes for k in range(1, 2 * strokes))]
    slant = "m{:.2f} {:.2f}l{:.2f} {:.2f}m{:.2f} {:.2f}".format  # there, the line, and back to the cell's corner
    slants = "".join(slant(w * a, h * b, w * (b - a), h * (a - b), -w * b, -h * a) for a, b in ends)
    cells = "".join(f"M{j * w:.1f} {i * h:.1f}h{w:.1f}v{h:.1f}h{-w:.1f}z" for i, j in spots)
    lines = "".join(f"M{j * w:.1f} {i * h:.1f}{slants}" for i, j in spots if min(w, h) > 9 or (i + j) % 2)
    return tag("path", d=cells, fill_opacity=0.1) + tag("path", d=lines, stroke="currentColor", stroke_opacity=0.35)


def crosses(taken, w, h):
    """A × in each cell of `taken`."""
    spots = [((j + 0.3) * w, (i + 0.3) * h) for i, j in np.argwhere(taken).tolist()]
    stroke = f"l{0.4 * w:.1f} {0.4 * h:.1f}m0 {-0.4 * h:.1f}l{-0.4 * w:.1f} {0.4 * h:.1f}"
    return tag("path", d="".join(f"M{x:.1f} {y:.1f}{stroke}" for x, y in spots), stroke="#fff", stroke_width=1.5)


class Grid:
    """What maps of one shape share: their cells' positions, tooltips, and how numbers are written."""

    def __init__(self, rows, columns, width, height, limits, palette, hidden=None, tell="{} reads {}"):
        self.limits, self.palette, self.w, self.h = limits, palette, width / len(columns), height / len(rows)
        hidden = np.zeros((len(rows), len(columns))) if hidden is None else as_array(hidden)
        self.shown, self.spots = hidden == 0, np.argwhere(hidden == 0).tolist()
        self.hatching = hatching(hidden, self.w, self.h) if hidden.any() else ""
        rows, columns = ([html.escape(name) for name in names] for names in (rows, columns))
        size = f'width="{self.w:.2f}" height="{self.h:.2f}" fill="'
        starts = [f'<rect x="{j * self.w:.2f}" y="{i * self.h:.2f}" {size}' for i, j in self.spots]
        tellings = [f'"><title>{tell.format(rows[i], columns[j])}: ' for i, j in self.spots]
        self.cells = list(zip(starts, tellings, strict=True))

    def draw(self, values, taken=None, decimals=2, limits=None, told=4):
        """One map, starting at (0, 0); cells in `taken` get a × for a number; decimals=None writes no numbers."""
        numbers, steps = values[self.shown].tolist(), levels(values, limits or self.limits)[self.shown].tolist()
        fills, each = self.palette.fills, zip(self.cells, steps, numbers, strict=True)
        cells = "".join([f"{a}{fills[step]}{b}{value + 1e-7:.{told}f}</title></rect>" for (a, b), step, value in each])
        svg = f'<g shape-rendering="crispEdges">{cells}</g>{self.hatching}'
        gone = self.shown & (False if taken is None else as_array(taken) != 0)
        svg += self.write(numbers, decimals, steps, ~gone[self.shown])
        return svg + crosses(gone, self.w, self.h) if gone.any() else svg

    def write(self, numbers, decimals, steps, keep):
        """The numbers, if the longest one fits its cell."""
        if decimals is None:
            return ""
        longest = max(len(number(value, decimals)) for value in (max(numbers), min(numbers)))
        size = min(12, 0.9 * self.w / (draw.EM * longest), 0.7 * self.h)
        if size < 8:
            return ""
        inks, down = self.palette.inks, 0.5 * self.h + 0.35 * size
        spots = [f'x="{(j + 0.5) * self.w:.1f}" y="{i * self.h + down:.1f}"' for i, j in self.spots]
        texts = [
            f'<text {spot} fill="{inks[step]}">{number(value, decimals)}</text>'
            for spot, value, step, written in zip(spots, numbers, steps, keep, strict=True)
            if written
        ]
        return tag("g", "".join(texts), font_size=size, text_anchor="middle", pointer_events="none")


def heatmap(values, rows, columns, title="", *, side=190, width=None, labels=("query", "key"), row=None, column=None,
            limits=(0, 1), palette=WEIGHTS, hidden=None, taken=None, decimals=2, tell="{} reads {}"):  # fmt: skip
    """A heatmap of up to CELLS_UP_TO cells per side, with names and numbers where they fit.

    hidden, taken: cells that a mask hides, cells that dropout removed. row, column: the one to frame. labels: what the
    rows and columns are.
    """
    values = as_table(values)
    check_labels("rows", rows, values.shape[0])
    check_labels("columns", columns, values.shape[1])
    width = width or side
    grid = Grid(rows, columns, width, side, limits, palette, hidden, tell)
    table = grid.draw(values, taken, decimals)
    if row is not None:
        table += frame(0, row * grid.h, width, grid.h, 3)
    if column is not None:
        table += frame(column * grid.w, 0, grid.w, side, 3)
    parts = [moved(table, LEFT, TOP), moved(draw.title_of(title, width), LEFT, 0), *names_beside(rows, TOP, grid.h)]
    parts.append(text(LEFT - 5, TOP - 8, f"{labels[0]} ↓", "end", **draw.PALE))
    places = [LEFT + (j + 0.5) * grid.w for j in range(len(columns))]
    parts.append(draw.names_below(columns, places, TOP + side, grid.w))
    parts.append(text(LEFT + width, TOP + side + BOTTOM - 8, f"{labels[1]} →", "end", **draw.PALE))
    return Drawing("".join(parts), LEFT + width, TOP + side + BOTTOM)


def names_beside(names, top, each):
    """Names to the left of rows of height `each`, if they fit."""
    shown = [draw.shortened(name) for name in names] if each >= draw.SMALL else []
    return [text(LEFT - 5, top + (i + 0.5) * each + 4, name, "end") for i, name in enumerate(shown)]


def head_maps(maps, tokens, limits, hidden, taken, width=640, height=400, row=None,
          palette=WEIGHTS, tell="{} reads {}", bar=None):  # fmt: skip
    """One map per head (num_heads, num_tokens, num_tokens), as large as will fit.

    hidden: (num_tokens, num_tokens); taken: like maps, or None; row: the row to frame in each map; bar: a colour bar,
    drawn to the right of the maps in extra space. Up to CELLS_UP_TO tokens, each cell is a shape with a tooltip; above
    that, all maps are one image, which takes no longer than one map.
    """
    maps, hidden, n, count = as_array(maps), as_array(hidden), len(tokens), len(maps)
    taken = np.zeros(maps.shape, bool) if taken is None else as_array(taken) != 0
    room, above = width - LEFT + GAP, height - BOTTOM
    sides = {c: min(room / c - GAP, above / -(-count // c) - HEAD) for c in range(1, count + 1)}
    across = max(sides, key=sides.get)  # the fewest columns of that size: 4 as 2 and 2, not as 3 and 1
    side = sides[across]
    right, down = GAP, HEAD
    if n > CELLS_UP_TO:  # whole cells as gaps, so that all are pixels of one image
        side *= 0.96  # room for wider gaps
        right, down = (math.ceil(gap * n / side) * side / n for gap in (GAP, HEAD))
    places = [divmod(head, across) for head in range(count)]
    corners = [(LEFT + j * (side + right), i * (side + down) + down) for i, j in places]
    end = corners[-1][1] + side + BOTTOM - 4
    parts = [text(LEFT, end, "rows: who reads; columns: who is read", "start", **draw.PALE)]
    for head, (x, y) in enumerate(corners):
        parts.append(tag("rect", x=x, y=y - 16, width=8, height=10, fill=head_colour(head)))
        parts.append(text(x + 12, y - 7, f"head {head + 1}", "start", 12))
    framed = "".join(frame(x, y + row * side / n, side, side / n, 2) for x, y in corners if row is not None)
    if bar:
        framed += moved(bar.svg, corners[across - 1][0] + side + GAP, 0)
        width += GAP + bar.width
    if n > CELLS_UP_TO:
        image = as_image(maps, limits, hidden, taken, corners, side / n, palette)
        return Drawing("".join(parts) + image + framed, width, height)
    grid = Grid(tokens, tokens, side, side, limits, palette, hidden, tell)
    for (x, y), weights, gone in zip(corners, maps, taken, strict=True):
        parts += [moved(grid.draw(weights, gone), x, y), *(names_beside(tokens, y, grid.h) if x == LEFT else [])]
        if y == corners[-1][1]:
            parts.append(draw.names_below(tokens, [x + (k + 0.5) * grid.w for k in range(n)], y + side, grid.w))
    return Drawing("".join(parts) + framed, width, height)


def frame(x, y, width, height, stroke):
    return tag("rect", x=x, y=y, width=width, height=height, fill="none", stroke=draw.MARK, stroke_width=stroke)


def as_image(maps, limits, hidden, taken, corners, cell, palette):
    """All heads as one image, one pixel per cell; hidden cells are hatched, cells that dropout removed are empty."""
    n, blocks = maps.shape[1], levels(maps, limits)
    slanted = np.add.outer(np.arange(n), np.arange(n)) % 4 == 0
    blocks[taken] = NOTHING
    blocks = np.where(hidden, np.where(slanted, LINES, GREY), blocks)
    places = [(round(y / cell), round((x - LEFT) / cell)) for x, y in corners]
    sheet = np.full([max(side) + n for side in zip(*places, strict=True)], NOTHING, np.uint8)
    for block, (y, x) in zip(blocks, places, strict=True):
        sheet[y : y + n, x : x + n] = block
    return pixels(sheet, palette, LEFT, 0, cell * sheet.shape[1], cell * sheet.shape[0])


def pixels(sheet, palette, x, y, width, height, kind="PNG", look="pixelated"):
    """An image with one pixel per cell, each a step of the palette; BMP is faster to make, but has no transparency."""
    picture, file = Image.fromarray(sheet.astype(np.uint8), "P"), BytesIO()
    picture.putpalette(palette.palette)
    picture.save(file, kind, compress_level=1, transparency=OPAQUE)
    href = f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"
    room = {"x": x, "y": y, "width": width, "height": height}
    return tag("image", href=href, style=f"image-rendering:{look}", preserveAspectRatio="none", **room)


def colour_bar(limits, palette=WEIGHTS, height=190, more=False):
    """A colour bar, one for all maps with the same limits. more: the last colour also stands for larger values."""
    fills = enumerate(palette.fills[-3::-5])  # every fifth, because many shapes make a page slow
    steps = "".join(f'<rect y="{5 * n}" width="12" height="5.5" fill="{fill}"/>' for n, fill in fills)
    (low, high), sign = limits, "≥ " if more else ""
    words = {1.0: f"{low:.2g}", 0.0: f"{sign}{high:.2g}"} | ({0.5: "0"} if low < 0 else {})
    bar = tag("g", steps, transform=f"translate(0,{TOP}) scale(1,{height / STEPS:.3f})")
    bar += "".join(text(17, TOP + share * height + 4, word, "start") for share, word in words.items())
    return Drawing(bar, 58, TOP + height + BOTTOM)


def around_zero(values):
    """Limits that are symmetric around zero."""
    most = float(np.abs(np.nan_to_num(as_array(values), posinf=0, neginf=0)).max()) or 1.0
    return -most, most


def strip(vectors, names, owners, title="", width=560, height=130):
    """Vectors (num_tokens, width), one per row, on the signed colour map; `owners` gives each column's head."""
    vectors, each = as_table(vectors), width / len(owners)
    table = heatmap(
        vectors, names, list(map(str, range(len(owners)))), title, side=height, width=width, palette=SIGNED,
        limits=around_zero(vectors), labels=("token", "entry, in the colour of its head"), tell="{}, entry {}",
    )  # fmt: skip
    bands = [
        tag("rect", x=LEFT + n * each + 1, y=TOP - 6, width=each - 2, height=5, fill=head_colour(head))
        for n, head in enumerate(owners)
    ]
    return Drawing(table.svg + "".join(bands), table.width, table.height)

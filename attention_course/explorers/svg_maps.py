"""Arrays to SVG: heatmaps, single or one per head, their colour bars, and strips of vectors."""

import html
import itertools
import math
from typing import NamedTuple

import numpy as np
import torch

from attention_course.plots import ABOVE, as_array, as_table, head_colour, strongest
from attention_helpers.layers import causal_mask

from . import svg as draw
from .hatching import hatching, outline
from .ink import FULL, HEADS, NEUTRAL, PAGE, SIGNED, WEIGHTS, Ink, head_ink, largest, levels
from .svg import BOTTOM, FRAME, LEFT, TOP, Drawing, moved, number, tag, text
from .words import shares

CELLS_UP_TO = 16  # cells per side that are separate shapes; a larger map is one small image
GAP, HEAD = 14, 24  # between the maps of a grid; above each, for its head's name
LINES = 'stroke="currentColor" stroke-opacity="0.08" shape-rendering="crispEdges"'  # two cells share each line


class Grid:
    """What maps of one shape share: their cells' positions, tooltips, and how numbers are written."""

    def __init__(self, rows, columns, width, height, hidden=None, tell="{} reads {}", touch=None):
        self.w, self.h = width / len(columns), height / len(rows)
        hidden = np.zeros((len(rows), len(columns))) if hidden is None else as_array(hidden)
        self.shown, self.spots = hidden == 0, np.argwhere(hidden == 0).tolist()
        self.hatching = hatching(hidden, self.w, self.h) if hidden.any() else ""
        self.dashed = False  # whether a map was drawn with a minus in place of numbers
        rows, columns = ([html.escape(name) for name in names] for names in (rows, columns))
        size = f'width="{self.w:.2f}" height="{self.h:.2f}" '
        chosen = [f'data-touch="{name}" ' + ('data-write="" ' if "{}" in name else "") for name in touch or []]
        chosen = chosen or [""] * len(rows)
        starts = [f'<rect x="{j * self.w:.2f}" y="{i * self.h:.2f}" {size}{chosen[i].format(j)}' for i, j in self.spots]
        tellings = [f"><title>{tell.format(rows[i], columns[j])}: " for i, j in self.spots]
        self.cells = list(zip(starts, tellings, strict=True))

    def draw(self, values, taken=None, decimals=2, limit=1.0, ink=WEIGHTS, told=4):
        """One map, starting at (0, 0); cells in `taken` get a × for a number; decimals=None writes no numbers."""
        numbers, steps = values[self.shown].tolist(), levels(values, limit)[self.shown].tolist()
        each, looks = zip(self.cells, steps, numbers, strict=True), ink.cells
        cells = "".join([f"{a}{looks[step]}{b}{value + 1e-7:.{told}f}</title></rect>" for (a, b), step, value in each])
        svg = f"<g {ink.group} {LINES}>{cells}</g>{self.hatching}"
        gone = self.shown & (False if taken is None else as_array(taken) != 0)
        svg += self.write(numbers, decimals, steps, ~gone[self.shown], ink)
        return svg + crosses(gone, self.w, self.h) if gone.any() else svg

    def write(self, numbers, decimals, steps, keep, ink):
        """The numbers, if the longest one fits its cell; else a minus in each negative cell."""
        size_of = lambda length: min(12, 0.97 * self.w / (draw.DIGIT * length), 0.75 * self.h)  # noqa: E731
        room = decimals is not None and size_of(decimals + 1) >= draw.SMALL
        written = [number(value, decimals) for value in numbers] if room else []
        size = size_of(max(map(len, written), default=1))
        if not written or size < draw.SMALL:
            below = np.zeros(self.shown.shape, int)
            below[self.shown] = steps
            dashed = minuses(below, self.w, self.h)
            self.dashed = self.dashed or bool(dashed)
            return dashed
        looks, down = ink.numbers, 0.5 * self.h + 0.35 * size
        spots = [f'x="{(j + 0.5) * self.w:.1f}" y="{i * self.h + down:.1f}"' for i, j in self.spots]
        cells = zip(spots, written, steps, keep, strict=True)
        texts = [f"<text {spot} {looks[step]}>{words}</text>" for spot, words, step, kept in cells if kept]
        return tag("g", "".join(texts), font_size=size, text_anchor="middle", pointer_events="none")


def minuses(steps, w, h):
    """A minus in each cell below zero, for readers who can't tell red from blue.

    steps: the cells' levels (rows, columns); w, h: the size of a cell, of which small ones get none.
    """
    if min(w, h) < 6:
        return ""
    spots = np.argwhere(steps < -3).tolist()
    starts = [f"M{(j + 0.3) * w:.1f} " for j in range(steps.shape[1])]
    strokes = [f"{(i + 0.5) * h:.1f}h{0.4 * w:.1f}" for i in range(steps.shape[0])]
    path = "".join([starts[j] + strokes[i] for i, j in spots])
    return tag("path", d=path, stroke="currentColor", pointer_events="none") if path else ""


def crosses(taken, w, h):
    """A × in each cell of `taken`."""
    spots = [((j + 0.3) * w, (i + 0.3) * h) for i, j in np.argwhere(taken).tolist()]
    stroke = f"l{0.4 * w:.1f} {0.4 * h:.1f}m0 {-0.4 * h:.1f}l{-0.4 * w:.1f} {0.4 * h:.1f}"
    path = "".join(f"M{x:.1f} {y:.1f}{stroke}" for x, y in spots)
    return tag("path", d=path, stroke="currentColor", stroke_opacity=0.75, stroke_width=1.5, pointer_events="none")


class Entries(NamedTuple):
    """What the entries of a map are, and so how they're drawn."""

    ink: Ink = WEIGHTS
    limit: float = 1.0  # the value with full colour
    labels: tuple = ("query", "key")  # what rows and columns are
    tell: str = "{} reads {}"  # what a tooltip says of a row and a column
    decimals: int = 2  # of the numbers in the cells
    told: int = 4  # decimals in tooltips


SHARES = Entries()


def heatmap(values, rows, columns, title="", of=SHARES, *, side=190, width=None, hidden=None, taken=None, row=None,
            beside=True, touch=None):  # fmt: skip
    """A heatmap of up to CELLS_UP_TO cells per side, with names and numbers where they fit.

    hidden, taken: cells that a mask hides, cells that dropout removed. row: the one to frame. beside: whether the rows'
    names stand at the left. touch: what choosing a row chooses, a name for each; one with {}, for the
    column, is that of a cell whose number can be typed over.
    """
    values = as_table(values)
    width, left = width or side, LEFT if beside else 0
    grid = Grid(rows, columns, width, side, hidden, of.tell, touch)
    table = grid.draw(values, taken, of.decimals, of.limit, of.ink, of.told)
    if row is not None:
        table += frame(0, row * grid.h, width, grid.h, 3)
    parts = [moved(table, left, TOP), moved(draw.title_of(title, width), left, 0)]
    if beside:
        parts += [*names_beside(rows, TOP, grid.h), text(LEFT - 5, TOP - 8, f"{of.labels[0]} ↓", "end", **draw.PALE)]
        if grid.hatching:
            parts.append(masked_key(TOP + side + foot_of(columns, grid.w) - 14))
        elif grid.dashed:
            parts.append(text(LEFT - 7, TOP + side + 10, "−: below 0", "end", **draw.PALE))
    places = [left + (j + 0.5) * grid.w for j in range(len(columns))]
    foot = axis(columns, places, TOP + side, grid.w, left + width, of.labels[1])
    said = strongest(values.round(3), rows, columns) if row is None else f"{rows[row]}: {shares(columns, values[row])}"
    return Drawing("".join(parts) + foot.svg, left + width, TOP + side + foot.height, f"{title}, {said}.")


def influence_map(influence, tokens, *, side, limit):
    """How far each row moves with each token: grey, since it isn't a weight, and the future outlined in red."""
    future, each = causal_mask(len(tokens)), side / len(tokens)
    moves = Entries(NEUTRAL, limit, ("row", "perturbed token"), "perturbing {1} moves {0} by")
    table = heatmap(influence, tokens, tokens, of=moves, side=side)
    red = outline(future, each, each, stroke=ABOVE, stroke_width=2) if future.any() else ""
    return table._replace(svg=table.svg + moved(red, LEFT, TOP), width=table.width + 1)  # the outer half of red


def axis(names, places, y, room, end, label):
    """Names below columns and what they are, at the right end; the Drawing's height is what they need."""
    written = draw.names_below(names, places, y, room)
    height = foot_of(names, room)
    return Drawing(written + text(end, y + height - 4, f"{label} →", "end", **draw.PALE), end, height)


def foot_of(names, room):
    """The height of an axis, which names below columns can need."""
    if not names or (room < draw.SMALL and not draw.fit(names, room)):
        return 18
    return 32 if draw.fit(names, room) else BOTTOM


def names_beside(names, top, each):
    """Names to the left of rows of height `each`, if they fit."""
    shown = [draw.shortened(name) for name in names] if each >= draw.SMALL else []
    return [text(LEFT - 5, top + (i + 0.5) * each + 4, name, "end") for i, name in enumerate(shown)]


def masked_key(y):
    """What hatching means, to the left of "key →", which no slanted name reaches; its words are 10 px below y."""
    slanted = tag("rect", width=10, height=9, fill=draw.HATCHED, stroke="currentColor", stroke_opacity=0.5)
    return moved(slanted, LEFT - 59, y + 2) + text(LEFT - 7, y + 10, "masked", "end", **draw.PALE)


def head_maps(maps, tokens, limit, hidden, taken=None, width=640, height=400, row=None, names=None,
              bar=None, touch=None, whole=None):  # fmt: skip
    """One map per head (num_heads, num_tokens, num_tokens), as large as will fit.

    limit: the value with full colour. hidden: (num_tokens, num_tokens); taken: like maps, or None; row: the row to
    frame in each map; names: of the heads; bar: a colour bar, drawn to the right of the maps in extra space.
    touch: what choosing a row chooses, a name for each; whole: what choosing a map chooses, words by name.
    """
    hidden, n, count = as_array(hidden), len(tokens), len(maps)
    corners, side, last = places_of(count, n, width, height)
    names = names or [f"head {head}" for head in range(1, count + 1)]
    small, each, down = n <= CELLS_UP_TO, side / n, corners[-1][1] + side
    parts = [
        text(LEFT - 5, HEAD - 7, "query ↓", "end", **draw.PALE),
        *(head_at(*at, k, names[k]) for k, at in enumerate(corners)),
    ]
    parts.append("" if small else axis([], [], down, each, corners[-1][0] + side, "key").svg)
    parts.append(masked_key(down + foot_of(tokens if small else [], each) - 14) if hidden.any() else "")
    if row is not None and each < draw.SMALL:  # the other rows have no room for their names
        middle = (row + 0.5) * each + 4
        parts += [text(LEFT - 5, y + middle, draw.shortened(tokens[row]), "end") for x, y in corners if x == LEFT]
    drawings = maps_at(corners, side, maps, tokens, limit, hidden, taken, touch=touch)
    if whole and small:
        drawings = [
            tag("g", drawn, says, data_touch=name) for drawn, (name, says) in zip(drawings, whole.items(), strict=True)
        ]
    for (x, y), drawn in zip(corners, drawings, strict=small):
        parts += [drawn, *(names_beside(tokens, y, each) if x == LEFT and small else [])]
        if y == corners[-1][1] and small:
            parts.append(axis(tokens, [x + (k + 0.5) * each for k in range(n)], down, each, x + side, "key").svg)
    parts += [frame(x, y + row * each, side, each, 2) for x, y in corners if row is not None]
    if bar:
        parts.append(moved(bar.svg, last + GAP, 0))
        width += GAP + bar.width
    return Drawing("".join(parts), width, height, heads_read(maps, tokens, -1 if row is None else row))


def reads(rows, names):
    """For each row of weights, the three names with the largest ones, and these, in words."""
    rows = torch.as_tensor(rows)
    best = rows.round(decimals=3).argsort(dim=-1, descending=True, stable=True)[:, :3]  # no CPU's last bits decide
    told = zip(best.tolist(), rows.gather(-1, best).tolist(), strict=True)
    return [", ".join(f"{names[at]} {number(share)}" for at, share in zip(*row, strict=True)) for row in told]


def heads_read(maps, tokens, row=-1):
    """What one token reads, by head, in words."""
    each = [f"head {head}: {said}" for head, said in enumerate(reads(maps[:, row], tokens), 1)]
    return f"{tokens[row]} reads, by {'; '.join(each)}."


def head_at(x, y, head, name, size=12):
    """A head's colour and name, above what is drawn at (x, y)."""
    colour = tag("rect", x=x, y=y - 16, width=8, height=10, fill=head_colour(head))
    return colour + text(x + 12, y - 7, name, "start", size)


def maps_at(corners, side, maps, tokens, limit, hidden, taken=None, decimals=2, touch=None):
    """A map for each head (num_heads, num_tokens, num_tokens), each at its corner (x, y).

    Up to CELLS_UP_TO tokens, each cell is a shape with a tooltip; above that, all maps are one image, which takes no
    longer than one map.
    """
    maps = as_array(maps)
    if len(tokens) > CELLS_UP_TO:
        image = as_image(maps, limit, hidden, corners, side / len(tokens))
        each = zip(maps, corners, strict=True)
        rows = [moved(touch_rows(table, tokens, touch, side), *corner) for table, corner in each if touch]
        return ["".join([image, *rows])]
    grid, heads = Grid(tokens, tokens, side, side, hidden, touch=touch), range(len(maps))
    taken = [None] * len(maps) if taken is None else taken
    drawn = [grid.draw(maps[head], taken[head], decimals, limit, head_ink(head)) for head in heads]
    return [moved(each, *corner) for each, corner in zip(drawn, corners, strict=True)]


def touch_rows(table, tokens, touch, side):
    """Over an image: rows that can be chosen, each with what it reads as a tooltip."""
    each = side / len(tokens)
    rows = zip(tokens, reads(table, tokens), touch, strict=True)
    rects = [
        tag("rect", says=f"{token} reads {said}", y=i * each, width=side, height=each, data_touch=name)
        for i, (token, said, name) in enumerate(rows)
    ]
    return tag("g", "".join(rects), fill="transparent")


def places_of(count, n, width, height):
    """The maps' corners (x, y), their side, and where the widest row of them ends."""
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
    return corners, side, corners[across - 1][0] + side


def frame(x, y, width, height, stroke):
    return tag("rect", x=x, y=y, width=width, height=height, stroke_width=stroke, **FRAME)


def as_image(maps, limit, hidden, corners, cell):
    """All heads as one image, one pixel per cell; hidden cells are hatched."""
    n = maps.shape[1]
    places = [(round(y / cell), round((x - LEFT) / cell)) for x, y in corners]
    sheet = np.zeros([max(side) + n for side in zip(*places, strict=True)], np.uint8)
    blocks = HEADS.indices(maps, limit, np.arange(len(maps)).reshape(-1, 1, 1) % 8)
    blocks[:, hidden != 0] = 0
    for block, (y, x) in zip(blocks, places, strict=True):
        sheet[y : y + n, x : x + n] = block
    hatched = hatching(hidden, cell, cell, edge=True)
    over = "".join(moved(hatched + frame(0, 0, n * cell, n * cell, 0.5), x, y) for x, y in corners)
    return pixels(sheet, HEADS, LEFT, 0, cell * sheet.shape[1], cell * sheet.shape[0]) + over


def pixels(sheet, palette, x, y, width, height, look="pixelated", **more):
    """An image with one pixel per cell, each the index of a colour in the palette."""
    room = {"x": x, "y": y, "width": width, "height": height, "preserveAspectRatio": "none"}
    return tag("image", href=palette.png(sheet), style=f"image-rendering:{look}", **room, **more)


def colour_bar(limit=1.0, shade=None, height=190, more=False):
    """A colour bar, one for all maps with the same limit; in the page's colour for maps of several heads.

    more: full colour also stands for larger values.
    """
    shade = shade or PAGE
    signed = shade.below != shade.above
    most = f"{limit:.2g}" if limit < 100 else f"{limit:.0f}"
    words = {0.0: most, 0.5: "0", 1.0: f"-{most}"} if signed else {0.0: most, 1.0: "0"}
    shown = np.linspace(FULL, -FULL if signed else 0, 17).astype(int).tolist()
    each = height / len(shown)
    step = f'<rect y="{{:.2f}}" width="12" height="{each + 0.3:.2f}" {{}}/>'.format
    steps = "".join(step(n * each, shade.cells[level]) for n, level in enumerate(shown))
    edge = tag("rect", width=12, height=height, stroke_opacity=0.3, **FRAME)
    bar = f'<g transform="translate(0,{TOP})" {shade.group}>{steps}</g>' + moved(edge, 0, TOP)
    bar += "".join(text(17, TOP + share * height + 4, word, "start") for share, word in words.items())
    bar += text(17, TOP + 16, "or more", "start") if more else ""
    return Drawing(bar, 60, TOP + height + 6)


def strip(vectors, names, owners=None, title="", width=560, height=130, label="entry", beside=True, columns=None,
          told=4):  # fmt: skip
    """Vectors (num_tokens, width), one per row, red above zero and blue below; `owners`: each column's head, if any.

    columns: their names, by default numbers. beside: whether the rows' names stand at the left. told: decimals in
    tooltips: CPUs differ in the fourth one of trained vectors.
    """
    vectors = as_table(vectors)
    columns = columns or list(map(str, range(vectors.shape[1])))
    of = Entries(SIGNED, largest(vectors), ("token", label), "{}, entry {}", told=told)
    table = heatmap(vectors, names, columns, title, of, side=height, width=width, beside=beside)
    each, left, bands, start = width / len(columns), LEFT if beside else 0, "", 0
    for head, group in itertools.groupby(owners or []):
        entries = len(list(group))
        place = {"x": left + start * each + 0.5, "width": entries * each - 1}
        bands += tag("rect", y=TOP - 6, height=5, fill=head_colour(head), **place)
        start += entries
    return table._replace(svg=table.svg + bands)

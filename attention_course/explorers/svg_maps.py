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
from .ink import FULL, HEAD_PALETTE, NEUTRAL, PAGE_INK, SIGNED_INK, WEIGHT_INK, Ink, head_ink, largest, levels
from .svg import BOTTOM, FRAME, LEFT, SMALL, TOP, Drawing, move, number, tag, text
from .words import LOOKS, shares

CELLS_UP_TO = 16  # cells per side that are separate shapes; a larger map is one small image
GAP, HEAD = 14, 24  # between the maps of a grid; above each, for its head's name
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
    chosen = [f'data-touch="{name}" ' + ('data-write="" ' if "{}" in name else "") for name in touch or []]
    chosen = chosen or [""] * len(rows)
    size, tell, looks, told = f'width="{w:.2f}" height="{h:.2f}"', of.tell, of.ink.cells, of.told
    cells = [
        f'<rect x="{j * w:.2f}" y="{i * h:.2f}" {size} {chosen[i].format(j)}{looks[step]}>'
        f"<title>{tell.format(rows[i], columns[j])}: {value + 1e-7:.{told}f}</title></rect>"
        for (i, j), step, value in zip(spots, steps[shown].tolist(), numbers, strict=True)
    ]
    written = write_numbers(spots, numbers, steps, gone, w, h, of)
    dashes = "" if written else draw_minuses(steps * shown, w, h)
    svg = f"<g {of.ink.group} {CELL_LINES}>{''.join(cells)}</g>{hatching(~shown, w, h)}{written or dashes}"
    return svg + draw_crosses(gone, w, h), bool(dashes)


def write_numbers(spots, numbers, steps, gone, w, h, of):
    """The numbers of cells, but for those that are gone, if the longest one fits its cell."""
    if of.decimals is None:
        return ""
    written = [number(value, of.decimals) for value in numbers]
    size = min(12, 0.97 * w / (draw.DIGIT * max(map(len, written), default=1)), 0.75 * h)
    cells = [(i, j, words) for (i, j), words in zip(spots, written, strict=True) if not gone[i, j]]
    if size < SMALL or not written:
        return ""
    looks, down = of.ink.numbers, 0.5 * h + 0.35 * size
    texts = [
        f'<text x="{(j + 0.5) * w:.1f}" y="{i * h + down:.1f}" {looks[steps[i, j]]}>{words}</text>'
        for i, j, words in cells
    ]
    return tag("g", "".join(texts), font_size=size, text_anchor="middle", pointer_events="none")


def draw_minuses(steps, w, h):
    """A minus in each cell below zero, unless cells are small, for readers who can't tell red from blue."""
    spots = np.argwhere(steps < -3).tolist() if min(w, h) >= 6 else []
    path = "".join(f"M{(j + 0.3) * w:.1f} {(i + 0.5) * h:.1f}h{0.4 * w:.1f}" for i, j in spots)
    return tag("path", d=path, **STROKES) if path else ""


def draw_crosses(taken, w, h):
    """A × in each cell of `taken`."""
    spots = [((j + 0.3) * w, (i + 0.3) * h) for i, j in np.argwhere(taken).tolist()]
    stroke = f"l{0.4 * w:.1f} {0.4 * h:.1f}m0 {-0.4 * h:.1f}l{-0.4 * w:.1f} {0.4 * h:.1f}"
    path = "".join(f"M{x:.1f} {y:.1f}{stroke}" for x, y in spots)
    return tag("path", d=path, stroke_opacity=0.75, stroke_width=1.5, **STROKES) if path else ""


def hatching(hidden, w, h, edge=False):
    """Slanted lines over the True cells of a table, each w x h pixels; edge: also a line around them."""
    path = ""
    for i, row in enumerate(np.asarray(hidden, bool)):
        ends = np.flatnonzero(np.diff(row.astype(int), prepend=0, append=0)).tolist()
        for start, end in zip(ends[::2], ends[1::2], strict=True):
            path += f"M{start * w:.1f} {i * h:.1f}h{(end - start) * w:.1f}v{h:.1f}H{start * w:.1f}z"
    lines = tag("path", d=path, fill=draw.HATCHED, pointer_events="none") if path else ""
    return lines + (outline(hidden, w, h, stroke="currentColor", stroke_opacity=0.3) if edge and path else "")


def outline(cells, w, h, **ink):
    """A line around each group of True cells: the borders between True and False."""
    padded = np.pad(np.asarray(cells, bool), 1).astype(int)
    lying, standing = np.argwhere(np.diff(padded, axis=0)[:, 1:-1]), np.argwhere(np.diff(padded, axis=1)[1:-1])
    path = "".join(f"M{j * w:.1f} {i * h:.1f}h{w:.1f}" for i, j in lying.tolist())
    path += "".join(f"M{j * w:.1f} {i * h:.1f}v{h:.1f}" for i, j in standing.tolist())
    return tag("path", d=path, fill="none", pointer_events="none", **ink)


def heatmap(values, rows, columns, title="", of=SHARES, *, side=190, width=None, hidden=None, taken=None, row=None,
            beside=True, touch=None):  # fmt: skip
    """A heatmap of up to CELLS_UP_TO cells per side, with names and numbers where they fit.

    hidden, taken: cells that a mask hides, cells that dropout removed. row: the one to frame. beside: whether the rows'
    names stand at the left. touch: what choosing a row chooses, a name for each; one with {}, for the
    column, is that of a cell whose number can be typed over.
    """
    values = as_table(values)
    width, left = width or side, LEFT if beside else 0
    w, h, down = width / len(columns), side / len(rows), TOP + side
    table, dashed = draw_cells(values, rows, columns, width, side, of, hidden, taken, touch)
    if row is not None:
        table += frame(0, row * h, width, h, 3)
    parts = [move(table, left, TOP), move(draw.draw_title(title, width), left, 0)]
    foot = axis(columns, [left + (j + 0.5) * w for j in range(len(columns))], down, w, left + width, of.labels[1])
    if beside:
        parts += [*names_beside(rows, TOP, h), text(LEFT - 5, TOP - 8, f"{of.labels[0]} ↓", "end", **draw.PALE)]
        if hidden is not None and as_array(hidden).any():
            parts.append(masked_key(down + foot.height - 14))
        elif dashed:
            parts.append(text(LEFT - 7, down + 10, "−: below 0", "end", **draw.PALE))
    said = strongest(values.round(3), rows, columns) if row is None else f"{rows[row]}: {shares(columns, values[row])}"
    return Drawing("".join(parts) + foot.svg, left + width, down + foot.height, f"{title}, {said}.")


def influence_map(influence, tokens, *, side, limit):
    """How far each row moves with each token: grey, since it isn't a weight, and the future outlined in red."""
    future, each = causal_mask(len(tokens)), side / len(tokens)
    moves = Entries(NEUTRAL, limit, ("row", "perturbed token"), "perturbing {1} moves {0} by")
    table = heatmap(influence, tokens, tokens, of=moves, side=side)
    red = outline(future, each, each, stroke=ABOVE, stroke_width=2) if future.any() else ""
    return table._replace(svg=table.svg + move(red, LEFT, TOP), width=table.width + 1)  # the outer half of red


def axis(names, places, y, room, end, label):
    """Names below columns and what they are, at the right end; the Drawing's height is what they need."""
    height = (
        18 if not names or (room < SMALL and not draw.fit(names, room)) else 32 if draw.fit(names, room) else BOTTOM
    )
    written = draw.names_below(names, places, y, room)
    return Drawing(written + text(end, y + height - 4, f"{label} →", "end", **draw.PALE), end, height)


def names_beside(names, top, each):
    """Names to the left of rows of height `each`, if they fit."""
    shown = [draw.shorten(name) for name in names] if each >= SMALL else []
    return [text(LEFT - 5, top + (i + 0.5) * each + 4, name, "end") for i, name in enumerate(shown)]


def masked_key(y):
    """What hatching means, to the left of "key →", which no slanted name reaches; its words are 10 px below y."""
    slanted = tag("rect", width=10, height=9, fill=draw.HATCHED, stroke="currentColor", stroke_opacity=0.5)
    return move(slanted, LEFT - 59, y + 2) + text(LEFT - 7, y + 10, "masked", "end", **draw.PALE)


def head_maps(maps, tokens, limit, hidden, taken=None, width=640, height=400, row=None, names=None,
              bar=None, touch=None, whole=None):  # fmt: skip
    """One map per head (num_heads, num_tokens, num_tokens), as large as will fit.

    limit: the value with full colour. hidden: (num_tokens, num_tokens); taken: like maps, or None; row: the row to
    frame in each map; names: of the heads; bar: a colour bar, drawn to the right of the maps in extra space.
    touch: what choosing a row chooses, a name for each; whole: what choosing a map chooses, words by name.
    """
    n, small = len(tokens), len(tokens) <= CELLS_UP_TO
    corners, side, last = places_of(len(maps), n, width, height)
    each, down = side / n, corners[-1][1] + side
    parts = [text(LEFT - 5, HEAD - 7, "query ↓", "end", **draw.PALE)]
    parts += [head_at(*at, k, names[k] if names else f"head {k + 1}") for k, at in enumerate(corners)]
    drawings = maps_at(corners, side, maps, tokens, limit, hidden, taken, touch=touch)
    if whole and small:
        named = zip(drawings, whole.items(), strict=True)
        drawings = [tag("g", drawn, says, data_touch=name) for drawn, (name, says) in named]
    below = [corner for corner in corners if corner[1] == corners[-1][1]][:: 1 if small else -1]
    for x, _ in below if small else below[:1]:
        foot = axis(tokens if small else [], [x + (k + 0.5) * each for k in range(n)], down, each, x + side, "key")
        parts.append(foot.svg)
    parts += [masked_key(down + foot.height - 14)] if as_array(hidden).any() else []
    for x, y in corners:
        if x == LEFT and small:
            parts += names_beside(tokens, y, each)
        if x == LEFT and row is not None and each < SMALL:  # the other rows have no room for their names
            parts.append(text(LEFT - 5, y + (row + 0.5) * each + 4, draw.shorten(tokens[row]), "end"))
    parts += drawings
    parts += [frame(x, y + row * each, side, each, 2) for x, y in corners if row is not None]
    if bar:
        parts.append(move(bar.svg, last + GAP, 0))
        width += GAP + bar.width
    return Drawing("".join(parts), width, height, tell_heads(maps, tokens, -1 if row is None else row))


def tell_largest(rows, names):
    """For each row of weights, the three names with the largest ones, and these, in words."""
    rows = torch.as_tensor(rows)
    best = rows.round(decimals=3).argsort(dim=-1, descending=True, stable=True)[:, :3]  # no CPU's last bits decide
    told = zip(best.tolist(), rows.gather(-1, best).tolist(), strict=True)
    return [", ".join(f"{names[at]} {number(share)}" for at, share in zip(*row, strict=True)) for row in told]


def tell_heads(maps, tokens, row=-1):
    """What one token looks at, by head, in words."""
    each = [f"head {head}: {said}" for head, said in enumerate(tell_largest(maps[:, row], tokens), 1)]
    return f"{tokens[row]} looks at, by {'; '.join(each)}."


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
        each = zip(maps, corners, strict=True)
        rows = [move(touch_rows(table, tokens, touch, side), *at) for table, at in each if touch]
        return [draw_image(maps, limit, as_array(hidden), corners, side / len(tokens)), *rows]
    taken = [None] * len(maps) if taken is None else taken
    each = [Entries(head_ink(head), limit, decimals=decimals) for head in range(len(maps))]
    drawn = [
        draw_cells(table, tokens, tokens, side, side, of, hidden, gone, touch)[0]
        for table, of, gone in zip(maps, each, taken, strict=True)
    ]
    return [move(svg, *corner) for svg, corner in zip(drawn, corners, strict=True)]


def touch_rows(table, tokens, touch, side):
    """Over an image: rows that can be chosen, each with what it looks at as a tooltip."""
    each, told = side / len(tokens), tell_largest(table, tokens)
    says = [LOOKS.format(token, said) for token, said in zip(tokens, told, strict=True)]
    rects = [
        tag("rect", says=said, y=i * each, width=side, height=each, data_touch=name)
        for i, (said, name) in enumerate(zip(says, touch, strict=True))
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


def draw_image(maps, limit, hidden, corners, cell):
    """All heads as one image, one pixel per cell; hidden cells are hatched."""
    n = maps.shape[1]
    places = [(round(y / cell), round((x - LEFT) / cell)) for x, y in corners]
    sheet = np.zeros([max(side) + n for side in zip(*places, strict=True)], np.uint8)
    blocks = HEAD_PALETTE.indices(maps, limit, np.arange(len(maps)).reshape(-1, 1, 1) % 8) * (hidden == 0)
    for block, (y, x) in zip(blocks, places, strict=True):
        sheet[y : y + n, x : x + n] = block
    hatched = hatching(hidden, cell, cell, edge=True)
    over = "".join(move(hatched + frame(0, 0, n * cell, n * cell, 0.5), x, y) for x, y in corners)
    return pixels(sheet, HEAD_PALETTE, LEFT, 0, cell * sheet.shape[1], cell * sheet.shape[0]) + over


def pixels(sheet, palette, x, y, width, height, look="pixelated", **more):
    """An image with one pixel per cell, each the index of a colour in the palette."""
    room = {"x": x, "y": y, "width": width, "height": height, "preserveAspectRatio": "none"}
    return tag("image", href=palette.png(sheet), style=f"image-rendering:{look}", **room, **more)


def colour_bar(limit=1.0, shade=PAGE_INK, height=190, more=False):
    """A colour bar, one for all maps with the same limit; in the page's colour for maps of several heads.

    more: full colour also stands for larger values.
    """
    signed, most = shade.below != shade.above, f"{limit:.2g}" if limit < 100 else f"{limit:.0f}"
    words = {0.0: most, 0.5: "0", 1.0: f"-{most}"} if signed else {0.0: most, 1.0: "0"}
    shown = np.linspace(FULL, -FULL if signed else 0, 17).astype(int).tolist()
    each = height / len(shown)
    step = f'<rect y="{{:.2f}}" width="12" height="{each + 0.3:.2f}" {{}}/>'.format
    steps = "".join(step(n * each, shade.cells[level]) for n, level in enumerate(shown))
    bar = f'<g transform="translate(0,{TOP})" {shade.group}>{steps}</g>'
    bar += move(tag("rect", width=12, height=height, stroke_opacity=0.3, **FRAME), 0, TOP)
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
    of = Entries(SIGNED_INK, largest(vectors), ("token", label), "{}, entry {}", told=told)
    table = heatmap(vectors, names, columns, title, of, side=height, width=width, beside=beside)
    each, left, bands, start = width / len(columns), LEFT if beside else 0, "", 0
    for head, group in itertools.groupby(owners or []):
        entries = len(list(group))
        place = {"x": left + start * each + 0.5, "width": entries * each - 1}
        bands += tag("rect", y=TOP - 6, height=5, fill=head_colour(head), **place)
        start += entries
    return table._replace(svg=table.svg + bands)

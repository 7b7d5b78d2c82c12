"""Arrays to SVG: heatmaps, single or one per head, their colour bars, and strips of vectors."""

import math

import numpy as np
import torch

from attention_course.plots import KEY_TEXT, QUERY_TEXT, WRONG, as_array, as_table, head_colour, strongest
from attention_helpers.layers import causal_mask

from . import svg as draw
from .ink import FULL, HEAD_PALETTE, NEUTRAL, PAGE_INK, ink
from .svg import BOTTOM, FRAME, LEFT, SMALL, TOP, Drawing, move, number, tag, text
from .svg_cells import SHARES, Entries, draw_cells, hatching, outline
from .words import LOOKS, shares

CELLS_UP_TO = 16  # cells per side that are separate shapes; a larger map is one small image
NAMED = {"query": {"fill": QUERY_TEXT}, "key": {"fill": KEY_TEXT}}  # queries and keys have their colours as names, too
GAP, HEAD = 14, 24  # between the maps of a grid; above each, for its head's name


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
        parts += [*names_beside(rows, TOP, h, of.labels[0]), what_rows_are(of.labels[0], TOP - 8)]
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
    red = outline(future, each, each, stroke=WRONG, stroke_width=2) if future.any() else ""
    return table._replace(svg=table.svg + move(red, LEFT, TOP), width=table.width + 1)  # the outer half of red


def axis(names, places, y, room, end, label):
    """Names below columns and what they are, at the right end; the Drawing's height is what they need."""
    fits, written = draw.fit(names, room), draw.names_below(names, places, y, room)
    height = 18 if not names or (room < SMALL and not fits) else 32 if fits else BOTTOM
    named = text(end, y + height - 4, f"{label} →", "end", **NAMED.get(label, draw.PALE))
    return Drawing(tag("g", written, **NAMED.get(label, {})) + named, end, height)


def what_rows_are(label, y):
    return text(LEFT - 5, y, f"{label} ↓", "end", **NAMED.get(label, draw.PALE))


def names_beside(names, top, each, label="query"):
    """Names to the left of rows of height `each`, if they fit; label: what the rows are."""
    shown = [draw.shorten(name) for name in names] if each >= SMALL else []
    look = NAMED.get(label, {})
    return [text(LEFT - 5, top + (i + 0.5) * each + 4, name, "end", **look) for i, name in enumerate(shown)]


def masked_key(y):
    """What hatching means, to the left of "key →", which no slanted name reaches; its words are 10 px below y."""
    slanted = tag("rect", width=10, height=9, fill=draw.HATCHED, stroke="currentColor", stroke_opacity=0.5)
    return move(slanted, LEFT - 59, y + 2) + text(LEFT - 7, y + 10, "masked", "end", **draw.PALE)


def head_maps(maps, tokens, limit, hidden, taken=None, width=640, height=400, row=None, names=None,
              bar=None, touch=None):  # fmt: skip
    """One map per head (num_heads, num_tokens, num_tokens), as large as will fit.

    limit: the value with full colour. hidden: (num_tokens, num_tokens); taken: like maps, or None; row: the row to
    frame in each map; names: of the heads; bar: a colour bar, drawn to the right of the maps in extra space.
    touch: what choosing a row chooses, a name for each.
    """
    n, small = len(tokens), len(tokens) <= CELLS_UP_TO
    corners, side, last = places_of(len(maps), n, width, height)
    each, down = side / n, corners[-1][1] + side
    parts = [what_rows_are("query", HEAD - 7)]
    parts += [head_at(*at, k, names[k] if names else f"head {k + 1}") for k, at in enumerate(corners)]
    drawings = maps_at(corners, side, maps, tokens, limit, hidden, taken, touch=touch)
    below = [x for x, y in corners if y == corners[-1][1]]
    for x in below if small else below[-1:]:
        foot = axis(tokens if small else [], [x + (k + 0.5) * each for k in range(n)], down, each, x + side, "key")
        parts.append(foot.svg)
    parts += [masked_key(down + foot.height - 14)] if as_array(hidden).any() else []
    for x, y in corners:
        if x == LEFT and small:
            parts += names_beside(tokens, y, each)
        if x == LEFT and row is not None and each < SMALL:  # the other rows have no room for their names
            parts.append(text(LEFT - 5, y + (row + 0.5) * each + 4, draw.shorten(tokens[row]), "end"))
    parts += drawings
    thick = 2 if small else 0.8  # or it would hide a row of few pixels
    parts += [frame(x, y + row * each, side, each, thick) for x, y in corners if row is not None]
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


def tell_heads(maps, tokens, row):
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
    drawn = []
    for head, (table, gone, corner) in enumerate(zip(maps, taken, corners, strict=True)):
        of = Entries(ink(head_colour(head)), limit, decimals=decimals)
        drawn.append(move(draw_cells(table, tokens, tokens, side, side, of, hidden, gone, touch)[0], *corner))
    return drawn


def touch_rows(table, tokens, touch, side):
    """Over an image: rows that can be chosen, each with what it looks at as a tooltip."""
    each, rects = side / len(tokens), []
    for i, (token, said, name) in enumerate(zip(tokens, tell_largest(table, tokens), touch, strict=True)):
        says = LOOKS.format(token, said)
        rects.append(tag("rect", says=says, y=i * each, width=side, height=each, data_touch=name))
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


def colour_bar(limit, shade=PAGE_INK, height=190):
    """A colour bar, one for all maps with the same limit; in the page's colour for maps of several heads."""
    signed, most = shade.below != shade.above, f"{limit:.2g}" if limit < 100 else f"{limit:.0f}"
    words = {0.0: most, 0.5: "0", 1.0: f"-{most}"} if signed else {0.0: most, 1.0: "0"}
    shown, each = np.linspace(FULL, -FULL if signed else 0, 17).astype(int).tolist(), height / 17
    step = f'<rect y="{{:.2f}}" width="12" height="{each + 0.3:.2f}" {{}}/>'.format
    steps = "".join(step(n * each, shade.cells[level]) for n, level in enumerate(shown))
    bar = f'<g transform="translate(0,{TOP})" {shade.group}>{steps}</g>'
    bar += move(tag("rect", width=12, height=height, stroke_opacity=0.3, **FRAME), 0, TOP)
    bar += "".join(text(17, TOP + share * height + 4, word, "start") for share, word in words.items())
    bar += text(17, TOP + 16, "or more", "start") if not signed and limit < 1 else ""
    return Drawing(bar, 60, TOP + height + 6)

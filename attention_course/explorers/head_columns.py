"""Notebooks 05 and 06: a head is a column. Its plane, its map, and below it its part of the last token's context."""

from attention_course.plots import BELOW, KEY_TEXT, head_colour
from attention_helpers.layers import causal_mask

from .ink import ink, largest, weight_limit
from .plane import arrow, draw_plane
from .svg import HATCHED, PALE, SMALL, Drawing, line, move, number, shorten, tag, text
from .svg_cells import Entries, draw_cells
from .svg_maps import frame, head_at, names_beside, tell_heads

WHOLE, LEFT = 789, 54  # a picture's width, which shrinks to three quarters where there's least room; the rows' names
BAR, FOOT = 24, 22  # the heights of the context's bar, and of the line below it
ROOMY, NAMED = 25, 150  # pixels of a cell, from which columns have whole names; of a column, whose head says more
GAP, BEAM = 14, 26  # between columns; from the lowest row to the context
LEAST_PLANE = 90  # pixels of a plane above a map, unless its column is narrower


def sizes_of(count, high, planes=True):
    """By how many heads there are, the widths of a column, of its map and of its plane, in a picture so high.

    planes: whether there are any.
    """
    card = (WHOLE - LEFT) / count
    room = high - FOOT - BAR - BEAM - 44  # 44: a head's name and the keys' names
    if count <= 2:
        side = min(230, room)
        return card, side, min(card - side - 2 * GAP, 150)
    side = min(card - GAP, room - (LEAST_PLANE + 8) * planes)
    return card, side, min(card - GAP, room - side - 8)


def head_columns(state, high):
    """Heads as columns, all in one width: the wider the fewer; a head is switched off and on by its map."""
    card, side, flat = sizes_of(len(state.weights), high, bool(state.planes))
    floor = high - FOOT - BAR - BEAM  # where the maps end
    planes = draw_planes(state, card, side, flat, floor) if state.planes else []
    names = move("".join(names_beside(state.tokens, 0, side / len(state.tokens))), LEFT - 64, floor - side)
    maps = [draw_column(state, head, card, side, flat, floor) for head in range(len(state.weights))]
    context = draw_context(state, card, side, floor)
    said = tell_heads(state.weights, state.tokens, -1)
    return Drawing("".join([names, *maps, *planes, context, draw_key(state, high)]), WHOLE, high, said)


def column_at(head, card):
    return LEFT + head * card


def draw_column(state, head, card, side, flat, floor):
    """A head's name, what its last row reads most, and its map."""
    tokens, x, top, n = state.tokens, column_at(head, card), floor - side, len(state.tokens)
    row, each = state.weights[head, -1], side / n
    above = top - 22 if len(state.weights) <= 2 or not state.planes else top - 28 - flat
    parts = [head_at(x, above + 6, head, f"head {head + 1}")]
    if card >= NAMED:
        most = int(row.argmax())
        parts.append(text(x + max(side, 110), above, f"{tokens[most]} {number(row[most])}", "end", **PALE))
    short = each < ROOMY
    names = [name[-1] if name.endswith("?") else name[0] for name in tokens] if short else map(shorten, tokens)
    named = [text((k + 0.5) * each, -5, name, fill=KEY_TEXT) for k, name in enumerate(names)]
    look = Entries(ink(head_colour(head)), weight_limit(n))
    table, _ = draw_cells(state.weights[head], tokens, tokens, side, side, look, causal_mask(n), state.dropped[head])
    table += frame(0, side - each, side, each, 2)
    says = f"head {head + 1}: choose it to switch it off or on"
    whole = tag("g", table, says, data_touch=f"off {head}")
    return "".join(parts) + move("".join(named) + whole, x, top)


def draw_planes(state, card, side, flat, floor):
    """Each head's plane: beside its map if there's room, else above it."""
    drawn = []
    for head, plane in enumerate(state.planes):
        x, y = column_at(head, card), floor - side - 22 - flat
        if len(state.planes) <= 2:
            x, y = x + side + GAP, floor - side
        drawn.append(move(draw_plane(plane, head, flat, (f"key {head},{{}}", "", f"asked {head},0")), x, y))
    return drawn


def draw_context(state, card, side, floor):
    """The last token's context vector across the full width, each head's part joined to its map."""
    values, top = state.context[-1].tolist(), floor + BEAM
    width, most, parts = (WHOLE - LEFT) / len(values), largest(state.context), []
    for head in range(len(state.weights)):
        x = column_at(head, card)
        beam = f"M{x:.1f} {floor}h{side:.1f}L{x + card - 2:.1f} {top}H{x:.1f}z"
        parts.append(tag("path", d=beam, fill=head_colour(head), fill_opacity=0.2))
    for n, value in enumerate(values):
        shade = ink(head_colour(n * len(state.weights) // len(values)), BELOW)
        level = round(64 * value / most)
        place = f'x="{LEFT + n * width:.1f}" y="{top}" width="{width:.1f}" height="{BAR}"'
        says = f"{state.tokens[-1]}, entry {n}: {number(value, 4 if state.accuracy is None else 2)}"
        parts.append(f"<rect {place} {shade.cells[level]}><title>{says}</title></rect>")
        if width >= 30:
            spot = f'x="{LEFT + (n + 0.5) * width:.1f}" y="{top + 16}" font-size="{SMALL}" text-anchor="middle"'
            parts.append(f"<text {spot} {shade.numbers[level]}>{number(value, 1)}</text>")
        elif level < -3:
            x, y = LEFT + (n + 0.3) * width, top + BAR / 2
            parts.append(line(x, y, x + 0.4 * width, y, stroke="currentColor"))
    parts.append(frame(LEFT, top, WHOLE - LEFT, BAR, 2))
    parts.append(text(LEFT - 5, top + 11, "context", "end") + text(LEFT - 5, top + 22, f"of {state.tokens[-1]}", "end"))
    return "".join(parts)


def draw_key(state, high):
    """What squares, arrows, hatching and colours mean, in one line."""
    y, x, limit = high - 5, LEFT, weight_limit(len(state.tokens))
    parts = []
    if state.planes:
        parts.append(arrow((x, y - 4), (x + 14, y - 4), "currentColor") + text(x + 19, y, "last query", "start"))
        parts.append(
            tag("rect", x=x + 90, y=y - 8, width=7, height=7) + text(x + 102, y, "key, filled by its weight", "start")
        )
        x += 240
    slanted = tag("rect", x=x, y=y - 9, width=10, height=9, fill=HATCHED, stroke="currentColor", stroke_opacity=0.5)
    parts.append(slanted + text(x + 15, y, "masked", "start", **PALE))
    more = " or more" if limit < 1 or state.dropout else ""
    parts.append(text(x + 70, y, f"full colour: {limit:.2g}{more}", "start", **PALE))
    below = tag("rect", x=x + 210, y=y - 9, width=10, height=9, fill=BELOW)
    parts.append(below + text(x + 225, y, "below 0, in the context", "start", **PALE))
    return "".join(parts)

"""A complete MultiHeadAttention in one picture, from tokens to output, with the line of code for the current stage.

Arrows carry what happens on the way: queries and keys go to the maps at the top, values straight to the contexts below
them. What isn't computed yet is pale.
"""

from functools import lru_cache

from ..core import causal_mask
from ..plots import ABOVE, BELOW, as_table, head_colour
from .ink import SIGNED, SIGNS, largest, levels, weight_limit
from .lesson_06_stages import ORDER, lines_at, reached, with_sizes
from .svg import FRAME, LEFT, PALE, SMALL, Drawing, beside, fit, moved, tag, text
from .svg_maps import Grid, colour_bar, head_maps, minuses, names_beside, pixels, places_of

MAPS = {"scores": "scores", "mask": "masked scores", "softmax": "weights", "dropout": "weights after dropout"}
MONO = 6.7  # the width of a letter of code
TOPS, HIGH, HEIGHT = (24, 146, 268), 80, 353  # of queries, keys and values; of each strip; of both drawings
MIDDLES = [top + HIGH / 2 for top in TOPS]
TOKENS, PARTS, CONTEXT, OUTPUT = (LEFT, 44), (178, 116), (134, 132), (346, 132)  # strips: their left edges and widths
LANE, MAPS_HIGH = 66, 230  # left of the maps, where arrows arrive; the maps with their names
MIXED = 486  # the width of all that is right of queries, keys and values
SIGNS_KEY = "".join(
    text(2, TOPS[1] + HIGH + 26 + 15 * n, words, "start", fill=colour)
    for n, (words, colour) in enumerate((("red: above 0", ABOVE), ("blue, −: below 0", BELOW)))
)
ENTRIES = 128  # most entries drawn as separate shapes


def line_of_code(state):
    """The line that computes the current stage; of two, the one with the stage's result."""
    words = with_sizes(lines_at(state.where)[-1], state)
    ground = tag("rect", width=580, height=19, rx=3, fill_opacity=0.12)
    return Drawing(ground + text(6, 13, words, "start", SMALL, font_family="monospace"), 580, 20)


def arrow(path, tip, current, done, turn=0):
    """A path that ends in an arrowhead at `tip`: strong if its stage is the current one, pale if that is still to come.

    turn: where the head points, in degrees clockwise from the right.
    """
    head = tag("path", d="M-7 -4L0 0L-7 4Z", transform=f"translate({tip[0]:.0f},{tip[1]:.0f}) rotate({turn})")
    line = tag("path", d=path, fill="none", stroke="currentColor", stroke_width=2 if current else 1)
    return tag("g", line + head, opacity=1 if current else 0.6 if done else 0.25)


def carried(words, x, y, current):
    """What an arrow carries: a piece of code, bold if it's what the current stage does."""
    look = {"font_weight": "bold"} if current else PALE
    return text(x, y, words, "start", font_family="monospace", **look)


@lru_cache(maxsize=64)
def arrows_to_parts(where):
    """From the tokens to queries, keys and values."""
    start, end, parts = sum(TOKENS) + 2, PARTS[0] - 3, []
    for place, matrix, y in zip(ORDER[1:4], ("W_query", "W_key", "W_value"), MIDDLES, strict=True):
        path = f"M{start} {MIDDLES[1]:.0f}H{start + 12}V{y:.0f}H{end - 5}"
        parts.append(arrow(path, (end, y), where == place, reached(where, place)))
        parts.append(carried(matrix, end - 3 - MONO * len(matrix), y - 6, where == place))
    return "".join(parts)


@lru_cache(maxsize=64)
def arrows_to_output(where, head_dim):
    """From queries and keys to the maps, from the maps and the values to the contexts, and from these to the output."""
    (queries, keys, values), meet, tip = MIDDLES, sum(MIDDLES[:2]) / 2 - 8, LANE - 1
    path = f"M0 {queries:.0f}H{tip - 14}V{keys:.0f}H0M{tip - 14} {meet:.0f}H{tip - 5}"
    parts = [arrow(path, (tip, meet), where in ORDER[4:8], reached(where, "scores"))]
    done = [("scores", "q · k"), ("mask", "mask"), ("softmax", f"÷ √{head_dim}"), ("softmax", "softmax")]
    done.append(("dropout", "dropout"))
    parts += [carried(words, 2, queries + 22 + 15 * n, where == place) for n, (place, words) in enumerate(done)]
    now, ready, middle = where == "context", reached(where, "context"), CONTEXT[0] - 12
    parts.append(
        arrow(f"M0 {values:.0f}H{tip - 5}", (tip, values), now, ready) + carried("· values", 2, values - 6, now)
    )
    parts.append(arrow(f"M{middle} {TOPS[2] - 30}V{TOPS[2] - 14}", (middle, TOPS[2] - 9), now, ready, 90))
    last, start, tip = where == "output", sum(CONTEXT) + 7, OUTPUT[0] - 5
    parts.append(arrow(f"M{start} {values:.0f}H{tip - 5}", (tip, values), last, last))
    return "".join(parts) + carried("out_proj", start + 8, values - 6, last)


@lru_cache(maxsize=64)
def heading(name, x, y, done):
    """What a drawing shows, and whether it's computed."""
    more = "" if done else tag("tspan", "not computed yet", dx=7, font_size=SMALL, font_weight="normal", **PALE)
    return tag("text", name + more, x=x, y=y, font_size=13, font_weight="bold")


def staged(svg, where, places, box, parts=1):
    """A drawing, pale if it isn't computed yet; framed at its own stages, in one frame or a frame for each part.

    box: where it is, (x, y, width, height).
    """
    # A group in each state: if it came and went, the site's script would make all that's in it again.
    svg = tag("g", svg, opacity=1 if reached(where, places[0]) else "0.15")
    if where not in places:
        return svg
    x, y, width, height = box
    each, room = width / parts, 3 if parts == 1 else -1  # a single frame has some room around what it frames
    size = {"y": y - 9, "width": each + 2 * room, "height": height + 12, "stroke_width": 2}
    return svg + "".join(tag("rect", x=x + n * each - room, **size, **FRAME) for n in range(parts))


def strip(state, places, vectors, room, top, num_heads=0):
    """Vectors (num_tokens, entries), one per row; with num_heads, a band above each head's entries."""
    (x, width), vectors = room, as_table(vectors)
    limit = largest(vectors)
    if vectors.size <= ENTRIES:
        grid = entries(tuple(state.tokens), vectors.shape[1], width, HIGH)
        svg = moved(grid.draw(vectors, decimals=None, limit=limit, ink=SIGNED, told=2), x, top)
    else:
        svg = pixels(SIGNS.signed(vectors, limit), SIGNS, x, top, width, HIGH)
        svg += moved(minuses(levels(vectors, limit), width / vectors.shape[1], HIGH / len(vectors)), x, top)
    title = heading(places[0], x, top - 13, reached(state.where, places[0]))
    parts = num_heads if state.where == "context" else 1  # there each head still has its own table
    svg += bands(x, top, width, num_heads)
    return title + staged(svg, state.where, places, (x, top, width, HIGH), max(1, parts))


@lru_cache(maxsize=64)
def entries(tokens, columns, width, height):
    """The grid that strips of one shape share."""
    return Grid(tokens, list(map(str, range(columns))), width, height, tell="{}, entry {}")


@lru_cache(maxsize=64)
def bands(x, top, width, num_heads):
    """Bands in the heads' colours above a strip, as wide as their entries."""
    each = width / (num_heads or 1)
    places = [{"x": x + n * each + 0.5, "width": each - 1, "fill": head_colour(n)} for n in range(num_heads)]
    return "".join(tag("rect", y=top - 6, height=5, **place) for place in places)


def projections(state):
    """Tokens, with arrows to their queries, keys and values."""
    parts = [*names_beside(state.tokens, TOPS[1], HIGH / len(state.tokens)), arrows_to_parts(state.where), SIGNS_KEY]
    parts.append(strip(state, ["tokens"], state.x, TOKENS, TOPS[1]))
    for place, top, vectors in zip(ORDER[1:4], TOPS, state.steps, strict=False):
        rows = vectors[0].transpose(0, 1).flatten(1)  # (num_tokens, d_out)
        parts.append(strip(state, [place], rows, PARTS, top, len(vectors[0])))
    return Drawing("".join(parts), sum(PARTS), HEIGHT)


def drawn(state):
    """What the maps show: the scores, the weights, or, from dropout on and as long as they're pale, what it left."""
    if state.where in ("scores", "mask"):
        return state.steps.scores[0]
    return state.weights if state.where == "softmax" else state.shown


def maps(state):
    """One map per head, and their colour bar."""
    shown, tokens, future = drawn(state), state.tokens, causal_mask(len(state.tokens))
    signed, limit, width = state.where in ("scores", "mask"), weight_limit(len(tokens)), MIXED - LANE - 6
    look = {"tell": "{} reads {}", "taken": (shown == 0) & (state.weights > 0)}
    if signed:
        limit, look = largest(shown), {"tell": "{} meets {}", "signed": True}
    hidden, height = future & (state.where != "scores"), maps_height(len(shown), tokens, width)
    grid = head_maps(shown, tokens, limit, hidden, width=width, height=height, **look).svg
    bar = colour_bar(limit, SIGNED if signed else None, 56, more=not signed and limit < 1).svg
    box = LANE + 6, 25, places_of(len(shown), len(tokens), width, height)[2] - 4, MAPS_HIGH - 16
    both = moved(grid, LANE, 11) + moved(bar, 4, MIDDLES[1] - 14)
    title = heading(MAPS.get(state.where, "weights"), CONTEXT[0], 9, reached(state.where, "scores"))
    return staged(both, state.where, ORDER[4:8], box) + title


def maps_height(num_heads, tokens, width):
    """The height for the maps and their keys' names, which take less if they needn't be slanted."""
    tall = MAPS_HIGH + 14
    _, side, _ = places_of(num_heads, len(tokens), width, tall)
    return tall if fit(tokens, side / len(tokens)) else MAPS_HIGH


def mixed(state):
    """The maps, and below them the heads' contexts side by side, and the output."""
    num_heads, head_dim = state.steps.queries.shape[1], state.steps.queries.shape[3]
    names = "".join(names_beside(state.tokens, TOPS[2], HIGH / len(state.tokens)))
    parts = [maps(state), moved(names, LANE, 0), arrows_to_output(state.where, head_dim)]
    parts.append(strip(state, ORDER[8:10], state.context, CONTEXT, TOPS[2], num_heads))
    parts.append(strip(state, ORDER[10:], state.output, OUTPUT, TOPS[2]))
    return Drawing("".join(parts), MIXED, HEIGHT)


def whole_layer(state):
    """Rows of drawings."""
    return [[line_of_code(state)], [beside(projections(state), mixed(state), gap=4)]]

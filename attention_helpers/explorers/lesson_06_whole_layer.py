"""A complete MultiHeadAttention in one picture, from tokens to output, next to the code that computes it."""

import inspect
import re
from functools import lru_cache

from ..core import causal_mask
from ..layers import MultiHeadAttention
from ..plots import as_table, head_colour
from .ink import SIGNED, SIGNS, largest, weight_limit
from .multi_head import taken_from
from .svg import FRAME, LEFT, PALE, TOP, Drawing, below, beside, moved, tag, text, title_of
from .svg_maps import Grid, colour_bar, head_maps, names_beside, pixels

PLACES = {  # the places in the layer, and the beginnings of the code lines that compute them
    "tokens": "b, num_tokens",
    "queries": "queries",
    "keys": "keys",
    "values": "values",
    "scores": "scores",
    "mask": "mask",
    "softmax": "weights",
    "dropout": "context = context_vectors",
    "context": "context = context_vectors",
    "side by side": "context = context.",
    "output": "return",
}
ORDER = list(PLACES)
WIDTH, GAP, ENTRIES = 502, 14, 128  # left half; between strips; most entries drawn as separate shapes
CODE = 482  # the right half's width


@lru_cache
def code():
    """The lines that compute something: assignments in MultiHeadAttention.steps, and what forward returns."""
    text = inspect.getsource(MultiHeadAttention.steps) + inspect.getsource(MultiHeadAttention.forward)
    return [line for line in map(str.strip, text.splitlines()) if re.match(r"\w+(, \w+)* = |return self", line)]


def lines_at(where):
    return [line for line in code() if line.startswith(PLACES[where])]


def with_sizes(line, state):
    """A line of code, with the current sizes in its comment."""
    num_heads, num_tokens, head_dim = state.steps.queries.shape[1:]
    sizes = {"b": 1, "num_heads": num_heads, "num_tokens": num_tokens, "head_dim": head_dim}
    start, hash_sign, comment = line.partition("#")
    sizes["d_out"] = num_heads * head_dim
    return start + hash_sign + re.sub(r"\w+", lambda word: str(sizes.get(word[0], word[0])), comment)


def listing(state):
    """The code, with a mark on the lines that compute the current place."""
    parts, lit = [text(0, TOP - 12, "the code of the layer", "start", 13, font_weight="bold")], lines_at(state.where)
    for n, line in enumerate(code()):
        y = TOP + 15.5 * n
        if line in lit:
            parts.append(tag("rect", x=0, y=y, width=CODE, height=15.5, fill_opacity="0.15"))
        parts.append(text(5, y + 11.5, with_sizes(line, state), "start", 10.2, font_family="monospace"))
    return Drawing("".join(parts), CODE, 200)


def reached(svg, state, places, x, y, width, height):
    """The drawing, pale if it isn't computed yet, framed if it's the current place."""
    if ORDER.index(state.where) < ORDER.index(places[0]):
        return tag("g", svg, opacity="0.15")
    room = {"x": x - 3, "y": y - 9, "width": width + 6, "height": height + 12}
    return svg + (tag("rect", stroke_width=2, **room, **FRAME) if state.where in places else "")


def strip(state, places, vectors, x, width, height, formula, num_heads=0):
    """Vectors (num_tokens, entries), one per row, at (x, TOP); with num_heads, a band above each head's entries."""
    vectors = as_table(vectors)
    limit = largest(vectors)
    if vectors.size <= ENTRIES:
        grid = entries(tuple(state.tokens), vectors.shape[1], width, height)
        svg = moved(grid.draw(vectors, decimals=None, limit=limit, ink=SIGNED, told=2), x, TOP)
    else:
        svg = pixels(SIGNS.signed(vectors, limit), SIGNS, x, TOP, width, height)
    svg = reached(svg + bands(x, width, num_heads), state, places, x, TOP, width, height)
    return svg + moved(title_of(places[0], width), x, -2) + text(x + width / 2, TOP + height + 16, formula, **PALE)


@lru_cache(maxsize=64)
def entries(tokens, columns, width, height):
    """The grid that strips of one shape share."""
    return Grid(tokens, list(map(str, range(columns))), width, height, tell="{}, entry {}")


@lru_cache
def bands(x, width, num_heads):
    """Bands in the heads' colours above a strip, as wide as their entries."""
    each = width / (num_heads or 1)
    places = [{"x": x + n * each + 0.5, "width": each - 1, "fill": head_colour(n)} for n in range(num_heads)]
    return "".join(tag("rect", y=TOP - 6, height=5, **place) for place in places)


def projections(state):
    """Tokens and their queries, keys and values, with bands for the heads."""
    height, x, steps = 145, LEFT, state.steps
    parts = names_beside(state.tokens, TOP, height / len(state.tokens))
    parts.append(strip(state, ["tokens"], state.x, x, 60, height, "x"))
    x += 60 + GAP
    for place, vectors, matrix in zip(ORDER[1:4], steps[:3], ("W_query", "W_key", "W_value"), strict=True):
        rows = vectors[0].transpose(0, 1).flatten(1)  # (num_tokens, d_out)
        parts.append(strip(state, [place], rows, x, 112, height, f"{matrix}(x)", len(vectors[0])))
        x += 112 + GAP
    return Drawing("".join(parts), WIDTH, 200)


def maps(state):
    """One map per head: the scores, the masked scores, the weights, or the weights after dropout."""
    limit, signed, tell = weight_limit(len(state.tokens)), False, "{} reads {}"
    shown, hidden, taken = state.weights, causal_mask(len(state.tokens)), None
    if state.where in ("scores", "mask"):
        shown, limit, signed = state.steps.scores[0], largest(state.steps.scores), True
        hidden, tell = hidden & (state.where == "mask"), "{} meets {}"
    elif state.where != "softmax":
        shown, taken = state.shown, taken_from(state)
    grid = head_maps(shown, state.tokens, limit, hidden, taken, WIDTH - 72, 276, signed=signed, tell=tell)
    bar = colour_bar(limit, SIGNED if signed else None, 150, more=not signed and limit < 1)
    both = beside(Drawing(reached(grid.svg, state, ORDER[4:8], LEFT, 11, WIDTH - 72 - LEFT, 206), *grid[1:]), bar)
    here = state.where if state.where in ORDER[4:8] else "dropout"  # which of the four is drawn
    names = [tag("tspan", name, font_weight="bold" if name == here else "normal") for name in ORDER[4:8]]
    chain = tag("text", " → ".join(names), x=LEFT, y=14, font_size=13)
    return below(Drawing(chain, WIDTH, 20), both, gap=4)


def mixed(state):
    """The heads' contexts side by side, and the output."""
    room, formula, names = (LEFT, CODE - LEFT - 4, 95), "weights · values, head after head", state.tokens
    context = strip(state, ORDER[8:10], state.context, *room, formula, len(state.weights))
    context += "".join(names_beside(names, TOP, 95 / len(names)))  # only once, because many texts make a page slow
    output = strip(state, ORDER[10:], state.output, *room, "out_proj(context)")
    return below(*(Drawing(svg, CODE, 143) for svg in (context, output)), gap=10)


def whole_layer(state):
    """Rows of drawings."""
    return [[projections(state), listing(state)], [maps(state), mixed(state)]]

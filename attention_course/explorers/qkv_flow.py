"""Notebook 02's picture: how embeddings become queries, keys and values, then scores, weights and a context vector."""

from typing import NamedTuple

from attention_course.plots import KEY, KEY_TEXT, QUERY, QUERY_TEXT, VALUE, VALUE_TEXT

from .ink import FULL, KEY_INK, NEUTRAL, QUERY_INK, SIGNED_INK, VALUE_INK, WEIGHT_INK, Ink, largest
from .svg import Drawing, move, number, tag, text
from .svg_cells import Entries, draw_cells
from .svg_maps import frame
from .words import shares

SYMBOLS = "ABC123?"  # an embedding's entries
ASKED = 3  # the row of the question
ROW, LOW = 22, 15  # the height of a token's row, and of a matrix's
WIDE, SIDE = 112, 148  # of queries, keys and values; of the two maps
DOWN = 148  # from one matrix to the next
LEFT_PIECE, RIGHT_PIECE, HIGH = 500, 448, 436
MAKES, NARROW = (32, 208, 366), 84  # where embeddings, matrices and what they make begin; a matrix's width
BLACK, PALE = "currentColor", {"fill_opacity": 0.7}


class Kind(NamedTuple):
    """One of queries, keys and values: its matrix's name, its letter, its ink, and its colours in shapes and text."""

    name: str
    matrix: str
    ink: Ink
    shape: str
    words: str


KINDS = (
    Kind("queries", "W_query", QUERY_INK, QUERY, QUERY_TEXT),
    Kind("keys", "W_key", KEY_INK, KEY, KEY_TEXT),
    Kind("values", "W_value", VALUE_INK, VALUE, VALUE_TEXT),
)


def decimals_of(values):
    """Decimals that are enough for numbers made by hand."""
    return 0 if (values == values.round()).all() else 1


def draw_table(values, rows, columns, corner, size, look, *, above=False, edge="", tokens=BLACK, touch=None):
    """A table of entries at a corner (x, y), with its rows' names at the left and its columns' below it or above."""
    (x, y), (width, height) = corner, size
    cell = width / len(columns)
    each = height / len(rows)
    parts = [move(draw_cells(values, rows, columns, width, height, look, touch=touch)[0], x, y)]
    parts += [text(x - 5, y + (n + 0.5) * each + 4, name, "end", fill=tokens) for n, name in enumerate(rows)]
    line = y - 5 if above else y + height + 12
    fill = KEY_TEXT if tokens == QUERY_TEXT else BLACK
    named = [] if touch else columns  # a matrix is close above the next one's name; it says them where it's touched
    parts += [text(x + (n + 0.5) * cell, line, name, fill=fill) for n, name in enumerate(named)]
    if edge:
        parts.append(tag("rect", x=x, y=y, width=width, height=height, fill="none", stroke=edge, pointer_events="none"))
    return "".join(parts)


def draw_arrow(start, end, colour, bend=True):
    """An arrow to the right or down, in the hue of what it carries."""
    (x, y), (u, v) = start, end
    right = abs(u - x) > 1
    path = f"M{x} {y}L{u} {v}"
    if bend and right and abs(v - y) > 1:
        middle = (x + u) / 2
        path = f"M{x} {y}C{middle:.0f} {y} {middle:.0f} {v} {u - 6} {v}"
    tip = f"M{u} {v}l-8 -4v8z" if right else f"M{u} {v}l-4 -8h8z"
    stroke = {"fill": "none", "stroke": colour, "stroke_width": 2}
    return tag("path", d=path, pointer_events="none", **stroke) + tag("path", d=tip, fill=colour)


def pill(x, y, words, done):
    """An operation: black if it's done, dashed if it isn't yet."""
    box = {"x": x, "y": y, "width": 68, "height": 20, "rx": 10}
    if done:
        return tag("rect", fill=BLACK, **box) + text(x + 34, y + 14, words, fill="var(--jp-layout-color0, #fff)")
    dashes = {"fill": "none", "stroke": BLACK, "stroke_opacity": 0.5, "stroke_dasharray": "4 3"}
    return tag("rect", **dashes, **box) + text(x + 34, y + 14, words, **PALE)


def heading(x, y, words, kind=None):
    """A table's name; queries, keys and values have their letter before it."""
    if kind is None:
        return text(x, y, words, "start", 13, font_weight="bold")
    badge = tag("rect", x=x, y=y - 13, width=17, height=17, rx=3, fill=kind.shape)
    place = f'x="{x + 8.5}" y="{y}" text-anchor="middle" font-size="12"'
    letter = f"<text {place} {kind.ink.numbers[FULL]}>{words[0].upper()}</text>"
    return badge + letter + text(x + 22, y, words, "start", 13, font_weight="bold", fill=kind.words)


def draw_sources(state, tokens, embeddings):
    """Embeddings, the three matrices, and the queries, keys and values that they make."""
    wide = state.queries.shape[1]
    top = 22 + DOWN
    named = []
    look = Entries(NEUTRAL, 1.0, ("token", "entry"), "embedding of {}, entry {}", 0)
    parts = [heading(MAKES[0], top - 22, "embeddings")]
    size = WIDE, 4 * ROW
    parts.append(draw_table(embeddings, tokens, SYMBOLS, (MAKES[0], top), size, look, above=True))
    parts.append(frame(MAKES[0], top + ASKED * ROW, WIDE, ROW, 2))
    for n, kind in enumerate(KINDS):
        y = 22 + n * DOWN
        columns = columns_of(kind, wide)
        parts.append(draw_kind(state, kind, tokens, columns, y))
        middle = y + 46
        parts.append(draw_arrow((MAKES[0] + WIDE + 3, top + 44), (MAKES[1] - 16, middle), kind.shape))
        parts.append(draw_arrow((MAKES[1] + NARROW + 2, middle), (MAKES[2] - 38, middle), kind.shape))
        parts.append(draw_arrow((MAKES[2] + WIDE + 1, middle), (LEFT_PIECE, (96, 116, middle)[n]), kind.shape))
        named.append(f"{kind.name} of “B ?”: {shares(columns, getattr(state, kind.name)[ASKED])}")
    return Drawing("".join(parts), LEFT_PIECE, HIGH, "; ".join(named) + ".")


def columns_of(kind, wide):
    return SYMBOLS[3:6] if kind.name == "values" and wide == 3 else SYMBOLS[:wide]


def draw_kind(state, kind, tokens, columns, y):
    """A matrix, whose entries can be typed over, and the table that it makes."""
    matrix, made = state.matrices[kind.matrix], getattr(state, kind.name)
    told = f"{kind.matrix}, row {{}}, column {{}}"
    look = Entries(kind.ink, largest(matrix), ("entry", "entry"), told, decimals_of(matrix), 2)
    touch = [f"{kind.matrix} {{}},{row}" for row in range(len(matrix))]
    parts = [text(MAKES[1], y - 8, kind.matrix, "start", 12, font_weight="bold", fill=kind.words)]
    corner, size = (MAKES[1], y), (NARROW, 7 * LOW)
    parts.append(draw_table(matrix, SYMBOLS, columns, corner, size, look, edge=kind.shape, touch=touch))
    look = Entries(kind.ink, largest(made), ("token", "entry"), f"{kind.name}, {{}}, entry {{}}", decimals_of(made))
    parts.append(heading(MAKES[2], y - 7, kind.name, kind))
    parts.append(draw_table(made, tokens, columns, (MAKES[2], y), (WIDE, 4 * ROW), look, edge=kind.shape))
    row = ASKED if kind.name == "queries" else state.weights[ASKED].argmax().item()
    return "".join(parts) + frame(MAKES[2], y + row * ROW, WIDE, ROW, 2)


def draw_reading(state, tokens):
    """Scores, softmax, weights, and the context vectors, with the question's own numbers."""
    x, y = 36, 60
    right = RIGHT_PIECE - SIDE
    most = largest(state.scores)
    scores = Entries(SIGNED_INK, most, tell="score of {} for {}", decimals=decimals_of(state.scores))
    parts = [heading(x, 22, "scores"), text(x + 52, 22, "queries · keys", "start", **PALE)]
    corner, size = (x, y - 16), (SIDE, 4 * 30)
    parts.append(draw_table(state.scores, tokens, tokens, corner, size, scores, above=True, tokens=QUERY_TEXT))
    parts.append(frame(x, y - 16 + ASKED * 30, SIDE, 30, 2))
    parts += [pill(x + SIDE + 8, 52, "÷ √d_k", False), text(x + SIDE + 42, 47, "not yet", **PALE)]
    parts += [pill(x + SIDE + 8, 102, "softmax", True)]
    parts.append(draw_arrow((x + SIDE + 6, 149), (right - 34, 149), BLACK))
    parts += [heading(right, 22, "weights"), text(right + 58, 22, "rows sum to 1", "start", **PALE)]
    corner = right, y - 16
    parts.append(
        draw_table(state.weights, tokens, tokens, corner, size, Entries(WEIGHT_INK), above=True, tokens=QUERY_TEXT)
    )
    parts.append(frame(right, y - 16 + ASKED * 30, SIDE, 30, 2))
    return Drawing("".join(parts) + draw_context(state, tokens, right), RIGHT_PIECE, HIGH, say_reading(state, tokens))


def draw_context(state, tokens, x):
    """What each token reads, and below the scores the question's own row in numbers."""
    wide = state.context.shape[1]
    top = 22 + 2 * DOWN
    columns = SYMBOLS[3:6] if wide == 3 else SYMBOLS
    look = Entries(
        VALUE_INK, largest(state.context), ("token", "entry"), "context, {}, entry {}", 2 if wide == 3 else 1
    )
    parts = [draw_arrow((x + SIDE / 2, 170), (x + SIDE / 2, top - 30), WEIGHT_INK.above)]
    parts.append(text(x + SIDE / 2 + 10, 230, "· values", "start", fill=VALUE_TEXT, font_weight="bold"))
    parts += [heading(x, top - 10, "context"), text(x + 60, top - 10, "what it reads", "start", **PALE)]
    parts.append(draw_table(state.context, tokens, columns, (x, top), (SIDE, 4 * ROW), look))
    parts.append(frame(x, top + ASKED * ROW, SIDE, ROW, 2))
    return "".join(parts) + worked_line(state, tokens)


def listed(values, decimals):
    return f"({', '.join(number(value, decimals) for value in values.tolist())})"


def worked_line(state, tokens):
    """The question's row from query to context, in numbers."""
    best = state.weights[ASKED].argmax().item()
    query, key = state.queries[ASKED], state.keys[best]
    decimals = max(decimals_of(query), decimals_of(key))
    score = number(state.scores[ASKED, best].item(), decimals_of(state.scores))
    y = 232
    parts = [text(0, y, f"“{tokens[ASKED]}” meets “{tokens[best]}”", "start", 12, font_weight="bold")]
    lines = [
        (listed(query, decimals), QUERY_TEXT),
        (f"· {listed(key, decimals)}", KEY_TEXT),
        (f"= {score}, of which softmax makes {number(state.weights[ASKED, best].item())}", BLACK),
        (f"× {listed(state.values[best], decimals_of(state.values))}", VALUE_TEXT),
    ]
    parts += [text(0, y + 20 + 18 * n, words, "start", 12, fill=fill) for n, (words, fill) in enumerate(lines)]
    return "".join(parts)


def say_reading(state, tokens):
    said = [
        f"scores of “B ?”: {shares(tokens, state.scores[ASKED])}",
        f"weights: {shares(tokens, state.weights[ASKED])}",
    ]
    return f"{'; '.join(said)}; it reads {listed(state.context[ASKED], 2)}."

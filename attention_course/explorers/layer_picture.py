"""LayerExplorer's picture: verdicts, attention maps, influence, and what the layer returned."""

import html
import textwrap

from attention_course.plots import RIGHT_TEXT, WRONG, WRONG_TEXT

from .ink import SIGNED_INK, largest
from .svg import BOTTOM, LEFT, TOP, Drawing, line, tag, text
from .svg_maps import Entries, head_maps, heatmap, influence_map

MOST_MAPS = 12
WIDTH = 590  # of the verdicts, and of the maps
SIGNS = "✗⚠?•✓"  # of verdicts, in their order
LINES, PITCH, LETTERS = 10, 17, 84  # of the verdicts: how many lines, how high, and of how many letters
SIDE = 152  # of the maps
ASIDE, RESULT = 170, 108  # the side of the influence map; the height of the result


def draw_verdicts(verdicts):
    """The verdicts, what's wrong first, on LINES lines; what doesn't fit is in the tooltips, with all other words."""
    shown = sorted(verdicts.values(), key=lambda verdict: SIGNS.index(verdict[0]))[: LINES - 1]
    parts, y, spare = [], 1, LINES - len(shown)
    for sign, claim, words, *_ in shown:
        said = f"{claim}: {words}"
        more = min(len(textwrap.wrap(said, LETTERS)) - 1, spare)
        lines, spare = textwrap.wrap(said, LETTERS, max_lines=1 + more, placeholder=" …"), spare - more
        look = {"font_weight": "bold", "fill": {"✗": WRONG_TEXT, "✓": RIGHT_TEXT}.get(sign, "currentColor")}
        inside = text(8, y + 15, sign, "start", 15, **look) + in_lines(lines, len(claim), 28, y + 14)
        if sign == "✗":
            inside = callout(y, PITCH * len(lines) + 3) + inside
        parts.append(line(0, y, WIDTH, y, stroke="currentColor", stroke_opacity=0.15))
        parts.append(tag("g", inside, says=said.replace("`", "")))
        y += PITCH * len(lines) + 3
    words = " ".join(f"{sign} {claim}: {words}." for sign, claim, words, *_ in verdicts.values())
    return Drawing("".join(parts), WIDTH, LINES * PITCH + 26, words)


def callout(y, height):
    """The ground of what's wrong, with a bar at its left."""
    ground = tag("rect", y=y, width=WIDTH, height=height, fill=WRONG, fill_opacity=0.12)
    return ground + tag("rect", y=y, width=4, height=height, fill=WRONG)


def in_lines(lines, bold, x, y):
    """Lines of text, the first `bold` letters bold."""
    first, *others = map(html.escape, [lines[0][bold:], *lines[1:]])
    first = tag("tspan", html.escape(lines[0][:bold]), font_weight="bold") + first
    return "".join(tag("text", words, x=x, y=y + PITCH * n, font_size=12) for n, words in enumerate([first, *others]))


def draw_layer_maps(state, tokens):
    maps, shown, height = state.maps[:MOST_MAPS], state.shown[:MOST_MAPS], TOP + SIDE + BOTTOM
    if not len(maps):
        return Drawing(text(WIDTH / 2, height / 2, "no attention map was found", size=14), WIDTH, height)
    hidden, taken = (maps == 0).all(dim=0), (shown == 0) & (maps > 0)
    names = ["weights"] if len(shown) == 1 else None
    return head_maps(shown, tokens, 1.0, hidden, taken, WIDTH, height, names=names)._replace(height=height)


def draw_influence_map(state, tokens):
    """How far perturbing each token moves each row, with the future outlined in red."""
    table = influence_map(state.influence, tokens, side=ASIDE, limit=largest(state.influence))
    title = text(LEFT, TOP - 12, "influence", "start", 13, font_weight="bold")
    if state.unmeasured:
        why = ["not measured, because", state.unmeasured]
        return table._replace(svg=title + in_lines(why, 0, LEFT, TOP + ASIDE / 2), words="")
    future = text(LEFT + ASIDE, TOP - 12, "red: the future", "end", fill=WRONG_TEXT)
    return table._replace(svg=table.svg + title + future, words=f"influence{table.words}")


def draw_result(state, tokens):
    rows, columns = state.result.nan_to_num(), [str(n) for n in range(state.result.shape[1])]
    of = Entries(SIGNED_INK, largest(rows), ("token", "entry"), "{}, entry {}")
    drawn = heatmap(rows, tokens, columns, "result", of, side=RESULT, width=ASIDE)
    if state.result.isnan().any():
        drawn = drawn._replace(svg=text(LEFT, TOP + RESULT / 2, "not drawn: a row is NaN", "start"), words="")
    return drawn._replace(height=TOP + RESULT + BOTTOM)  # whatever room the entries' names take


def draw_refusal(words):
    """Words in place of a picture."""
    lines = textwrap.wrap(words, LETTERS)
    return Drawing(in_lines(lines, 0, 2, 20), WIDTH, 40 + PITCH * len(lines))

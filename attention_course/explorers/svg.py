"""Arrays to SVG: bars, arcs, and how to combine drawings. Heatmaps are in svg_maps.py, charts with axes in chart.py.

Lengths are in pixels of the page: a picture never grows, and shrinks a little where there's little room. Text, axes
and frames take the page's colour, dark or light.
"""

import html
import math
from typing import NamedTuple

from attention_course.plots import HEAD_COLOURS, SERIES, as_array, head_colour

from .words import LOOKS, shares

FONT = "Arial, Helvetica, sans-serif"  # as wide everywhere, but where there's none of the first two
SMALL, EM = 11, 0.6  # the usual font size, and the greatest width of a letter, in font sizes
DIGIT = 0.556  # the width of a digit, in font sizes
TOP, LEFT, BOTTOM = 26, 64, 46  # margins of a chart: title, names at the left, slanted names below
NAME = 9  # characters of a name that are shown
APART = 18  # pixels from one slanted name to the next, at least
ROOM = 14  # for the numbers on top of bars
FRAME = {"fill": "none", "stroke": "currentColor", "pointer_events": "none"}
AXIS = {"stroke": "currentColor", "stroke_opacity": 0.5}
PALE = {"fill_opacity": 0.7}
WRAPPED = "display:flex;flex-wrap:wrap;align-items:flex-start;gap:8px 14px"
# Each view on a page replaces the name by one of its own: a pattern in a hidden part wouldn't be drawn elsewhere.
HATCHED = "url(#hatched)"
PATTERN = (
    '<pattern id="hatched" width="7" height="7" patternUnits="userSpaceOnUse">'
    '<path d="M-1 1l2 -2M0 7l7 -7M6 8l2 -2" stroke="currentColor" stroke-opacity="0.3"/></pattern>'
)
LEAST = 0.75  # how far a drawing shrinks before its row wraps: letters of 11 px are never smaller than 8 px
DASHES = ("none", "6 4", "2 3", "9 3 2 3")  # a chart's curves, in their order
COLOURS = (*SERIES[:-1], "currentColor")  # black would vanish on a dark page


class Drawing(NamedTuple):
    """A piece of SVG and its size, starting at (0, 0), and what it shows, for readers who can't see it."""

    svg: str
    width: float
    height: float
    words: str = ""


def tag(kind, inside="", says="", **attributes):
    """An SVG element; says: its tooltip."""
    short = {name: f"{n:.1f}".removesuffix(".0") if isinstance(n, float) else n for name, n in attributes.items()}
    words = [f'{name.replace("_", "-")}="{value}"' for name, value in short.items()]
    told = f"<title>{html.escape(says)}</title>" if says else ""
    return f"<{kind} {' '.join(words)}>{told}{inside}</{kind}>"


def text(x, y, words, anchor="middle", size=SMALL, **more):
    return tag("text", html.escape(words), x=x, y=y, text_anchor=anchor, font_size=size, **more)


def line(x1, y1, x2, y2, **more):
    return tag("path", d=f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}", **(more or AXIS))


def draw_title(words, width):
    return text(width / 2, TOP - 12, words, size=13, font_weight="bold")


def number(value, decimals=2):
    """A number as text, nudged so that a CPU's last bits can't flip a digit of values like 0.125."""
    words = f"{value + 1e-7:.{decimals}f}"
    return words if words.strip("-0.") else words.removeprefix("-")


def shorten(name):
    return name if len(name) <= NAME else f"{name[: NAME - 1]}…"


def move(svg, x, y):
    return tag("g", svg, transform=f"translate({x:.1f},{y:.1f})")


def in_row(first, *others, gap=14, down=False):
    """Drawings in a row, aligned at the top, or down a column."""
    for other in others:
        x, y = (0, first.height + gap) if down else (first.width + gap, 0)
        room = max(first.width, x + other.width), max(first.height, y + other.height)
        first = Drawing(first.svg + move(other.svg, x, y), *room, f"{first.words} {other.words}".strip())
    return first


def in_column(*drawings, gap=8):
    return in_row(*drawings, gap=gap, down=True)


def make_svg(drawing, back="", most=math.inf, **more):
    """A complete SVG element, at most so wide."""
    width, height = round(drawing.width), round(drawing.height)
    scale = min(1, most / max(width, 1))
    room = {"width": round(scale * width), "height": round(scale * height), "viewBox": f"0 0 {width} {height}"}
    names = {"xmlns": "http://www.w3.org/2000/svg", "font_family": FONT, "fill": "currentColor"}
    pattern = PATTERN if HATCHED in drawing.svg else ""
    return tag("svg", back + pattern + drawing.svg, **names, **room, **more)


def draw_live(rows, words):
    """Rows of drawings as HTML in the page's colour, dark or light, and in words; a row shrinks before it wraps."""
    room = "flex:{0:.0f} 1 {1:.0f}px;min-width:{1:.0f}px;max-width:{0:.0f}px;height:{2}".format
    # An empty drawing keeps its width, but a row of its own isn't high.
    looks = [[room(part.width, LEAST * part.width, "auto" if part.svg else 0) for part in row] for row in rows]
    lines = [map(lambda part, look: make_svg(part, style=look), *row) for row in zip(rows, looks, strict=True)]
    lines = [tag("div", "".join(line), style=WRAPPED) for line in lines]
    look = "max-width:100%;overflow-x:auto;color:var(--jp-content-font-color0, #000)"
    return tag("div", "".join(lines), role="img", aria_label=html.escape(words), style=look)


def names_below(names, places, y, room):
    """Names along an axis, slanted if they're too wide, every second one if these were crowded, or none at all."""
    shown = [shorten(name) for name in names]
    if fit(names, room):
        return "".join(text(x, y + 14, name) for x, name in zip(places, shown, strict=False))
    if room < SMALL:
        return ""
    every = 1 if room >= APART else 2
    longest = max(map(len, shown[::every])) * EM * SMALL
    steep = min(SMALL / (room * every), (BOTTOM - 14) / longest)  # don't touch each other or what is below
    angle = -math.degrees(math.asin(max(steep, 0.574)))  # 35 degrees or more
    slanted = [*zip(places, shown, strict=True)][::every]
    turn = f"rotate({angle:.0f} {{:.1f}} {y + 11:.1f})".format
    return "".join(text(x, y + 11, name, "end", transform=turn(x)) for x, name in slanted)


def fit(names, room):
    """Whether names can be written along an axis without slanting them."""
    return max((len(shorten(name)) for name in names), default=0) * EM * SMALL <= room


def bars_ends(limits, height):
    """Where an axis of bars begins and ends, in pixels from the top: there's room for numbers on top of them."""
    return TOP + height - ROOM * (limits[0] < 0), TOP + ROOM


def bars(series, names, title="", limits=(0.0, 1.0), width=160, height=180, colours=HEAD_COLOURS, touch=()):
    """Bars side by side, each with its number; `series` maps a name to one number for each of `names`.

    limits: the range of the axis, the same for all states of an explorer; longer bars are cut off there. touch: the
    series whose bars can be dragged, each as "entry" and its place.
    """
    table = {kind: as_array(values).tolist() for kind, values in series.items()}
    (low, high), slot = limits, (width - 30) / len(names)
    each, (bottom, top) = slot * 0.86 / len(table), bars_ends(limits, height)
    size = min(12, each / (DIGIT * max(len(number(value)) for values in table.values() for value in values)))
    y_of = lambda value: bottom - (min(max(value, low), high) - low) / (high - low) * (bottom - top)  # noqa: E731
    zero, middles = y_of(0.0), [30 + slot * (j + 0.5) for j in range(len(names))]
    parts = [draw_title(title, width), line(30, top, 30, bottom), line(30, zero, width, zero)]
    parts += [text(26, y_of(value) + 4, f"{value:.3g}", "end") for value in sorted({low, 0.0, high})]
    for n, ((kind, values), colour) in enumerate(zip(table.items(), colours, strict=False)):
        for j, (middle, name, value) in enumerate(zip(middles, names, values, strict=True)):
            x, y, says = middle + (n - len(table) / 2) * each, y_of(value), f"{name}, {kind}"
            place = {"x": x, "y": min(y, zero), "width": each, "height": abs(y - zero)}
            parts.append(tag("rect", says=f"{says}: {number(value, 4)}", fill=colour, **place))
            if kind in touch:
                ends = min(y, zero) - 8, max(y, zero) + 8  # the whole bar can be held
                hold = {"x": x, "y": ends[0], "width": each, "height": ends[1] - ends[0], "fill": "transparent"}
                parts.append(draw_grip(x + each / 2, y))
                parts.append(tag("rect", says=says, **hold, data_touch=f"entry {j}", data_drag="", data_end=f"{y:.1f}"))
            if size >= SMALL:
                above = 6 if kind in touch else 3
                parts.append(text(x + each / 2, y - above if value >= 0 else y + size, number(value), size=size))
    parts.append(names_below(names, middles, TOP + height, slot))
    foot = (20 if fit(names, slot) else BOTTOM) + 16 * (len(table) > 1)
    x, y = 30, TOP + height + foot - 4
    for kind, colour in zip(table if len(table) > 1 else [], colours, strict=False):
        parts.append(tag("rect", x=x, y=y - 8, width=9, height=9, fill=colour) + text(x + 13, y, kind, "start"))
        x += 24 + EM * SMALL * len(kind)
    said = [f"{kind}: {shares(names, values)}" for kind, values in table.items()]
    return Drawing("".join(parts), width, TOP + height + foot, f"{title}, {'; '.join(said)}.")


def draw_grip(x, y):
    """What shows that a bar's end can be dragged: a handle across it."""
    look = {"fill": "var(--jp-layout-color0, #fff)", "stroke": "currentColor", "pointer_events": "none"}
    return tag("rect", x=x - 9, y=y - 3, width=18, height=6, rx=3, **look)


def arcs(weights, names, source, title="", width=240, height=90, far=None):
    """Arcs from one token to each token it looks at, above the names; a larger weight makes a wider, stronger arc.

    weights: (num_heads, num_tokens), for arcs in the heads' colours. far: how far away the farthest
    token is that can be looked at, whose arcs take the full height; by default, as far as from the last to the first.
    """
    weights = as_array(weights).tolist()
    slot, base = width / len(names), TOP + height
    span = width if far is None else slot * (far + 1)
    places, reach = [slot * (j + 0.5) for j in range(len(names))], min(slot / 2, 32.0)
    start, parts = places[source], [draw_title(title, width)] if title else []
    drawn = [(weight, head, j) for head, row in enumerate(weights) for j, weight in enumerate(row)]
    for weight, head, j in sorted(drawn, reverse=True):  # the thinnest last, or a wider arc would hide it
        if weight >= 0.005:  # zero is the page
            x, name, of = places[j], names[j], f" by head {head + 1}" if len(weights) > 1 else ""
            rise = base - (2 - 0.35 * head) * height * max(abs(x - start) / span, 0.12)  # so that no arc hides another
            bend = f"Q{(x + start) / 2:.1f} {rise:.1f}"
            if x == start:  # its weight on itself: a small loop
                bend = f"C{x - reach:.1f} {rise:.1f} {x + reach:.1f} {rise:.1f}"
            share = f"{0.15 + 0.85 * min(1.0, weight):.2f}"
            ink = {"fill": "none", "stroke": head_colour(head), "stroke_opacity": share, "stroke_linecap": "round"}
            says = f"{LOOKS.format(names[source], name)}{of}: {number(weight, 4)}"
            path = {"d": f"M{start:.1f} {base}{bend} {x:.1f} {base}", "stroke_width": 0.5 + 9 * weight}
            parts.append(tag("path", says=says, **path, **ink))
    parts.append(tag("circle", cx=start, cy=base, r=5) + names_below(names, places, base + 4, slot))
    return Drawing("".join(parts), width, base + (24 if fit(names, slot) else BOTTOM))

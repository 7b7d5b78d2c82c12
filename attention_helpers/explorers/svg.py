"""Arrays to SVG: bars, lines, arcs, and how to combine drawings. Heatmaps are in svg_maps.py.

Lengths are in the picture's own pixels, which the page scales. Text and axes take the page's colour, dark or light.
"""

import html
import math
from typing import NamedTuple

import numpy as np

from ..plots import as_array, check_labels, head_colour

SMALL, EM = 11, 0.6  # the usual font size, and the greatest width of a character, in font sizes
TOP, LEFT, BOTTOM = 26, 64, 58  # margins of a chart: title, names at the left, names and axis label below
MARK = "#D55E00"  # vermilion, which is far from every shade of the colour maps
NAME = 9  # characters of a name that are shown
AXIS = {"stroke": "currentColor", "stroke_opacity": 0.5}
PALE = {"fill_opacity": 0.7}


class Drawing(NamedTuple):
    """A piece of SVG and its size, starting at (0, 0)."""

    svg: str
    width: float
    height: float


def tag(kind, inside="", says="", **attributes):
    """An SVG element; says: its tooltip."""
    words = (f'{name.replace("_", "-")}="{rounded(value)}"' for name, value in attributes.items())
    told = f"<title>{html.escape(says)}</title>" if says else ""
    return f"<{kind} {' '.join(words)}>{told}{inside}</{kind}>"


def rounded(value):
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value


def text(x, y, words, anchor="middle", size=SMALL, **more):
    return tag("text", html.escape(words), x=x, y=y, text_anchor=anchor, font_size=size, **more)


def line(x1, y1, x2, y2, **more):
    return tag("path", d=f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}", **(more or AXIS))


def title_of(words, width):
    return text(width / 2, TOP - 12, words, size=13, font_weight="bold")


def number(value, decimals=2):
    """A number as text, nudged so that a CPU's last bits can't flip a digit of values like 0.125."""
    words = f"{value + 1e-7:.{decimals}f}"
    return words if words.strip("-0.") else words.removeprefix("-")


def shortened(name):
    return name if len(name) <= NAME else f"{name[: NAME - 1]}…"


def moved(svg, x, y):
    return tag("g", svg, transform=f"translate({x:.1f},{y:.1f})")


def beside(first, *others, gap=14, down=False):
    """Drawings in a row, aligned at the top."""
    for other in others:
        x, y = (0, first.height + gap) if down else (first.width + gap, 0)
        room = max(first.width, x + other.width), max(first.height, y + other.height)
        first = Drawing(first.svg + moved(other.svg, x, y), *room)
    return first


def below(*drawings, gap=8):
    """Drawings in a column, aligned at the left."""
    return beside(*drawings, gap=gap, down=True)


def whole(drawing, style, back="", **more):
    """A complete SVG element."""
    look = {"viewBox": f"0 0 {drawing.width:.0f} {drawing.height:.0f}", "fill": "currentColor", "style": style}
    names = {"xmlns": "http://www.w3.org/2000/svg", "font_family": "sans-serif"}
    return tag("svg", back + drawing.svg, **names, **look, **more)


def live(rows, words):
    """Rows of drawings as HTML in the page's colour, dark or light; a row wraps if its drawings don't fit.

    words: what they show, for readers who can't see it. A drawing can grow by 20%, and shrink by 15% in a row or by 25%
    on its own; after that, the row scrolls.
    """
    room = "flex:{0:.0f} 1 {1:.0f}px;max-width:{2:.0f}px;min-width:{3:.0f}px".format
    shown = [[whole(part, room(w := part.width, 0.85 * w, 1.2 * w, 0.75 * w)) for part in row] for row in rows]
    lines = [tag("div", "".join(row), style="display:flex;flex-wrap:wrap;gap:8px 14px") for row in shown]
    look = "overflow-x:auto;color:var(--jp-ui-font-color1, #000)"
    return tag("div", "".join(lines), role="img", aria_label=html.escape(words), style=look)


def printed(rows, words):
    """Rows of drawings as one SVG on white, for everything that isn't a live page."""
    drawing = below(*(beside(*row) for row in rows))
    ground, look = tag("rect", width="100%", height="100%", fill="#fff"), f"max-width:{1.2 * drawing.width:.0f}px"
    return whole(drawing, f"color:#000;{look}", ground, role="img", aria_label=html.escape(words))


def names_below(names, places, y, room):
    """Names along an axis, slanted if they're wider than their room; none if even that doesn't fit."""
    shown = [shortened(name) for name in names] if room >= SMALL else []
    longest = max(map(len, shown), default=0) * EM * SMALL
    if longest <= room:
        return "".join(text(x, y + 14, name) for x, name in zip(places, shown, strict=False))
    steep = min(SMALL / room, (BOTTOM - 26) / longest)  # so that they don't touch each other or what is below
    slant = f"rotate({-math.degrees(math.asin(max(steep, 0.574))):.0f} {{:.1f}} {{:.1f}})".format  # 35 degrees or more
    slanted = zip(places, shown, strict=True)
    return "".join(text(x, y + 11, name, "end", transform=slant(x, y + 11)) for x, name in slanted)


def legend(names, x, y):
    """Names in a row, each after a patch of its colour; nothing for a single name."""
    parts = []
    for n, name in enumerate(names if len(names) > 1 else []):
        parts.append(tag("rect", x=x, y=y - 8, width=9, height=9, fill=head_colour(n)) + text(x + 13, y, name, "start"))
        x += 24 + EM * SMALL * len(name)
    return "".join(parts)


def bars(series, names, title="", limits=(0.0, 1.0), width=160, height=180):
    """Bars side by side, each with its number; `series` maps a name to one number for each of `names`.

    limits: the range of the axis, the same for all states of an explorer; longer bars are cut off there.
    """
    table = {kind: as_array(values).tolist() for kind, values in series.items()}
    (low, high), slot, room = limits, (width - 30) / len(names), 14  # room: for the numbers on top of the bars
    each, top, bottom = slot * 0.86 / len(table), TOP + room, TOP + height - room * (limits[0] < 0)
    size = min(SMALL, each / (EM * max(len(number(value)) for values in table.values() for value in values)))
    y_of = lambda value: bottom - (min(max(value, low), high) - low) / (high - low) * (bottom - top)  # noqa: E731
    zero, middles = y_of(0.0), [30 + slot * (j + 0.5) for j in range(len(names))]
    parts = [title_of(title, width), line(30, top, 30, bottom), line(30, zero, width, zero)]
    parts += [text(26, y_of(value) + 4, f"{value:.3g}", "end") for value in sorted({low, 0.0, high})]
    for n, (kind, values) in enumerate(table.items()):
        check_labels("names", names, len(values))
        for middle, name, value in zip(middles, names, values, strict=True):
            x, y = middle + (n - len(table) / 2) * each, y_of(value)
            place = {"x": x, "y": min(y, zero), "width": each, "height": abs(y - zero)}
            parts.append(tag("rect", says=f"{name}, {kind}: {number(value, 4)}", fill=head_colour(n), **place))
            if size >= 7:
                parts.append(text(x + each / 2, y - 3 if value >= 0 else y + size, number(value), size=size))
    parts.append(names_below(names, middles, TOP + height, slot))
    parts.append(legend([*table], 4, TOP + height + 46))
    return Drawing("".join(parts), width, TOP + height + BOTTOM)


def axes(title, left, right, top, bottom, ticks, names):
    """A chart's title, axes, gridlines and labels. ticks: pairs (label, y) on the y axis; names: (label, x) on x."""
    parts = [title_of(title, right + 10), line(left, top, left, bottom), line(left, bottom, right, bottom)]
    for label, y in ticks:
        parts.append(text(left - 5, y + 4, label, "end"))
        parts.append(line(left, y, right, y, **AXIS | {"stroke_opacity": 0.15}))
    return parts + [text(x, bottom + 14, label) for label, x in names]


def curve(spots, name, ink):
    """A line through pairs (x, y)."""
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in spots)
    return tag("path", says=name, d=f"M{path}", fill="none", stroke=ink, stroke_width=2)


def lines(curves, points, names, title, xlabel, here, *, ends, log=False, width=300, height=210):
    """Curves, lists by name, over evenly spaced positions; measured points by name, as {position: value}.

    names: x labels by position; here: the position of a vertical line; ends: the range of the y axis, positive if log.
    """
    bend, count = math.log10 if log else float, len(next(iter(curves.values())))
    left, right, top, bottom, (low, high) = 46, width - 10, TOP + 4, TOP + height, map(bend, ends)
    x_of = lambda place: left + 8 + place / (count - 1) * (right - left - 16)  # noqa: E731
    y_of = lambda value: bottom - (value - low) / (high - low) * (bottom - top)  # noqa: E731
    step = 1 if log else 10 ** math.floor(math.log10(high / 2))
    values = [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
    ticks = [(f"1e{value}" if log else f"{value:g}", y_of(value)) for value in values]
    labels = [(name, x_of(place)) for place, name in names.items()]
    parts = axes(title, left, right, top, bottom, ticks, labels)
    for n, (name, values) in enumerate(curves.items()):
        parts.append(curve([(x_of(i), y_of(bend(value))) for i, value in enumerate(values)], name, head_colour(n)))
    for n, (name, measured) in enumerate(points.items(), len(curves)):
        for place, value in measured.items():
            spot = {"cx": x_of(place), "cy": y_of(bend(value)), "r": 4.5, "fill": head_colour(n)}
            parts.append(tag("circle", says=f"{name}, measured: {value:.3g}", **spot, **AXIS))
    parts.append(line(x_of(here), top, x_of(here), bottom, stroke=MARK, stroke_width=2))
    parts.append(text((left + right) / 2, bottom + 30, xlabel))
    parts.append(legend([*curves, *(f"{name}, measured" for name in points)], 4, bottom + 46))
    return Drawing("".join(parts), width, bottom + BOTTOM)


def arcs(weights, names, source, title="", width=240, height=90):
    """Arcs from one token to each token it reads, drawn above the names; a larger weight makes a wider arc.

    weights: (num_tokens,), or (num_heads, num_tokens) for arcs in the heads' colours.
    """
    weights = np.atleast_2d(as_array(weights)).tolist()
    check_labels("names", names, len(weights[0]))
    slot, base = width / len(names), TOP + height
    places = [slot * (j + 0.5) for j in range(len(names))]
    start, parts = places[source], [title_of(title, width)]
    for head, row in enumerate(weights):
        of = f" by head {head + 1}" if len(weights) > 1 else ""
        for x, name, weight in zip(places, names, row, strict=True):
            rise = base - (2 - 0.35 * head) * height * max(abs(x - start) / width, 0.12)  # so that no arc hides another
            bend = f"Q{(x + start) / 2:.1f} {rise:.1f}"
            if x == start:  # its weight on itself: a small loop
                bend = f"C{x - slot / 2:.1f} {rise:.1f} {x + slot / 2:.1f} {rise:.1f}"
            ink = {"fill": "none", "stroke": head_colour(head), "stroke_opacity": f"{0.45 + 0.5 * weight:.2f}"}
            says = f"{names[source]} reads {name}{of}: {number(weight, 4)}"
            path = {"d": f"M{start:.1f} {base}{bend} {x:.1f} {base}", "stroke_width": 0.5 + 9 * weight}
            parts.append(tag("path", says=says, **path, **ink))
    parts.append(tag("circle", cx=start, cy=base, r=5, fill=MARK) + names_below(names, places, base + 4, slot))
    return Drawing("".join(parts), width, base + BOTTOM - 12)

"""Charts with axes: curves, marks, and a key to them."""

import math

from .svg import AXIS, COLOURS, DASHES, EM, PALE, SMALL, TOP, Drawing, draw_title, line, move, tag, text
from .words import rounded_size

HERE = {"stroke": "currentColor", "stroke_width": 2, "stroke_opacity": 0.5}  # of the line where the reader is


class Chart:
    """A chart with a title, axes and gridlines, which are its first `parts`; it knows where a value is on it.

    place: left, right, top and bottom, in pixels. x, y: an axis's labels by value, of which the first and the last are
    its ends; one without a word is only an end. even: what's even along both axes, such as math.log. inset: pixels
    that stay free at the two ends of the x axis. written: how the Drawing's words say a value.
    """

    def __init__(self, title, place, x, y, even=float, inset=(0, 0), written="{:.3g}".format):
        self.left, self.right, self.top, self.bottom = place
        self.even, self.inset, self.written, self.words = even, inset, written, [title]
        self.ends = [(even(min(labels)), even(max(labels))) for labels in (x, y)]
        self.parts = [draw_title(title, self.right + 10), line(self.left, self.top, self.left, self.bottom)]
        self.parts.append(line(self.left, self.bottom, self.right, self.bottom))
        for value, word in y.items():
            if word:
                self.parts.append(text(self.left - 5, self.y(value) + 4, word, "end"))
                self.parts.append(self.across(value, **AXIS | {"stroke_opacity": 0.15}))
        self.parts += [text(self.x(value), self.bottom + 14, word) for value, word in x.items() if word]

    def x(self, value):
        low, high = self.ends[0]
        room = self.right - self.left - sum(self.inset)
        return self.left + self.inset[0] + (self.even(value) - low) / (high - low) * room

    def y(self, value):
        """Where a value is, in pixels; one beyond an end is at the end."""
        low, high = self.ends[1]
        share = (self.even(value) - low) / (high - low)
        return self.bottom - min(max(share, 0), 1) * (self.bottom - self.top)

    def curve(self, points, name, dot=None, **look):
        """A line through pairs (x, y), by default in the page's colour; dot: the radius of a circle at its end."""
        points = list(points)
        told = [f"{self.written(y)} at {x:,.9g}" for x, y in (points[0], points[len(points) // 2], points[-1])]
        self.words.append(f"{name}: {', '.join(dict.fromkeys(told))}".removeprefix(f"{self.words[0]}: "))
        spots = [(self.x(x), self.y(y)) for x, y in points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in spots)
        look = {"fill": "none", "stroke": "currentColor", "stroke_width": 2} | look
        end = tag("circle", cx=spots[-1][0], cy=spots[-1][1], r=dot) if dot else ""
        return tag("path", says=name, d=f"M{path}", **look) + end

    def upright(self, x, **look):
        return line(self.x(x), self.top, self.x(x), self.bottom, **(look or HERE))

    def across(self, y, **look):
        return line(self.left, self.y(y), self.right, self.y(y), **look)

    def label_x(self, words):
        return text(self.right, self.bottom + 30, f"{words} →", "end", **PALE)

    def finish(self, width, height):
        return Drawing("".join(self.parts), width, height, f"{'; '.join(self.words)}.")


def costs(curves, lengths, title, here, ends, width):
    """A logarithmic Chart of bytes by num_tokens, within ends: curves, by name; here: which of the lengths to mark."""
    low, high = map(math.log10, ends)
    ticks = {10.0**n: rounded_size(10**n) for n in range(math.ceil(low), math.floor(high) + 1)}
    names, place = {n: f"{n:,}" for n in lengths}, (46, width - 10, TOP + 4, TOP + 220)
    chart = Chart(title, place, names, dict.fromkeys(ends, "") | ticks, math.log, (8, 8), rounded_size)
    colours = dict(zip(curves, COLOURS, strict=False))
    for (name, values), dashes in zip(curves.items(), DASHES, strict=False):
        points = zip(lengths, values, strict=True)
        chart.parts.append(chart.curve(points, name, stroke_dasharray=dashes, stroke=colours[name]))
    chart.parts += [chart.upright(here), text((chart.left + chart.right) / 2, chart.bottom + 30, "num_tokens")]
    chart.parts.append(key_of(curves, 4, chart.bottom + 46, width, colours))
    return chart.finish(width, chart.bottom + 68)  # with room for two rows of names


def key_of(curves, x, y, width, colours=None):
    """The names of curves, each after a piece of its line, in rows up to `width`; colours: if not the page's."""
    parts, start = [], x
    for name, dashes in zip(curves, DASHES, strict=False):
        if x + 23 + EM * SMALL * len(name) > width:
            x, y = start, y + 16
        ink = {"stroke": (colours or {}).get(name, "currentColor"), "stroke_width": 2}
        mark = line(0, -4, 18, -4, stroke_dasharray=dashes, **ink)
        parts.append(move(mark, x, y) + text(x + 23, y, name, "start"))
        x += 34 + EM * SMALL * len(name)
    return "".join(parts if len(parts) > 1 else [])

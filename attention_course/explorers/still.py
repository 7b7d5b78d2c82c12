"""A stored picture: the last state as one SVG, for everything that isn't a live page, and how to move it."""

import html
import textwrap

from .svg import EM, Drawing, in_column, in_row, line, make_svg, move, tag, text

STORED = 840  # pixels that a stored picture has in Lab at a window of 1024, where it's cut off instead of shrinking
INSET, BAND, BAND_COLOUR = 12, 32, "#0068B4"  # of a stored picture: around it, and above it a band that says so
ON_BAND = {"font_weight": "bold", "fill": "#fff"}
DASHED = {"fill": "none", "stroke": "#888", "stroke_width": 1.5, "stroke_dasharray": "6 4"}
TRACK = {"stroke_width": 4, "stroke_opacity": 0.25}


def draw_still(rows, words, headline="", controls=None):
    """The headline and rows of drawings as one SVG on white, which says that it's a picture and how to move it.

    controls: what each stands at, by name; they're drawn without a handle.
    """
    drawing = in_column(*(in_row(*row) for row in rows))
    width = max(drawing.width, 420)
    said = textwrap.wrap(headline, int(width / 8.5))
    lines = [text(0, 16 + 20 * n, words, "start", 16, font_weight="bold") for n, words in enumerate(said)]
    inside = in_column(ghosts(controls or {}, width), Drawing("".join(lines), 0, 20 * len(lines)), drawing, gap=10)
    room = {"width": inside.width + 2 * INSET, "height": BAND + inside.height + 2 * INSET}
    frame = tag("rect", x=1, y=1, width=room["width"] - 2, height=room["height"] - 2, rx=8, **DASHED)
    band = tag("path", d=f"M0 {BAND}V8q0 -8 8 -8H{room['width'] - 8:.0f}q8 0 8 8V{BAND}z", fill=BAND_COLOUR)
    band += text(INSET, BAND - 10, "▶ Run this cell (Shift+Enter) to move it", "start", 15, **ON_BAND)
    return draw_on_white(Drawing(frame + band + move(inside.svg, INSET, BAND + INSET), *room.values()), words)


def draw_on_white(drawing, words):
    """A drawing as one SVG on white; a cell that shows no explorer can show that."""
    ground = tag("rect", width="100%", height="100%", fill="#fff", rx=8)
    look = {"style": "color:#000;max-width:100%;height:auto", "role": "img", "aria_label": html.escape(words)}
    return make_svg(drawing, ground, STORED, **look)


def ghosts(controls, width):
    """Controls that can't be moved, in rows: their names and what they stand at."""
    parts, x, y = [], 0, 0
    for name, value in controls.items():
        wide = [EM * 12 * len(words) for words in (name, value)]
        if x and x + sum(wide) + 70 > width:
            x, y = 0, y + 22
        parts.append(text(x, y + 13, name, "start", 12, fill_opacity=0.55))
        parts.append(line(x + wide[0] + 6, y + 9, x + wide[0] + 46, y + 9, stroke="currentColor", **TRACK))
        parts.append(text(x + wide[0] + 52, y + 13, value, "start", 12, fill_opacity=0.55))
        x += sum(wide) + 70
    return Drawing("".join(parts), width, y + 18 if parts else 0)

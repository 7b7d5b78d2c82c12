"""The site's formulas, drawn as the pages are made: a reader needs no script and no font for them."""

import html
import re

from docutils.nodes import SkipNode
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextPath, text_to_path

FONT, EM = FontProperties(math_fontfamily="stix"), 90  # of the 100 units in which glyphs are drawn: a little larger
LETTERS = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C", Path.CLOSEPOLY: "Z"}
# Where matplotlib doesn't know LaTeX, or sets it too tightly.
INSTEAD = {r"\\mathsf (\w)": r"\\mathsf{\1}", r"\\le\b": r"\\leq", r"\\frac": r"\\dfrac", r"\s+": " "}
INSTEAD |= {"'": "{′}", r"\\sum((_\w|_\{[^}]*\}|\^\w|\^\{[^}]*\})*)": r"\\,\\sum\1\\,"}
DRAWN = """<svg class="formula" role="img" aria-label="{tex}" viewBox="{left:.0f} {top:.0f} {width:.0f} {height:.0f}" \
style="width:{em[0]:.2f}em;height:{em[1]:.2f}em;vertical-align:{em[2]:.2f}em">{glyphs}</svg>"""


def outline(vertices, codes):
    """A glyph as an SVG path; the same glyph is the same text each time, which compresses well."""
    segments = Path(vertices, codes).iter_segments(simplify=False)
    return "".join(LETTERS[code] + " ".join(f"{v:.0f}" for v in at if code != Path.CLOSEPOLY) for at, code in segments)


def drawn(tex):
    """A formula in LaTeX as an SVG picture in the colour of its text."""
    for pattern, known in INSTEAD.items():
        tex = re.sub(pattern, known, tex.strip())
    placed, glyphs, bars = text_to_path.get_glyphs_mathtext(FONT, f"${tex}$")
    glyph = '<path transform="translate({:.0f} {:.0f}) scale({:.2g} -{:.2g})" d="{}"/>'.format
    paths = [glyph(x, -y, size, size, outline(*glyphs[name])) for name, x, y, size in placed]
    paths += [f'<path transform="scale(1 -1)" d="{outline(*bar)}"/>' for bar in bars]
    box = TextPath((0, 0), f"${tex}$", size=100, prop=FONT).get_extents().padded(2)
    em = box.width / EM, box.height / EM, box.y0 / EM
    room = {"left": box.x0, "top": -box.y1, "width": box.width, "height": box.height}
    return DRAWN.format(tex=html.escape(tex), em=em, glyphs="".join(paths), **room)


def in_a(tag):
    """How Sphinx writes a formula into a page: its two functions, of which the second has nothing to do."""

    def write(translator, node):
        translator.body.append(f'<{tag} class="math">{drawn(node.astext())}</{tag}>')
        raise SkipNode

    return write, None

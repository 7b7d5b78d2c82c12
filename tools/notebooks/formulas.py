"""The site's formulas, drawn by matplotlib as the pages are made: a reader needs no script and no font for them."""

import html

from docutils.nodes import SkipNode
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextPath

FONT, EM = FontProperties(math_fontfamily="stix"), 90  # of the 100 units in which a formula is drawn: a little larger
LETTERS = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C", Path.CLOSEPOLY: "Z"}
SVG = """<svg class="formula" role="img" aria-label="{tex}" viewBox="{x0:.0f} {top:.0f} {width:.0f} {height:.0f}" \
style="width:{em[0]:.2f}em;height:{em[1]:.2f}em;vertical-align:{em[2]:.2f}em"><path transform="scale(1 -1)" \
d="{outline}"/></svg>"""


def draw_formula(tex):
    """A formula in LaTeX as an SVG picture in the colour of its text."""
    tex = " ".join(tex.split())
    path = TextPath((0, 0), f"${tex}$", size=100, prop=FONT)
    parts = [(code, "" if code == Path.CLOSEPOLY else at) for at, code in path.iter_segments(simplify=False)]
    outline = "".join(LETTERS[code] + " ".join(f"{each:.0f}" for each in at) for code, at in parts)
    box = path.get_extents().padded(2)
    room = {"x0": box.x0, "top": -box.y1, "width": box.width, "height": box.height}
    em = box.width / EM, box.height / EM, box.y0 / EM
    return SVG.format(tex=html.escape(tex), em=em, outline=outline, **room)


def write_in(tag):
    """How Sphinx writes a formula into a page: its two functions, of which the second has nothing to do."""

    def write(translator, node):
        translator.body.append(f'<{tag} class="math">{draw_formula(node.astext())}</{tag}>')
        raise SkipNode

    return write, None

"""Draw "you are here": the parts of an attention layer in a row, those that a notebook is about lit, as SVG.

    python -m tools.notebooks.place_course      writes them to notebooks/pictures

A lit part has the ink that a strong weight has in the explorers; heads that are lit have their own colours. A notebook
shows its drawing as an image, so it can't follow the page's theme: like the figures, it stands on white.
"""

from html import escape

from attention_helpers.plots import HEAD_COLOURS

# key: what stands in the box, and what the picture's text alternative calls it; in the order of the computation.
PARTS = {
    "matrices": ("W query, key, value", "the three matrices"),
    "scores": ("Q·Kᵀ", "the scores"),
    "scale": ("÷ √d_k", "the scaling"),
    "mask": ("mask", "the mask"),
    "softmax": ("softmax", "the softmax"),
    "dropout": ("dropout", "dropout"),
    "mix": ("· V", "the mixing of values"),
    "heads": ("heads, side by side", "the heads"),
    "projection": ("out_proj", "the projection that joins the heads"),
    "training": ("training", "training"),
    "cost": ("time and memory", "time and memory"),
}
IN_A_HEAD = ["matrices", "scores", "scale", "mask", "softmax", "dropout", "mix"]
LETTER, PAD, GAP, TALL = 7.0, 8, 14, 28  # pixels: a letter's width, around a box's text, between boxes, a box's height
TOP, LEFT = 44, 72  # of the row of boxes
FONT = 'font-family="Helvetica, Arial, sans-serif" font-size="12"'
LIT = f'fill="{HEAD_COLOURS[0]}"'
PLAIN = 'fill="#fff" stroke="#000" stroke-opacity="0.3"'


def alternative(lit):
    """The picture in words."""
    return f"You are here: {', '.join(PARTS[key][1] for key in PARTS if key in lit)}"


def width_of(key):
    return 2 * PAD + LETTER * len(PARTS[key][0])


def text(key, lit, x, y, more=""):
    more += ' font-weight="bold"' if key in lit else ""
    more += ' fill="#fff"' if key in lit and key != "heads" else ""  # on ink; the heads' name is on white
    return f'<text x="{x:g}" y="{y:g}"{more}>{escape(PARTS[key][0])}</text>'


def box(key, x, y, lit, width=None, tall=TALL):
    width = width or width_of(key)
    return [
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{tall}" rx="5" {LIT if key in lit else PLAIN}/>',
        text(key, lit, x + width / 2, y + tall / 2 + 4, ' text-anchor="middle"'),
    ]


def arrow(x, y, length):
    return f'<path d="M{x:g} {y:g}h{length:g}m-4 -3l4 3l-4 3" fill="none" stroke="#555"/>'


def row(lit):
    """The boxes of one head with arrows between them; also where the row ends."""
    x, middle, shapes = LEFT, TOP + TALL / 2, []
    for key in IN_A_HEAD:
        shapes += [arrow(x - GAP, middle, GAP), *box(key, x, TOP, lit)]
        x += width_of(key) + GAP
    return shapes, x - GAP


def drawing(lit):
    """The whole picture as SVG, with the parts of `lit` lit."""
    boxes, end = row(lit)
    colours = [f'fill="#fff" stroke="{colour}" stroke-width="3"' for colour in HEAD_COLOURS[2::-1]]
    frames = colours if "heads" in lit else 3 * [PLAIN]  # from the last head to the first, which is in front
    outer = end + GAP + 10
    total = outer + GAP + width_of("projection") + GAP + 50
    left, wide = LEFT - GAP - 4, end - LEFT + 2 * GAP + 4
    shapes = [
        f'<rect x="0.5" y="0.5" width="{total - 1:g}" height="121" rx="8" fill="#fff"/>',
        *(
            f'<rect x="{left + n}" y="{14 + n}" width="{wide:g}" height="64" rx="6" {look}/>'
            for n, look in zip((8, 4, 0), frames, strict=True)
        ),
        text("heads", lit, left + 10, 32),
        f'<text x="10" y="{TOP + TALL / 2 + 4:g}">tokens</text>',
        *boxes,
        arrow(end, TOP + TALL / 2, outer + GAP - end),
        *box("projection", outer + GAP, TOP, lit),
        arrow(total - 50 - GAP, TOP + TALL / 2, GAP),
        f'<text x="{total - 48:g}" y="{TOP + TALL / 2 + 4:g}">context</text>',
        *box("training", left, 90, lit, wide / 2 - 4, 22),
        *box("cost", left + wide / 2 + 4, 90, lit, wide / 2 - 4, 22),
    ]
    size = f'width="{total:g}" height="122" viewBox="0 0 {total:g} 122"'
    title = f"<title>{escape(alternative(lit))}</title>"
    start = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {FONT} fill="#000">'
    return "\n".join([start, title, *shapes, "</svg>\n"])

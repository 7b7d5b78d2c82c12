"""Notebook 06: one wide product, cut into heads, and what the heads read after the cut."""

import itertools

import numpy as np

from attention_course.plots import RIGHT_TEXT, WRONG_TEXT, head_colour

from .controls import buttons, nearest
from .head_columns import head_columns
from .ink import largest
from .lookup_models import HEAD_NUMBERS
from .multi_head import CUTS, HeadsExplorer, task
from .svg import FRAME, LEFT, TOP, Drawing, draw_title, in_row, move, number, tag, text
from .svg_maps import names_beside
from .words import join_words

SPLIT_OFFERED = {  # by weights
    "hand-made": {"num_heads": [1, 2, 3, 6], "d_out": [6], "example": [1, 2], "cut": CUTS},
    "trained": {"num_heads": HEAD_NUMBERS, "d_out": [2, 4, 8, 16, 32], "example": range(1, 9), "cut": CUTS[:1]},
}
TABLE_SIDE, TABLE_HIGH = 166, 88  # of each wide table
LIGHT, STRONG = 0.18, 0.75  # opacity of a 0, and of the largest entry


class SplitExplorer(HeadsExplorer):
    """Cut queries, keys and values, each made in one product, into heads, in the right way and in a wrong one."""

    offered, of_d_out = SPLIT_OFFERED, "all heads together"
    high = 350

    def make_controls(self):
        *others, weights = super().make_controls().items()
        cut = buttons("cut", CUTS, "How a wide table becomes heads")
        return dict([*others, ("cut", cut), weights])

    def choices(self, values):
        offered = super().choices(values)
        d_out = nearest(offered["d_out"], values["d_out"])
        return offered | {"num_heads": [heads for heads in offered["num_heads"] if d_out % heads == 0]}

    def unused(self, values):
        uncut = {"cut": "one head"} if values["num_heads"] == 1 else {}
        return super().unused(values) | uncut

    def picture(self, state):
        tables = [cut_table(state, name, n == 0) for n, name in enumerate(state.wide)]
        return [[in_row(*tables, judge_cut(state))], [head_columns(state, self.high)]]

    def readouts(self, state):
        head_dim = f"{state.d_out} / {state.num_heads} = {state.d_out // state.num_heads}"
        return {"head_dim": head_dim, "parameters": str(state.parameters)} | task(state)


def cut_table(state, name, named):
    """One wide table, each entry in the colour of the head that gets it, the stronger the larger it is."""
    table, owners, (n, d_out) = state.wide[name].tolist(), state.owners.tolist(), state.owners.shape
    w, h, left, most = TABLE_SIDE / d_out, TABLE_HIGH / n, LEFT if named else 0, largest(state.wide[name])
    parts = names_beside(state.tokens, TOP, h, "token") if named else []
    size = {"width": f"{w:.2f}", "height": f"{h:.2f}"}
    by_hand = state.accuracy is None  # its few entries are whole numbers
    for i, j in itertools.product(range(n), range(d_out)):
        value, owner, x, y = table[i][j], owners[i][j], left + j * w, TOP + i * h
        opacity = f"{LIGHT + (STRONG - LIGHT) * abs(value) / most:.2f}"
        says = f"{state.tokens[i]}, entry {j} of {name}, head {owner + 1}: {number(value, 4)}"
        look = size | {"fill": head_colour(owner), "fill_opacity": opacity}
        parts.append(tag("rect", says=says if by_hand else "", x=f"{x:.2f}", y=f"{y:.2f}", **look))
        if by_hand:
            parts.append(text(x + w / 2, y + h / 2 + 4, number(value, 0), pointer_events="none"))
    title = move(draw_title(name, TABLE_SIDE), left, 0)
    cut = move(draw_cut(state.owners, w, h), left, TOP)
    return Drawing("".join(parts) + cut + title, left + TABLE_SIDE, TOP + TABLE_HIGH + 4)


def draw_cut(owners, w, h):
    """A dashed line wherever the knife goes, between entries of different heads."""
    beside, below = (np.argwhere(np.diff(owners.numpy(), axis=axis)).tolist() for axis in (1, 0))
    path = "".join(f"M{(j + 1) * w:.1f} {i * h:.1f}v{h:.1f}" for i, j in beside)
    path += "".join(f"M{j * w:.1f} {(i + 1) * h:.1f}h{w:.1f}" for i, j in below)
    return tag("path", d=path, stroke_width=2, stroke_dasharray="4 3", **FRAME) if path else ""


def judge_cut(state):
    """Whether each head got entries of each token, in a few words beside the tables."""
    got = [(state.owners == head).any(dim=1) for head in range(state.num_heads)]  # (num_tokens,) each
    lines, look = ["✓ each head has columns", "of every token"], {"fill": RIGHT_TEXT}
    if not all(each.all() for each in got):
        mine = [token for token, has in zip(state.tokens, got[0].tolist(), strict=True) if has]
        lines, look = ["✗ head 1 has rows of", f"{join_words(mine)} only"], {"fill": WRONG_TEXT}
    lines = lines if state.num_heads > 1 else []
    look["font_weight"] = "bold"
    parts = [text(0, TOP + 30 + 17 * n, words, "start", 12, **look) for n, words in enumerate(lines)]
    return Drawing("".join(parts), 150, TOP + TABLE_HIGH, " ".join(lines))

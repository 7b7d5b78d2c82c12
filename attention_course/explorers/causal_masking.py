"""Notebook 03: a lookup's question before and after its pair, with and without a causal mask."""

import torch

from attention_course.plots import VALUE
from attention_helpers.layers import causal_mask
from attention_helpers.sentences import load_sentence

from .base import Explorer
from .controls import buttons, slider
from .ink import SIGNED_INK, largest
from .svg import HATCHED, LEFT, TOP, Drawing, arcs, bars, in_column, in_row, line, move, number, tag, text
from .svg_maps import Entries, heatmap

MASK_SIDE, STRIP, ARCS = 180, 374, 66  # the side of a map; the text's width, and how high its arcs rise
PAIR = "B 1"  # what the question looks for


class MaskExplorer(Explorer):
    """Move the question of the lookup, and switch a causal mask on; the matrices are notebook 02's, made by hand."""

    def make_controls(self):
        return {
            "mask": buttons("causal mask", {"off": False, "on": True}, "Hide later tokens before softmax"),
            "place": slider("place of B ?", 1, 0, 3, "How many tokens come before the question"),
        }

    def compute(self, mask, place):
        pairs, embeddings = load_sentence("lookup")  # A 3, B 1, C 2, B ?
        order = [0, 2, 1]
        order.insert(place, 3)
        x = embeddings[order]  # (4, 7), with the entries A B C 1 2 3 ?
        letters, digits, question = torch.eye(7).split((3, 3, 1), dim=1)
        values = x @ digits  # (4, 3)
        scores = (x @ letters) @ (x @ (10 * letters - 10 * question)).T * 3**-0.5
        if mask:
            scores = scores.masked_fill(causal_mask(4), -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        tokens, read = [pairs[n] for n in order], (weights @ values)[place]  # read: (3,), of the digits 1, 2, 3
        return {"tokens": tokens, "scores": scores, "weights": weights, "read": read}

    def picture(self, state):
        tokens, hidden = state.tokens, state.scores.isneginf()
        look = {"side": MASK_SIDE, "row": state.place, "hidden": hidden}
        signed = Entries(SIGNED_INK, largest(state.scores), tell="score of {} for {}", decimals=1)
        scores = heatmap(state.scores, tokens, tokens, "scores ÷ √3", signed, **look)
        weights = heatmap(state.weights, tokens, tokens, "weights", Entries(decimals=3), beside=False, **look)
        room = {"width": 180, "height": TOP + MASK_SIDE, "colours": [VALUE]}
        read = bars({"read": state.read}, "123", "digits that “B ?” reads", **room)
        return [[in_column(draw_strip(state), in_row(scores, weights)), read]]

    def headline(self, state):
        row, pair = state.weights[state.place], state.tokens.index(PAIR)
        if row[pair] == 0:
            seen = "each token that it sees" if state.place else "itself, the only token that it sees"
            return f"“{PAIR}” is hidden, so “B ?” has to guess: it gives {number(row[0])} to {seen}"
        where = "which comes later" if pair > state.place else "which comes earlier"
        return f"“B ?” gives {number(row[pair], 3)} of its weight to “{PAIR}”, {where}"


def draw_strip(state):
    """The text from left to right, what the question looks at in it, and a curtain over what the mask hides."""
    tokens, place = state.tokens, state.place
    row, slot = state.weights[place], STRIP / 4
    drawn = arcs(row[None], tokens, place, width=STRIP, height=ARCS, far=2.5)
    foot, parts = TOP + ARCS + 24, []
    for n, weight in enumerate(row.tolist()):
        hidden = state.mask and n > place
        parts.append(text(slot * (n + 0.5), foot + 14, "hidden" if hidden else number(weight, 3), size=12))
    if state.mask and place < 3:
        x = slot * (place + 1)
        sheet = {"x": x, "y": 8, "width": STRIP - x, "height": foot - 8}
        parts.append(tag("rect", fill="var(--jp-layout-color0, #fff)", fill_opacity=0.75, **sheet))
        parts.append(tag("rect", fill=HATCHED, **sheet) + line(x, 8, x, foot, stroke="currentColor", stroke_width=3))
        parts.append(text((x + STRIP) / 2, 40, "not yet written", size=12, font_weight="bold"))
    return Drawing(move(drawn.svg + "".join(parts), LEFT, 0), LEFT + STRIP, foot + 22)

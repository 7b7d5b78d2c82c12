"""Notebook 13: all heads of a language model on your own text, with heads to ablate."""

from functools import lru_cache

import ipywidgets as widgets
import numpy as np
import torch

from attention_helpers.language_model.heads import best_heads, repeated_tokens

from .atlas import atlas
from .base import Explorer, State
from .controls import listed, slider, stops
from .head_roles import after_opening, weight_at
from .ink import HEAD_PALETTE
from .svg import FRAME, LEFT, SMALL, Drawing, bars, draw_title, move, number, shorten, tag, text
from .svg_maps import axis, frame, hatching, masked_key, names_beside, pixels, tell_largest, touch_rows
from .words import LOOKS, plural

MOST_TOKENS, SHOWN = 64, 5  # tokens in a text; likely next tokens
OFF = ("none", "this head", "its layer", "induction", "previous token")
MAP, ROOM_ABOVE = 198, 18  # pixels: the side of the map; above it, for names
LILAC, VISIBLE = "#9988FF", str.maketrans({" ": "·", "\n": "↵", "\t": "→"})


class ReadingExplorer(Explorer):
    """Type a text, choose a head and a token, ablate heads, and see what the model predicts next.

    A head is chosen by its tile in the atlas, or by the two sliders. model: a LanguageModel; text: the initial text, of
    up to MOST_TOKENS tokens. Layers, heads and tokens count from 0.
    """

    def __init__(self, model, text="Zora Quill met Tom Bale. A week later Zora Quill called Tom", **first):
        self.model, self.first_text = model, text
        self.look = lru_cache(2)(self.forward)  # a state needs two passes: with and without the ablated heads
        token_ids = after_opening(model, repeated_tokens(model))  # 32 tokens, then the same again: see head_roles
        maps = model.look(token_ids).maps[0]
        self.roles = {"induction": best_heads(weight_at(maps, 31, start=32 + len(model.opening)))}
        self.roles["previous token"] = best_heads(weight_at(maps, 1))
        super().__init__(**first)
        self.wanted = self.wanted | {"token": MOST_TOKENS - 1}  # the last token of a longer text too

    def make_controls(self):
        layers, heads = len(self.model.blocks), self.model.config.num_heads
        typed = {"continuous_update": False, "tooltip": "What the model reads, then press Enter"}
        last = self.num_tokens(self.first_text) - 1
        return {
            "text": widgets.Text(self.first_text, description="text", **typed),
            "layer": slider("layer", min(18, layers - 1), 0, layers - 1, "One of the layers, from 0"),
            "head": slider("head", min(6, heads - 1), 0, heads - 1, "One of the layer's heads, from 0"),
            "token": stops("token", range(last + 1), last, "Whose row is framed, and after which the bars predict"),
            "ablate": listed("ablated", OFF, "none", "Heads set to zero"),
        }

    def touched(self, name, place, **how):
        """A head's tile was chosen, or a token's row."""
        if name != "tile":
            return super().touched(name, place, **how)
        self._try(**dict(zip(("layer", "head"), map(int, place.split(",")), strict=True)))

    def choices(self, values):
        return {"token": range(self.num_tokens(values["text"]))}

    def num_tokens(self, text):
        """How many tokens of a text are shown; 1 for one that can't be."""
        try:
            return min(MOST_TOKENS, self.model.encode(text).shape[1])
        except ValueError:
            return 1

    def forward(self, text, ablate):
        """Token ids (num_tokens,), logits (num_tokens, vocab_size) and maps of a text; `look` is the same, cached."""
        token_ids = self.model.encode(text)
        if token_ids.shape[1] > MOST_TOKENS:
            raise ValueError(f"text must hold at most {MOST_TOKENS} tokens, got {token_ids.shape[1]}")
        output = self.model.look(token_ids, ablate)
        return token_ids[0], output.logits[0], output.maps[0]

    def compute(self, text, layer, head, token, ablate):
        whole = [(layer, each) for each in range(self.model.config.num_heads)]
        silent = tuple(({"none": [], "this head": [(layer, head)], "its layer": whole} | self.roles)[ablate])
        token_ids, logits, _ = self.look(text, ())
        _, without, maps = self.look(text, silent)
        best = logits[token].topk(SHOWN).indices
        shares = torch.stack([each[token].softmax(dim=-1)[best] for each in (logits, without)])
        shown = {"words": self.model.words(token_ids), "next_words": self.model.words(best), "ablate": silent}
        shown |= {"shares": shares, "maps": maps, "row": maps[layer, head, token]}
        return State(layer=layer, head=head, token=token, **shown)  # complete, because notebook 13 calls this itself

    def picture(self, state):
        series = {"all heads": state.shares[0]} | ({"ablated": state.shares[1]} if state.ablate else {})
        after = f"likely next tokens after {quote(state.words[state.token])}"
        names, shown = [show_blanks(word) for word in state.next_words], draw_map(state)
        chart = bars(series, names, after, width=316, height=MAP - 40, colours=["currentColor", LILAC])
        # As high with a legend as without one, so that nothing jumps.
        return [[shown, chart._replace(height=shown.height)], [atlas(state)]]

    def headline(self, state):
        token = quote(state.words[state.token])
        if not state.ablate:
            role = next((name for name, heads in self.roles.items() if (state.layer, state.head) in heads), "")
            role = f", a{'n' * (role[:1] == 'i')} {role.replace(' ', '-')} head" if role else ""
            most, place = state.row.max(dim=0)
            looks = LOOKS.format(token, f"{quote(state.words[place])} most, {number(most)}.")
            return f"Layer {state.layer}, head {state.head}{role}: {looks}"
        before, now = (number(share) for share in state.shares[:, 0].tolist())
        heads = f"{len(state.ablate)} {plural('head', len(state.ablate))}"
        moves = "stays at" if before == now else f"{'falls' if now < before else 'rises'} from {before} to"
        return f"With {heads} ablated, the probability of {quote(state.next_words[0])} after {token} {moves} {now}."


def show_blanks(word):
    """A token's text with visible spaces and line ends; unprintable characters become �."""
    return "".join(sign if sign.isprintable() else "�" for sign in word.translate(VISIBLE))


def quote(word):
    """The same in quotation marks, without the space that most tokens begin with."""
    return f"“{show_blanks(word.removeprefix(' ') or word)}”"


def draw_map(state):
    """One head's map, MAP pixels wide, with a tooltip per row that says what the token reads; one row is framed."""
    weights, words = state.maps[state.layer, state.head].double().numpy(), [*map(show_blanks, state.words)]
    n = len(words)
    cell, future = MAP / n, np.triu(np.ones((n, n)), 1)
    image = pixels(np.where(future, 0, HEAD_PALETTE.indices(weights)), HEAD_PALETTE, LEFT, ROOM_ABOVE, MAP, MAP)
    rows = touch_rows(state.maps[state.layer, state.head], words, [f"token {i}" for i in range(n)], MAP)
    row = frame(0, state.token * cell, MAP, max(cell, 3.0), 2)
    table = hatching(future, cell, cell, edge=True) + tag("rect", width=MAP, height=MAP, **FRAME) + rows + row
    title = move(draw_title(f"layer {state.layer}, head {state.head}", MAP), LEFT, -2)
    masked = masked_key(ROOM_ABOVE + MAP + 4) if n > 1 else ""
    svg = "".join([title, image, move(table, LEFT, ROOM_ABOVE), masked, *draw_names(words, state, cell)])
    [told] = tell_largest(state.row[None], words)
    said = f"In layer {state.layer}, head {state.head}, {LOOKS.format(words[state.token], told)}."
    return Drawing(svg, LEFT + MAP, ROOM_ABOVE + MAP + 46, said)


def draw_names(words, state, cell):
    """The names of rows and columns; if they don't fit, of the framed row and of the column that it reads most."""
    ends, y = [LEFT + (place + 0.5) * cell for place in range(len(words))], ROOM_ABOVE + MAP
    if cell >= SMALL:
        return [*names_beside(words, ROOM_ABOVE, cell), axis(words, ends, y, cell, LEFT + MAP, "key").svg]
    most, row = state.row.argmax().item(), ROOM_ABOVE + (state.token + 0.5) * cell + 4
    return [text(LEFT - 5, row, shorten(words[state.token]), "end"), text(ends[most], y + 14, shorten(words[most]))]

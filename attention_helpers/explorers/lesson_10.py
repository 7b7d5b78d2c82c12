"""Notebook 10: all heads of a language model on your own text, with heads to ablate."""

from typing import NamedTuple

import ipywidgets as widgets
import numpy as np
import torch
from torch.nn.functional import adaptive_max_pool2d, pad

from ..language_model.head_roles import best_heads, repeated_tokens, weight_at
from .base import MESSAGE, Explorer, slider
from .hatching import hatching
from .ink import BLACK
from .svg import FRAME, LEFT, Drawing, bars, moved, number, tag, text, title_of
from .svg_maps import HEAD, colour_bar, pixels

MOST, SHOWN, KEPT = 64, 6, 8  # tokens in a text; likely next tokens; cached forward passes
OFF = ("none", "this head", "its layer", "induction", "previous token")
MAP, TILE = 300, 20  # pixels: the side of the map, and of each head in the atlas


class ReadingState(NamedTuple):
    """What the picture shows: a text's maps, one head's map, and predictions after one token."""

    words: list  # num_tokens
    maps: torch.Tensor  # (num_layers, num_heads, num_tokens, num_tokens), with the chosen heads ablated
    shares: torch.Tensor  # (2, SHOWN), probabilities of next tokens: with all heads, and with the chosen ones ablated
    next_words: list  # SHOWN, the most likely with all heads
    ablate: tuple
    layer: int
    head: int
    token: int


class ReadingExplorer(Explorer):
    """Type a text, choose a head and a token, ablate heads, and see what the model predicts next.

    model: a LanguageModel; text: the initial text, of up to MOST tokens. Layers, heads and tokens
    count from 0. Arrays: a ReadingState. Errors: as in Explorer.
    """

    def __init__(self, model, text="Zora Quill met Tom Bale. A week later Zora Quill called Tom"):
        self.model, self.first_text, self.forwards = model, text, {}
        maps = model.look(repeated_tokens(model)).maps[0]  # 32 tokens, then the same again: see head_roles
        self.roles = {
            "induction": best_heads(weight_at(maps, 31, start=32)),
            "previous token": best_heads(weight_at(maps, 1)),
        }
        super().__init__()

    def make_controls(self):
        layers, heads = len(self.model.blocks), self.model.config.num_heads
        box = widgets.Text(value=self.first_text, description="text", continuous_update=False)
        return {
            "text": box,
            "layer": slider("layer", min(18, layers - 1), 0, layers - 1, "One of the layers, from 0"),
            "head": slider("head", min(6, heads - 1), 0, heads - 1, "One of the layer's heads, from 0"),
            "token": slider("token", MOST - 1, 0, MOST - 1, "Whose row is framed, and after which comes what is next"),
            "ablate": widgets.Dropdown(options=OFF, value="none", description="ablated"),
        }

    def report(self, layer):
        self.message.value = MESSAGE.format(f"layer {layer} of {len(self.model.blocks)}")

    def reported(self, token_ids, ablate):
        """The model's output; the message shows how far it is. The model keeps no hook of this explorer's."""
        blocks = enumerate(self.model.blocks, 1)
        hooks = [block.register_forward_hook(lambda *_, layer=layer: self.report(layer)) for layer, block in blocks]
        try:
            return self.model.look(token_ids, ablate)
        finally:
            for hook in hooks:
                hook.remove()

    def look(self, text, ablate):
        """Token ids (num_tokens,), logits (num_tokens, vocab_size) and maps of a text; the last few are cached."""
        token_ids = self.model.encode(text)
        if token_ids.shape[1] > MOST:
            raise ValueError(f"text must hold at most {MOST} tokens, got {token_ids.shape[1]}")
        if (text, ablate) not in self.forwards:
            look = self.reported(token_ids, ablate)
            while len(self.forwards) >= KEPT:
                self.forwards.pop(next(iter(self.forwards)))  # the oldest
            self.forwards[text, ablate] = look.logits[0], look.maps[0]
        return token_ids[0], *self.forwards[text, ablate]

    def compute(self, text, layer, head, token, ablate):
        one = {"none": [], "this head": [(layer, head)]}
        one["its layer"] = [(layer, each) for each in range(self.model.config.num_heads)]
        silent = tuple((one | self.roles)[ablate])
        token_ids, logits, _ = self.look(text, ())
        _, without, maps = self.look(text, silent)
        token = min(token, len(token_ids) - 1)
        best = logits[token].topk(SHOWN).indices
        shares = torch.stack([each[token].softmax(dim=-1)[best] for each in (logits, without)])
        words = self.model.words(token_ids)
        return ReadingState(words, maps, shares, self.model.words(best), silent, layer, head, token)

    def note(self, wanted, values):
        words = len(self.model.encode(values["text"])[0])
        return "" if values["token"] < words else f"The text has {words} tokens: the last one is framed."

    def picture(self, state):
        series = {"all heads": state.shares[0]} | ({"ablated": state.shares[1]} if state.ablate else {})
        after = f"after {plain(state.words[state.token])}, next"
        chart = bars(series, [plain(word) for word in state.next_words], after, width=300, height=MAP - 60)
        return [[one_map(state), colour_bar(height=MAP - 60), chart], [atlas(state)]]

    def headline(self, state):
        return ""

    def readouts(self, state):
        row = state.maps[state.layer, state.head, state.token]
        return {
            "tokens": f"{len(state.words)}; framed: {state.token}, {plain(state.words[state.token])}",
            "it reads": reads(row[None], state.words)[0],
            "ablated": ", ".join(f"layer {layer} head {head}" for layer, head in state.ablate) or "none",
            "all heads": shares_in_words(state.next_words, state.shares[0]),
        } | ({"with heads ablated": shares_in_words(state.next_words, state.shares[1])} if state.ablate else {})

    def in_words(self, state):
        row = state.maps[state.layer, state.head, state.token]
        first = (state.maps[:, :, 1:, 0].mean(dim=-1) > 0.5).sum() if len(state.words) > 1 else 0
        return (
            f"{len(state.words)} tokens. In layer {state.layer}, head {state.head}, token {state.token}, "
            f"{plain(state.words[state.token])}, reads {reads(row[None], state.words)[0]}. Next, with all heads: "
            f"{shares_in_words(state.next_words, state.shares[0])}; with {len(state.ablate)} ablated: "
            f"{shares_in_words(state.next_words, state.shares[1])}. {first} of {state.maps[:, :, 0, 0].numel()} heads "
            "give the first token more than half."
        )


VISIBLE = str.maketrans({" ": "·", "\n": "↵", "\t": "→"})


def plain(word):
    """A token's text with visible spaces and line ends; unprintable characters become �."""
    return "".join(sign if sign.isprintable() else "�" for sign in word.translate(VISIBLE))


def reads(rows, words, count=3):
    """For each row of a map, a text: the tokens with the largest weights, and those weights."""
    shown, best = [plain(word) for word in words], rows.topk(min(count, len(words)))
    told = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [", ".join(f"{shown[at]} {number(share)}" for at, share in zip(*row, strict=True)) for row in told]


def shares_in_words(words, shares):
    return ", ".join(f"{plain(word)} {number(share)}" for word, share in zip(words, shares.tolist(), strict=True))


def one_map(state):
    """One head's map, MAP pixels wide, with a tooltip per row that says what the token reads; one row is framed."""
    weights, n = state.maps[state.layer, state.head].double().numpy(), len(state.words)
    cell, future = MAP / n, np.triu(np.ones((n, n)), 1)
    sheet = np.where(future, 0, BLACK.indices(weights))
    image = pixels(sheet, BLACK, LEFT, HEAD, MAP, MAP, **{"class": "attention-black"})
    image += moved(hatching(future, cell, cell, edge=True), LEFT, HEAD)
    told = zip(state.words, reads(state.maps[state.layer, state.head], state.words), strict=True)
    room = {"x": LEFT, "width": MAP, "height": cell, "fill": "transparent"}
    rows = [tag("rect", says=f"{plain(a)} reads {b}", y=HEAD + i * cell, **room) for i, (a, b) in enumerate(told)]
    frame = FRAME | {"stroke_width": 2}
    rows.append(tag("rect", x=LEFT, y=HEAD + state.token * cell, width=MAP, height=max(cell, 3.0), **frame))
    names = [text(LEFT - 5, HEAD + (state.token + 0.5) * cell + 4, plain(state.words[state.token])[:9], "end")]
    title = moved(title_of(f"layer {state.layer}, head {state.head}", MAP), LEFT, 0)
    return Drawing("".join([title, image, *rows, *names]), LEFT + MAP, HEAD + MAP + 16)


def atlas(state):
    """All heads as tiles, one column per layer, one row per head; the chosen tile is framed.

    A map with more tokens than a tile has pixels is max-pooled.
    """
    (layers, heads, n, _), most = state.maps.shape, TILE - 1
    maps = adaptive_max_pool2d(state.maps, most) if n > most else state.maps
    steps = pad(torch.from_numpy(BLACK.indices(maps.double().numpy())), (0, 1, 0, 1))
    sheet = steps.permute(1, 2, 0, 3).flatten(2).flatten(0, 1).numpy()  # (heads * (n + 1), ...)
    width, height = layers * TILE, heads * TILE
    smooth = n > TILE / 2  # pixelated, so small an image would lose rows or columns
    look = {"look": "auto" if smooth else "pixelated", "class": "attention-black"}
    parts = [pixels(sheet, BLACK, LEFT, HEAD, width, height, **look)]
    ablate, firsts = set(state.ablate), state.maps[..., 0].mean(dim=-1).tolist()
    for layer in range(layers):
        for head in range(heads):
            x, y = LEFT + layer * TILE, HEAD + head * TILE
            first = number(firsts[layer][head])
            says = f"layer {layer}, head {head}: the first token gets {first} of a row on average"
            chosen = (layer, head) == (state.layer, state.head)
            stroke, beyond = (
                ({"stroke": "currentColor", "stroke_width": 3}, 1.5) if chosen else ({}, 0)
            )  # around it, not on it
            shade = "currentColor" if (layer, head) in ablate else "transparent"
            room = {"x": x - beyond, "y": y - beyond, "width": TILE + 2 * beyond, "height": TILE + 2 * beyond}
            parts.append(tag("rect", says=says, fill=shade, **room, **stroke))
    parts += [text(LEFT + (layer + 0.5) * TILE, HEAD - 5, str(layer)) for layer in range(0, layers, 2)]
    parts += [text(LEFT - 5, HEAD + (head + 0.7) * TILE, f"head {head}", "end") for head in range(heads)]
    parts.append(text(LEFT - 5, HEAD - 5, "layer →", "end"))
    return Drawing("".join(parts), LEFT + width, HEAD + height + 4)

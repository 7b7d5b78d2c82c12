"""All heads of a language model as small maps, one column per layer: as many as there's room for."""

import math
from typing import NamedTuple

from torch.nn.functional import adaptive_max_pool2d

from .ink import BLACK
from .svg import FRAME, LEFT, PALE, Drawing, moved, tag, text, title_of
from .svg_maps import pixels

TOP = 34  # above the tiles, for the title and the layers' numbers
WIDEST, HIGHEST = 630, 189  # the tiles at most, unless there are more than 126 layers
LARGEST, PARTLY, SMALLEST = 21, 9, 5  # a tile: at most, if not all heads fit, and at least


class Room(NamedTuple):
    """How the atlas shows a model's heads: the side of a tile in pixels, and how many heads of each layer at once."""

    layers: int
    heads: int
    tile: int
    rows: int

    def shown(self, head):
        """The heads that are shown together with one of them."""
        first = min(head // self.rows * self.rows, self.heads - self.rows)
        return range(first, first + self.rows)


def room_for(layers, heads):
    """Tiles as large as the atlas has room for; if they'd be too small, larger ones of some of the heads."""
    fits = HIGHEST // heads
    tile = max(SMALLEST, min(LARGEST, WIDEST // layers, fits if fits >= SMALLEST else PARTLY))
    return Room(layers, heads, tile, min(heads, HIGHEST // tile))


def atlas(state):
    """Heads as tiles, one column per layer, one row per head; the chosen tile is framed, ablated ones are covered.

    A map with more tokens than a tile has pixels is max-pooled. Of very many heads, only some are shown.
    """
    layers, heads, tile, rows = state.room
    shown, n = state.room.shown(state.head), len(state.words)
    maps = state.maps[:, shown.start : shown.stop]
    maps = adaptive_max_pool2d(maps, tile) if n > tile else maps
    sheet = BLACK.indices(maps.permute(1, 2, 0, 3).flatten(2).flatten(0, 1).double().numpy())
    width, height, right = layers * tile, rows * tile, LEFT + layers * tile
    title = f"all {layers * heads} heads: click one to see it above"
    if rows < heads:
        title = f"heads {shown[0]} to {shown[-1]} of {heads} in each layer; the slider leads to the others"
    look = {"look": "auto" if n > tile / 2 else "pixelated", "class": "attention-black"}  # one so small loses rows
    parts = [moved(title_of(title, width), LEFT, -3), pixels(sheet, BLACK, LEFT, TOP, width, height, **look)]
    across = "".join(f"M{LEFT} {TOP + row * tile}h{width}" for row in range(rows + 1))
    down = "".join(f"M{x} {TOP}v{height}" for x in range(LEFT, right + 1, tile))
    parts.append(tag("path", d=across + down, stroke_opacity=0.25, **FRAME))
    place = lambda layer, head: {"x": LEFT + layer * tile, "y": TOP + (head - shown[0]) * tile} | side  # noqa: E731
    side, cover = {"width": tile, "height": tile}, {"class": "ablated", "fill_opacity": 0.6, "says": "ablated"}
    parts += [tag("rect", **place(*each), **cover) for each in state.ablate if each[1] in shown]  # paler than the frame
    parts.append(tag("rect", **place(state.layer, state.head), **FRAME | {"stroke_width": 2}))
    numbers = range(0, layers, max(2, math.ceil(24 / tile)))  # where there's room, as for the names
    names = shown[:: math.ceil(12 / tile)]
    parts += [text(LEFT + (layer + 0.5) * tile, TOP - 5, str(layer)) for layer in numbers]
    down = tile / 2 + 3.15 - shown[0] * tile
    parts += [text(LEFT - 5, TOP + head * tile + down, f"head {head}", "end") for head in names]
    parts.append(text(LEFT - 5, TOP - 5, "layer →", "end", **PALE))
    first = state.maps[:, :, 1:, 0].mean(dim=-1) > 0.5  # False if there's only one token: its mean is NaN
    said = f"{first.sum()} of {layers * heads} heads give the first token more than half."
    return Drawing("".join(parts), right + 2, TOP + height, said)

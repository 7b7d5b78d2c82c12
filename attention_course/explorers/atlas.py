"""All heads of a language model as small maps, one column per layer."""

import itertools
import math
from functools import lru_cache

from torch.nn.functional import adaptive_max_pool2d

from .ink import BLACK
from .svg import FRAME, LEFT, PALE, Drawing, draw_title, move, tag, text
from .svg_maps import pixels

ATLAS_TOP = 34  # above the tiles, for the title and the layers' numbers
WIDEST, HIGHEST = 630, 189  # the tiles at most, unless that would make them smaller than SMALLEST
LARGEST, SMALLEST = 21, 5  # a tile's side


def atlas(state):
    """Heads as tiles, one column per layer, one row per head; the chosen tile is framed, ablated ones are covered."""
    (layers, heads), n = state.maps.shape[:2], len(state.words)
    tile = max(SMALLEST, min(LARGEST, WIDEST // layers, HIGHEST // heads))  # its side, in pixels
    maps = adaptive_max_pool2d(state.maps, tile) if n > tile else state.maps
    sheet = BLACK.indices(maps.permute(1, 2, 0, 3).flatten(2).flatten(0, 1).double().numpy())
    width, height, right = layers * tile, heads * tile, LEFT + layers * tile
    title = f"all {layers * heads} heads"
    look = {"look": "auto" if n > tile / 2 else "pixelated", "class": "attention-black"}  # one so small loses rows
    parts = [move(draw_title(title, width), LEFT, -3), pixels(sheet, BLACK, LEFT, ATLAS_TOP, width, height, **look)]
    across = "".join(f"M{LEFT} {ATLAS_TOP + row * tile}h{width}" for row in range(heads + 1))
    down = "".join(f"M{x} {ATLAS_TOP}v{height}" for x in range(LEFT, right + 1, tile))
    parts.append(tag("path", d=across + down, stroke_opacity=0.25, **FRAME))
    place = lambda layer, head: {"x": LEFT + layer * tile, "y": ATLAS_TOP + head * tile} | side  # noqa: E731
    side, cover = {"width": tile, "height": tile}, {"class": "ablated", "fill_opacity": 0.6, "says": "ablated"}
    parts += [tag("rect", **place(*each), **cover) for each in state.ablate]  # paler than the frame
    parts.append(tag("rect", **place(state.layer, state.head), **FRAME | {"stroke_width": 2}))
    parts.append(touchable(layers, heads, tile))
    numbers = range(0, layers, max(2, math.ceil(24 / tile)))  # where there's room, as for the names
    names = range(0, heads, math.ceil(12 / tile))
    parts += [text(LEFT + (layer + 0.5) * tile, ATLAS_TOP - 5, str(layer)) for layer in numbers]
    down = tile / 2 + 3.15
    parts += [text(LEFT - 5, ATLAS_TOP + head * tile + down, f"head {head}", "end") for head in names]
    parts.append(text(LEFT - 5, ATLAS_TOP - 5, "layer →", "end", **PALE))
    first = state.maps[:, :, 1:, 0].mean(dim=-1) > 0.5
    said = f"{first.sum()} of {layers * heads} heads give the first token more than half." if n > 1 else ""
    return Drawing("".join(parts), right + 2, ATLAS_TOP + height, said)


@lru_cache(4)
def touchable(layers, heads, tile):
    """What a reader chooses a head by."""
    rects = [
        f'<rect x="{LEFT + layer * tile}" y="{ATLAS_TOP + head * tile}" width="{tile}" height="{tile}" '
        f'data-touch="tile {layer},{head}"><title>layer {layer}, head {head}</title></rect>'
        for head, layer in itertools.product(range(heads), range(layers))
    ]
    return f'<g fill="transparent">{"".join(rects)}</g>'

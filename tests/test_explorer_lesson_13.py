"""The explorer of a language model's heads, on a tiny model."""

import base64
import io
import itertools
import re

import numpy as np
import pytest
import torch
from explorer_page import SVG, check_claim, frames, told, tree_of, words_of
from PIL import Image

from attention_course.explorers import ReadingExplorer, lesson_13
from attention_course.explorers.atlas import TOP, room_for
from attention_course.explorers.lesson_13 import quoted
from attention_helpers.language_model.head_roles import repeated_tokens
from attention_helpers.language_model.model import LanguageModel
from tools.bench.made import MODEL

TILE, TEXT = 21, "The town lies by a slow green river. It"
HEADS = list(itertools.product(range(2), range(4)))


@pytest.fixture
def explorer():
    return ReadingExplorer(MODEL, "abcabc")


def tiles(explorer, tile=TILE, **look):
    """Columns and rows of the tiles that have a rectangle with some attributes over them."""
    root, place = tree_of(explorer)[1][0], lambda rect, name, start: (float(rect.get(name)) - start) / tile
    rects = [rect for rect in root.iter(f"{SVG}rect") if look.items() <= rect.attrib.items()]
    return [(place(rect, "x", 64), place(rect, "y", TOP)) for rect in rects]


def test_a_click_on_a_heads_tile_chooses_it_and_tiles_follow_sliders_and_code(explorer):
    def chosen():
        assert (explorer.values["layer"], explorer.values["head"]) == explorer.tiles.value
        assert tiles(explorer, **{"stroke-width": "2"}) == [explorer.tiles.value]
        return explorer.tiles.value

    assert [*explorer.tiles._options_full] == [(f"layer {a}, head {b}", (a, b)) for b in range(4) for a in range(2)]
    assert f"repeat(2, calc({TILE} * var(--scale)))" in explorer.children[2].children[2].value  # two columns of tiles
    explorer.tiles.value = (0, 3)
    assert chosen() == (0, 3)
    explorer.controls["head"].value = 0
    assert chosen() == (0, 0)
    explorer.set(layer=1, head=2)
    assert chosen() == (1, 2)


def test_the_atlas_shows_each_heads_map_where_its_label_is(explorer):
    [image] = tree_of(explorer)[1][0].iter(f"{SVG}image")
    png = base64.b64decode(image.get("href").partition("base64,")[2])
    alpha = np.asarray(Image.open(io.BytesIO(png)).convert("RGBA"))[..., 3] / 255
    texts = tree_of(explorer)[1][0].iter(f"{SVG}text")
    at = {text.text: float(text.get("x" if text.text.isdigit() else "y")) for text in texts}
    assert at["0"] == 64 + TILE / 2
    width, height = 2 * TILE, 4 * TILE
    assert (image.get("width"), image.get("height")) == (str(width), str(height))
    assert explorer._rows[1][0].width == 64 + width + 2  # with the whole frame of the last tile
    lines = [f"M64 {TOP + head * TILE}h{width}" for head in range(5)]
    assert "".join(lines) + f"M64 {TOP}v{height}" in explorer.svg
    for layer, head in itertools.product(range(2), range(4)):
        assert 0 < at[f"head {head}"] - TOP - head * TILE < TILE
        tile = alpha[6 * head : 6 * head + 6, 6 * layer : 6 * layer + 6]
        np.testing.assert_allclose(tile, explorer.arrays.maps[layer, head].numpy() ** 0.7, atol=0.004)


def test_the_atlas_scales_within_its_size_and_says_which_heads_it_shows():
    for layers, heads in ((30, 9), (16, 32), (28, 16), (48, 64)):
        room = room_for(layers, heads)
        assert room.tile * layers <= 630
        assert room.tile * room.rows <= 189
        assert {head for first in range(heads) for head in room.shown(first)} == set(range(heads))
    assert room_for(16, 32).rows == 32  # all fit
    many = MODEL.config._replace(num_heads=64, num_kv_heads=1, d_model=64)
    explorer = ReadingExplorer(LanguageModel(many, MODEL.tokenizer).requires_grad_(False), "abc")
    assert any("heads 0 to 20 of 64" in words for words in words_of(tree_of(explorer)[1][0]))
    explorer.set(layer=0, head=50)
    assert any("heads 42 to 62 of 64" in words for words in words_of(tree_of(explorer)[1][0]))
    assert tiles(explorer, 9, **{"stroke-width": "2"}) == [(0, 8)]
    explorer.tiles.value = (1, 45)
    assert (explorer.values["layer"], explorer.values["head"], explorer.tiles.value) == (1, 45, (1, 45))


def test_ablated_heads_are_covered_and_a_heads_role_is_named(explorer):
    explorer.set(layer=1, head=2, ablate="this head")
    assert explorer.arrays.ablate == ((1, 2),)
    explorer.set(layer=0, ablate="its layer")
    assert tiles(explorer, **{"class": "ablated"}) == [*explorer.arrays.ablate]
    assert [words for words, _ in told(tree_of(explorer)[1][0])] == ["ablated"] * 4
    assert explorer.arrays.ablate == tuple((0, head) for head in range(4))
    explorer.set(ablate="induction")
    assert explorer.arrays.ablate == tuple(explorer.roles["induction"])
    for layer, head in explorer.roles["induction"]:
        explorer.set(layer=layer, head=head, ablate="none")
        assert "induction head" in explorer.said


def test_roles_are_those_of_a_text_that_comes_twice(explorer):
    """32 tokens, then the same again: an induction head reads what came after its token's first time, 31 back."""
    maps = MODEL.look(repeated_tokens(MODEL)).maps[0]

    def best(distance, tokens):
        weights = {(layer, head): sum(maps[layer, head, n, n - distance] for n in tokens) for layer, head in HEADS}
        return sorted(HEADS, key=weights.get, reverse=True)[:5]

    assert explorer.roles == {"induction": best(31, range(32, 64)), "previous token": best(1, range(1, 64))}
    explorer.set(layer=0, head=0)  # it's only in the second list
    assert explorer.said.startswith("Layer 0, head 0, a previous-token head: “")


def test_what_ablation_changes_is_said_in_its_direction(explorer):
    explorer.set(ablate="its layer")
    for before, now, moves in ((0.5, 0.4, "falls from 0.50 to 0.40"), (0.4, 0.5, "rises from 0.40 to 0.50")):
        shares = torch.tensor([[before] + 4 * [0.1], [now] + 4 * [0.05]])
        state = explorer.arrays._replace(shares=shares, ablate=((0, 0), (1, 0)))
        check_claim(explorer.headline(state), f"With 2 heads ablated, … {moves}.…")
        check_claim(
            explorer.in_words(state), f"… all heads: … {before:.2f}, … 0.10; with 2 ablated: … {now:.2f}, … 0.05. …"
        )


def test_of_a_long_text_the_token_and_what_it_reads_most_are_named(explorer):
    explorer.set(text=TEXT, layer=0, head=0, token=20)
    most, least = (TEXT[place(explorer.arrays.row[:21])] for place in (torch.argmax, torch.argmin))
    assert most != least
    assert "image-rendering:auto" in explorer.svg  # or tiles with fewer pixels than tokens lose rows
    assert words_of(tree_of(explorer)[0][0])[-2:] == [TEXT[20], most]
    [(_, y, *_)] = frames(tree_of(explorer)[0][0], "2")
    assert y == pytest.approx(lesson_13.ABOVE + 20 * lesson_13.MAP / len(TEXT), abs=0.1)


def test_the_token_slider_ends_at_the_last_token_and_follows_the_text(explorer):
    assert explorer.arrays.token == 5
    explorer.controls["text"].value = "abcdefgh"
    assert explorer.arrays.token == 7  # the last, as nothing else is wished
    explorer.controls["token"].value = 6
    explorer.controls["text"].value = "abc"
    assert [*explorer.controls["token"].options] == [0, 1, 2]
    assert explorer.arrays.token == 2
    explorer.controls["text"].value = "abcdefgh"
    assert explorer.arrays.token == 6  # the wish comes back
    with pytest.raises(ValueError, match="token must be from 0 to 7 in steps of 1, got 8"):
        explorer.set(token=8)


def test_each_row_tells_whom_its_token_reads_also_with_signs_that_no_page_can_show(explorer):
    text = "a\x01 \n\t\x7f<img onerror=x>"
    explorer.set(text=text, layer=0, head=1)
    rows = [rect[0].text for rect in tree_of(explorer).iter(f"{SVG}rect") if len(rect)]
    assert [row.partition(" reads ")[0] for row in rows[:7]] == ["a", "�", "·", "↵", "→", "�", "<"]
    weight, place = explorer.arrays.maps[0, 1, 8].max(dim=0)
    assert rows[8].startswith(f"m reads {rows[place][0]} {weight:.2f}")
    assert "<img" not in explorer.svg + explorer.readout
    assert [quoted(word) for word in (" met", " ", "\n")] == ["“met”", "“·”", "“↵”"]


def test_another_head_or_token_needs_no_forward(explorer, monkeypatch):
    explorer.set(ablate="induction")
    monkeypatch.setattr(MODEL, "look", lambda *_: pytest.fail("it went through the model again"))
    for values in ({"head": 3}, {"layer": 0}, {"token": 2}, {"ablate": "none"}, {"ablate": "induction"}):
        explorer.set(**values)
    monkeypatch.undo()
    for end in range(1, 20):
        explorer.set(text="abcdefghijklmnopqrst"[:end])
    assert explorer.look.cache_info().currsize <= 8  # what is remembered doesn't grow


def test_a_forward_says_how_far_it_is(explorer):
    said = []
    explorer.message.observe(lambda change: said.append(change["new"]), names="value")
    explorer.controls["text"].value = "another"
    assert [re.sub("<.*?>", "", text) for text in said][:2] == ["layer 1 of 2", "layer 2 of 2"]
    assert "layer" not in explorer.message.value
    said.clear()
    MODEL(MODEL.encode("not its own"))
    assert said == []
    assert not any(block._forward_hooks for block in MODEL.blocks)

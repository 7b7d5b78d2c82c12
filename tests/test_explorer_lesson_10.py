"""The explorer of a language model's heads, on a tiny model."""

import base64
import io
import itertools
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch
from PIL import Image

from attention_helpers.explorers import ReadingExplorer
from tools.bench.made import MODEL

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def explorer():
    return ReadingExplorer(MODEL, "abcabc")


def tiles(explorer, **look):
    """The heads whose tiles have a rectangle with some attributes over them."""
    root, place = ET.fromstring(explorer.svg)[1][0], lambda rect, name, start: (float(rect.get(name)) - start) / 24
    rects = [rect for rect in root.iter(f"{SVG}rect") if look.items() <= rect.attrib.items()]
    return [(place(rect, "x", 64), place(rect, "y", 18)) for rect in rects]


def test_a_click_on_a_heads_tile_chooses_it_and_the_sliders_follow(explorer):
    assert [value for _, value in explorer.tiles._options_full] == [(a, b) for b in range(4) for a in range(2)]
    explorer.tiles.value = (1, 3)
    assert (
        (explorer.values["layer"], explorer.values["head"]) == (1, 3) == (explorer.arrays.layer, explorer.arrays.head)
    )
    assert tiles(explorer, **{"stroke-width": "3"}) == [(1, 3)]


def test_the_tiles_follow_the_sliders_code_and_reset(explorer):
    explorer.controls["head"].value = 0
    assert explorer.tiles.value == (1, 0)
    explorer.set(layer=0, head=2)
    assert explorer.tiles.value == (0, 2)
    assert tiles(explorer, **{"stroke-width": "3"}) == [(0, 2)]
    explorer.set(**explorer._first)
    assert explorer.tiles.value == (1, 3)


def test_the_atlas_shows_each_heads_map_where_its_label_is(explorer):
    [image] = ET.fromstring(explorer.svg)[1][0].iter(f"{SVG}image")
    png = base64.b64decode(image.get("href").partition("base64,")[2])
    alpha = np.asarray(Image.open(io.BytesIO(png)).convert("RGBA"))[..., 3] / 255
    for layer, head in itertools.product(range(2), range(4)):
        tile = alpha[6 * head : 6 * head + 6, 6 * layer : 6 * layer + 6]
        np.testing.assert_allclose(tile, explorer.arrays.maps[layer, head].numpy() ** 0.7, atol=0.004)


def test_ablated_heads_are_covered_and_the_bars_move(explorer):
    explorer.set(layer=1, head=2, ablate="this head")
    assert explorer.arrays.ablate == ((1, 2),)
    assert tiles(explorer, **{"class": "ablated"}) == [(1, 2)]
    expected = MODEL(MODEL.encode("abcabc"), [(1, 2)])[0, -1].softmax(dim=-1)
    whole = MODEL(MODEL.encode("abcabc"))[0, -1]
    torch.testing.assert_close(explorer.arrays.shares[1], expected[whole.topk(5).indices])
    explorer.set(layer=0, ablate="its layer")
    assert explorer.arrays.ablate == tuple((0, head) for head in range(4))
    explorer.set(ablate="induction")
    assert explorer.arrays.ablate == tuple(explorer.roles["induction"])


def test_the_headline_names_the_token_that_is_read_most_and_the_heads_role(explorer):
    for layer, head in itertools.product(range(2), range(4)):
        explorer.set(layer=layer, head=head, token=4)
        row = MODEL.look(MODEL.encode("abcabc")).maps[0, layer, head, 4].tolist()
        reads = f"“b” reads “{'abcabc'[row.index(max(row))]}” most, {max(row):.2f}."
        roles = [name for name, heads in explorer.roles.items() if (layer, head) in heads]
        assert explorer.said.startswith(f"Layer {layer}, head {head}")
        assert explorer.said.endswith(reads)
        assert ("induction head" in explorer.said) == ("induction" in roles)
        assert ("previous-token head" in explorer.said) == (roles == ["previous token"])


@pytest.mark.parametrize(
    ("after", "says"), [(0.03, "falls from 0.62 to 0.03"), (0.7, "rises from 0.62 to 0.70"), (0.6201, "stays at 0.62")]
)
def test_with_heads_ablated_the_headline_compares_the_likeliest_token(explorer, after, says):
    explorer.set(layer=0, token=2, ablate="its layer")
    expected = MODEL(MODEL.encode("abcabc"), [(0, n) for n in range(4)])[0, 2].softmax(-1)
    whole = MODEL(MODEL.encode("abcabc"))[0, 2].softmax(-1).topk(5)
    torch.testing.assert_close(explorer.arrays.shares, torch.stack([whole.values, expected[whole.indices]]))
    shares = torch.tensor([[0.62, 0.1], [after, 0.2]])
    said = explorer.headline(explorer.arrays._replace(shares=shares, next_words=[" Bale", "x"]))
    assert said == f"With 4 heads ablated, the probability of “Bale” after “c” {says}."


def test_the_token_slider_ends_at_the_last_token_and_follows_the_text(explorer):
    assert explorer.arrays.token == 5
    explorer.controls["text"].value = "abcdefgh"
    assert (
        [*explorer.controls["token"].options][-1] == explorer.arrays.token == 7
    )  # the last, as nothing else is wished
    explorer.controls["token"].value = 6
    explorer.controls["text"].value = "abc"
    assert [*explorer.controls["token"].options] == [0, 1, 2]
    assert explorer.arrays.token == 2
    explorer.controls["text"].value = "abcdefgh"
    assert explorer.arrays.token == 6  # the wish comes back
    with pytest.raises(ValueError, match="token must be from 0 to 7 in steps of 1, got 8"):
        explorer.set(token=8)


def test_with_nothing_ablated_nothing_is_said_of_it(explorer):
    told = lambda: re.findall(r"<title>([^<]*), ablated: ", explorer.svg)  # noqa: E731
    assert told() == []
    assert "blated" not in explorer.said
    explorer.set(ablate="this head")
    assert len(told()) == 5


def test_each_row_tells_whom_its_token_reads(explorer):
    explorer.set(text="ab<c&d", layer=0, head=1)
    rows = [rect[0].text for rect in ET.fromstring(explorer.svg).iter(f"{SVG}rect") if len(rect)]
    told = next(text for text in rows if text.startswith("< reads "))
    place = explorer.arrays.maps[0, 1, 2].argmax().item()
    assert told.startswith(f"< reads {'ab<c&d'[place]} {explorer.arrays.maps[0, 1, 2].max().item():.2f}")


def test_another_head_or_token_needs_no_forward(explorer, monkeypatch):
    explorer.set(ablate="induction")
    monkeypatch.setattr(MODEL, "look", lambda *_: pytest.fail("it went through the model again"))
    for values in ({"head": 3}, {"layer": 0}, {"token": 2}, {"ablate": "none"}, {"ablate": "induction"}):
        explorer.set(**values)


def test_what_is_remembered_does_not_grow(explorer):
    for end in range(1, 20):
        explorer.set(text="abcdefghijklmnopqrst"[:end])
    assert len(explorer.forwards) <= 8


def test_a_forward_says_how_far_it_is(explorer):
    said = []
    explorer.message.observe(lambda change: said.append(change["new"]), names="value")
    explorer.controls["text"].value = "another"
    assert [re.sub("<.*?>", "", text) for text in said][:2] == ["layer 1 of 2", "layer 2 of 2"]
    assert "layer" not in explorer.message.value
    said.clear()
    MODEL(MODEL.encode("not its own"))
    assert said == []


@pytest.mark.parametrize(("text", "says"), [("", "at least one token"), ("x" * 65, "at most 64 tokens, got 65")])
def test_a_text_that_cannot_be_shown_is_explained_and_the_picture_stays(explorer, text, says):
    before = explorer.svg
    explorer.controls["text"].value = text
    assert says in explorer.message.value
    assert explorer.svg == before
    with pytest.raises(ValueError, match=says):
        explorer.set(text=text)
    explorer.controls["text"].value = "x" * 64
    assert explorer.arrays.maps.shape == (2, 4, 64, 64)
    explorer.set(**explorer._first)  # and nothing is stuck


def test_words_that_no_page_can_show_are_shown_all_the_same(explorer):
    explorer.set(text="a\x01 \n\t\x7fé<img onerror=x>")
    rows = [rect[0].text for rect in ET.fromstring(explorer.svg).iter(f"{SVG}rect") if len(rect)]
    assert [row.partition(" reads")[0] for row in rows[:6]] == ["a", "�", "·", "↵", "→", "�"]
    assert "<img" not in explorer.svg + explorer.readout


def test_a_text_must_be_one(explorer):
    with pytest.raises(ValueError, match="text must be a string, got 3"):
        explorer.set(text=3)


def test_the_model_keeps_no_hook(explorer):
    explorer.set(text="abc")
    assert not any(block._forward_hooks for block in MODEL.blocks)

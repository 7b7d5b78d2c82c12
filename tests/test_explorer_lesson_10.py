"""The explorer of a language model's heads, on a tiny model."""

import re
import xml.etree.ElementTree as ET

import pytest
import torch

from attention_helpers.explorers import ReadingExplorer
from tools.bench.made import MODEL

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def explorer():
    return ReadingExplorer(MODEL, "abcabc")


def tiles(explorer):
    """The attributes of each head's tile, by its tooltip."""
    rects = [rect for rect in ET.fromstring(explorer.svg).iter(f"{SVG}rect") if len(rect)]
    return {rect[0].text.partition(":")[0]: rect for rect in rects if rect[0].text.startswith("layer ")}


def test_every_head_has_a_tile_and_the_chosen_one_is_framed(explorer):
    explorer.set(layer=1, head=2)
    drawn = tiles(explorer)
    assert set(drawn) == {f"layer {layer}, head {head}" for layer in range(2) for head in range(4)}
    assert [name for name, rect in drawn.items() if rect.get("stroke")] == ["layer 1, head 2"]
    first = explorer.arrays.maps[1, 2, :, 0].mean().item()
    assert f"gets {first:.2f} of a row" in drawn["layer 1, head 2"][0].text


def test_ablated_heads_are_covered_and_the_bars_move(explorer):
    explorer.set(layer=1, head=2, ablate="this head")
    assert explorer.arrays.ablate == ((1, 2),)
    assert [name for name, rect in tiles(explorer).items() if rect.get("fill") == "currentColor"] == ["layer 1, head 2"]
    expected = MODEL(MODEL.encode("abcabc"), [(1, 2)])[0, -1].softmax(dim=-1)
    whole = MODEL(MODEL.encode("abcabc"))[0, -1]
    torch.testing.assert_close(explorer.arrays.shares[1], expected[whole.topk(6).indices])
    explorer.set(layer=0, ablate="its layer")
    assert explorer.arrays.ablate == tuple((0, head) for head in range(4))
    explorer.set(ablate="induction")
    assert explorer.arrays.ablate == tuple(explorer.roles["induction"])


def test_with_nothing_off_nothing_is_said_of_it(explorer):
    told = lambda: re.findall(r"<title>([^<]*), ablated: ", explorer.svg)  # noqa: E731
    assert told() == []
    assert "with heads ablated" not in explorer.readout
    explorer.set(ablate="this head")
    assert len(told()) == 6
    assert "with heads ablated" in explorer.readout


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
    assert len(tiles(explorer)) == 8


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

"""The explorer of a language model's heads, on a tiny model."""

import numpy as np
import pytest
from explorer_page import SVG, image_of, say, tooltips, tree_of
from made import MODEL

from attention_course.explorers import ReadingExplorer
from attention_course.explorers.atlas import ATLAS_TOP

TILE = 21


@pytest.fixture
def explorer():
    return ReadingExplorer(MODEL, "abcabc")


def tiles(explorer, **look):
    """Columns and rows of the tiles that have a rectangle with some attributes over them."""
    rects = [rect for rect in tree_of(explorer)[1][0].iter(f"{SVG}rect") if look.items() <= rect.attrib.items()]
    return [((float(rect.get("x")) - 64) / TILE, (float(rect.get("y")) - ATLAS_TOP) / TILE) for rect in rects]


def test_the_atlas_shows_each_heads_map_and_a_tile_chooses_its_head_and_the_frame_follows_sliders_and_code(explorer):
    _, pixels = image_of(tree_of(explorer)[1][0])
    maps = explorer.arrays.maps.permute(1, 2, 0, 3).reshape(4 * 6, 2 * 6)  # a column for each layer
    np.testing.assert_allclose(pixels[..., 3] / 255, maps.numpy() ** 0.7, atol=0.004)
    assert tiles(explorer, **{"data-touch": "tile 0,3"}) == [(0, 3)]
    moves = {
        (0, 3): lambda: say(explorer, touch="tile 0,3"),
        (0, 0): lambda: explorer.controls["head"].set_trait("value", 0),
        (1, 2): lambda: explorer.set(layer=1, head=2),
    }
    for head, move in moves.items():
        move()
        assert tiles(explorer, **{"stroke-width": "2"}) == [head] == [(explorer.arrays.layer, explorer.arrays.head)]


def test_ablated_heads_are_covered_and_a_heads_role_is_named(explorer):
    wanted = {"this head": [(1, 2)], "its layer": [(1, n) for n in range(4)], "induction": explorer.roles["induction"]}
    for ablate, heads in wanted.items():
        explorer.set(layer=1, head=2, ablate=ablate)
        assert tiles(explorer, **{"class": "ablated"}) == [*explorer.arrays.ablate] == [*heads]
    layer, head = explorer.roles["induction"][0]
    explorer.set(layer=layer, head=head, ablate="none")
    assert "induction head" in explorer.said


def test_each_row_of_a_new_text_tells_whom_its_token_reads_also_with_signs_that_no_page_can_show(explorer):
    explorer.set(text="a\x01 \n\t\x7f<img onerror=x>", layer=0, head=1)
    rows = tooltips(explorer, " looks at ")
    assert [row.partition(" looks at ")[0] for row in rows[:7]] == ["a", "�", "·", "↵", "→", "�", "<"]
    weight, place = explorer.arrays.maps[0, 1, 8].max(dim=0)
    assert rows[8].startswith(f"m looks at {rows[place][0]} {weight:.2f}")
    assert explorer.arrays.token == len(rows) - 1  # the last, as nothing else is wished
    assert "<img" not in explorer.svg + explorer.readout


def test_another_head_or_token_needs_no_forward(explorer, monkeypatch):
    explorer.set(ablate="induction")
    monkeypatch.setattr(MODEL, "look", lambda *_: pytest.fail("it went through the model again"))
    for values in ({"head": 3}, {"layer": 0}, {"token": 2}, {"ablate": "none"}, {"ablate": "induction"}):
        explorer.set(**values)

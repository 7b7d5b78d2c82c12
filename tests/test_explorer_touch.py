"""What a page asks of an explorer by a touch or by Play, and that any moves lead to one picture of their state."""

import random

import pytest
import torch
from explorer_page import SVG, say, tree_of
from made import RUN, make, reset, settings_of

from attention_course import explorers

TOUCHED = [  # what's touched, the control that it moves, and to which value
    ("TextExplorer", {"text": "The town lies by a slow"}, "back 20", "back", 20),  # its maps are images
    ("KeyWidthExplorer", {}, "query 7", "asked", 7),
]


@pytest.mark.parametrize(("name", "state", "place", "control", "value"), TOUCHED)
def test_a_touched_row_or_point_moves_its_control(explorer, name, state, place, control, value):
    e = explorer(name)
    e.set(**state)
    assert tree_of(e).findall(f".//*[@data-touch='{place}']")
    say(e, touch=place)
    assert (e.values[control], e.message) == (value, "")


def test_a_head_is_switched_off_by_its_map_and_its_question_fails(explorer):
    e = explorer("SplitExplorer")
    e.set(weights="trained", d_out=8, num_heads=2)
    assert e.arrays.accuracy.min() > 0.99
    say(e, touch="off 0")
    assert "Head 1 switched off." in e.message
    assert e.arrays.weights.flatten(1).any(dim=1).tolist() == [False, True]
    first, second = sorted(e.arrays.accuracy.tolist())
    assert first < 0.3 < 0.9 < second
    say(e, touch="off 0")
    assert e.arrays.accuracy.min() > 0.99


@pytest.mark.parametrize("d_out", [1, 8])
def test_a_dragged_key_is_where_the_hand_is_and_its_head_alone_weighs_anew(explorer, d_out):
    """In a plane, and on the line of a head that is one wide."""
    e = explorer("WrapperExplorer")
    e.set(weights="trained", num_heads=2, d_out=d_out, example=3)
    before = e.arrays.weights
    say(e, touch="key 1,2", at=[60.0, 40.0])
    [held] = tree_of(e).findall(f".//{SVG}g[@data-touch='key 1,2']")
    spot = [float(held[0].get(name)) for name in ("cx", "cy")]
    assert spot[:d_out] == pytest.approx([60, 40][:d_out], abs=0.2)
    assert (e.arrays.weights == before).flatten(1).all(dim=1).tolist() == [True, False]
    say(e, touch="key 1,2", by=[4, 0])
    say(e, touch="key 1,2", at=None)  # Escape
    assert torch.equal(e.arrays.weights, before)
    assert e.shown["moved"] == {}


def test_the_dragged_arrow_is_where_the_hand_is_and_no_other_token_asks_for_something_else(explorer):
    e = explorer("WrapperExplorer")
    e.set(weights="trained", num_heads=2, d_out=2, example=3)
    before, keys = e.arrays.weights, e.arrays.planes[1].keys
    say(e, touch="asked 1,0", at=[60.0, 40.0])
    [held] = tree_of(e).findall(f".//{SVG}g[@data-touch='asked 1,0']")
    assert [float(held[0].get(name)) for name in ("cx", "cy")] == pytest.approx([60, 40], abs=0.2)
    changed = (e.arrays.weights != before).any(dim=-1)  # (num_heads, num_tokens)
    assert changed.nonzero().tolist() == [[1, 6]]
    assert torch.equal(e.arrays.planes[1].keys, keys)
    say(e, touch="asked 1,0", at=None)
    assert torch.equal(e.arrays.weights, before)


def test_an_entry_of_an_embedding_is_dragged_and_scores_and_weights_follow(explorer):
    e = explorer("ScoresExplorer")
    say(e, touch="entry 2", at=[0.0, 1000.0])  # below its axis
    assert e.shown["changed"] == {(1, 2): 0.0}
    changed = e.embeddings.clone()
    changed[1, 2] = 0
    torch.testing.assert_close(e.arrays.weights, torch.softmax(changed @ changed.T, dim=-1))
    say(e, touch="entry 2", by=[0, -4])
    assert 0 < e.arrays.embeddings[1, 2] < 0.1


def test_a_playing_page_gets_picture_after_picture_until_the_end_and_then_begins_anew():
    steps = [snapshot.step for snapshot in RUN.snapshots]
    e = explorers.LearningExplorer(RUN, step=steps[1])
    for coming in (steps[2:], steps):
        e.view.playing = True
        for step in (*coming, steps[-1]):  # there it doesn't play any more
            say(e, next=True)
            assert (e.values["step"], e.view.playing) == (step, step != steps[-1])


def touch_somewhere(e, chance):
    """Move a control, or touch the picture in one of the ways in which a page can."""
    touches = sorted({part.get("data-touch") for part in tree_of(e).findall(".//*[@data-touch]")})
    if touches and chance.random() < 0.6:
        spot = [chance.uniform(-20, 250), chance.uniform(-20, 250)]
        how = chance.choice([{}, {"at": spot}, {"by": [4, -4]}, {"at": None}, {"value": 2}])
        how = how if "value" not in how or type(e).__name__ == "QKVExplorer" else {}
        return say(e, touch=chance.choice(touches), **how)
    control = chance.choice([*e.controls.values()])
    control.value = chance.choice(settings_of(control))


@pytest.mark.parametrize("moves", [8, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", explorers.__all__)
def test_after_random_moves_and_touches_the_picture_is_that_of_its_state(explorer, name, moves):
    """Whatever was shown before: the other explorer sees each second state."""
    e, other, chance = make(name), explorer(name), random.Random(moves)
    first = e.shown, e.svg
    for n in range(moves):
        touch_somewhere(e, chance)
        if n % 2:
            other.update(**e.shown)
            assert other.svg == e.svg, e.shown
    reset(e)
    assert (e.shown, e.svg) == first

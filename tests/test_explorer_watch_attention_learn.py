"""The explorers of notebooks 07 and 08: a training run to scrub through, and two models that read what is typed."""

from types import SimpleNamespace

import pytest
from explorer_page import figures, readouts
from made import MODELS, RUN

from attention_course import explorers
from attention_helpers.training.lookup import LookupTask

STEPS = [snapshot.step for snapshot in RUN.snapshots]


def test_one_question_has_one_answer():
    """And one head has its map."""
    snapshots = [each._replace(accuracy=each.accuracy[:1], maps=each.maps[:, [0]]) for each in RUN.snapshots]
    run = SimpleNamespace(task=LookupTask(), examples=RUN.examples.clone(), snapshots=snapshots)
    run.examples[:, -1, 1] = run.task.blank
    e = explorers.LearningExplorer(run)
    [asked] = e.arrays.asked
    assert asked[0] == e.arrays.tokens[-1][0]
    assert figures(readouts(e)["right answer"]) == [asked[-1], asked[-1]]


def test_a_playing_page_asks_for_picture_after_picture_until_the_end_and_then_begins_anew():
    e = explorers.LearningExplorer(RUN, step=STEPS[1])
    e.view.playing, seen = True, []
    while e.view.playing:
        e._heard(e.view, {"next": True}, [])
        seen.append(e.values["step"])
    assert seen == STEPS[2:]
    e._heard(e.view, {"next": True}, [])
    assert e.values["step"] == STEPS[-1]  # it doesn't play any more
    e.view.playing = True
    e._heard(e.view, {"next": True}, [])
    assert e.values["step"] == STEPS[0]


@pytest.fixture
def typed():
    return explorers.TextExplorer(*MODELS)


def test_what_the_models_do_not_know_or_is_too_long_is_left_out_and_named(typed):
    typed.controls["text"].value = "ß@a town lies by a slow green\t river."
    assert typed.arrays.text == "town lies by a slow green river."
    assert all(part in typed.message for part in ("ß, @, \\t.", "last 32 characters."))


def test_the_position_goes_with_the_letters_that_are_read(typed):
    assert list(typed.controls["back"].options) == [8, 7, 6, 5, 4, 3, 2, 1, 0]  # to the right is later
    typed.controls["text"].value = "hßave"  # four letters are left
    assert list(typed.controls["back"].options) == [3, 2, 1, 0]
    assert (typed.values["back"], typed.arrays.place) == (3, 0)
    typed.controls["text"].value = "have a jar"
    assert (typed.values["back"], typed.arrays.place) == (5, 4)

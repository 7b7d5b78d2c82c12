"""The explorers of notebooks 07 and 08: a training run to scrub through, and two models that read what is typed."""

import base64
import io
from types import SimpleNamespace

import numpy as np
import pytest
from explorer_page import SVG, check_claim, figures, frames, readouts, tree_of
from matplotlib.colors import to_rgb
from PIL import Image

from attention_course import explorers
from attention_course.explorers.base import Markup
from attention_helpers.plots import HEAD_COLOURS
from attention_helpers.training.lookup import LookupTask
from tools.bench.made import MODELS, RUN

STEPS = [snapshot.step for snapshot in RUN.snapshots]


def run_of(heads):
    """The made-up run with these heads' maps only."""
    snapshots = [snapshot._replace(maps=snapshot.maps[:, heads]) for snapshot in RUN.snapshots]
    return SimpleNamespace(task=RUN.task, examples=RUN.examples.clone(), snapshots=snapshots)


@pytest.fixture(scope="module")
def learning():
    return explorers.LearningExplorer(RUN)


def test_one_question_has_one_answer():
    run = run_of([0])
    run.task = LookupTask()
    run.snapshots = [each._replace(accuracy=each.accuracy[:1]) for each in run.snapshots]
    run.examples[:, -1, 1] = run.task.blank
    e = explorers.LearningExplorer(run)
    [asked] = e.arrays.asked
    assert asked[0] == e.arrays.tokens[-1][0]
    assert figures(readouts(e)["right answer"]) == [asked[-1], asked[-1]]
    assert "second answer" not in e.svg


def strips(tree):
    """Each head's strip as colours and opacities (num_tokens, snapshots, 4), with its place (x, y, width, height)."""
    for image in tree.iter(f"{SVG}image"):
        data = base64.b64decode(image.get("href").partition(",")[2])
        pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGBA")) / 255
        yield pixels, tuple(float(image.get(name)) for name in ("x", "y", "width", "height"))


def test_the_strips_show_what_the_question_read_in_the_run_and_the_step_is_framed(learning):
    place = 3
    learning.set(step=STEPS[place], example=2)
    tree = tree_of(learning)
    marks = [frame for frame in frames(tree, "2") if frame[3] > frame[2]]
    for head, (pixels, (x, y, width, height)) in enumerate(strips(tree)):
        expected = (learning.arrays.run[:, head].T.numpy() / (4 / 7)).clip(max=1)  # (num_tokens, snapshots)
        assert pixels[..., 3] == pytest.approx(expected**0.7, abs=0.03)
        assert abs(pixels[expected > 0.05][:, :3] - to_rgb(HEAD_COLOURS[head])).max() < 0.01
        each = width / len(STEPS)
        assert any(mark == pytest.approx((x + place * each, y, each, height), abs=0.2) for mark in marks)


def test_play_starts_anew_at_the_end_stops_there_and_begins_where_the_explorer_opens():
    e = explorers.LearningExplorer(RUN)
    assert e.values == {"step": STEPS[-1], "example": 1}  # it opens at the end, unless it's told otherwise
    [play] = e.children[0].children[len(e.controls) :]
    assert (play.link.source, play.link.target) == ((play, "value"), (e.controls["step"], "index"))
    assert (play.min, play.max, play.value, play.repeat) == (0, 4, 4, True)
    play.playing = True
    play.value = 1  # as the page does
    assert play.playing
    play.value = 4
    assert not play.playing
    began = explorers.LearningExplorer(RUN, step=STEPS[2], example=3)
    assert began.values == {"step": STEPS[2], "example": 3}
    [play] = began.children[0].children[len(began.controls) :]
    assert play.value == 2  # or the page would move the slider away at once


@pytest.fixture
def typed():
    return explorers.TextExplorer(*MODELS)


@pytest.mark.parametrize(
    ("text", "read", "said"),
    [
        ("vßi@ ßha\t", "vi ha", r"… so left out: ß, @, \t."),
        ("ßtown lies by a slow green river.", "town lies by a slow green river.", "… so left out: ß."),  # 32 are left
        ("ßa town lies by a slow green river.", "town lies by a slow green river.", "… ß. … last 32 characters."),
    ],
)
def test_what_the_models_do_not_know_is_left_out_and_named(typed, text, read, said):
    typed.controls["text"].value = text
    assert typed.arrays.text == read
    check_claim(Markup(typed.message.value), said)


def test_the_position_goes_with_the_letters_that_are_read(typed):
    assert list(typed.controls["back"].options) == [8, 7, 6, 5, 4, 3, 2, 1, 0]  # to the right is later
    typed.controls["text"].value = "hßave"  # four letters are left
    assert list(typed.controls["back"].options) == [3, 2, 1, 0]
    assert (typed.values["back"], typed.arrays.place) == (3, 0)
    typed.controls["text"].value = "h"
    assert list(typed.controls["back"].options) == [0]
    typed.controls["text"].value = "have a jar"
    assert (typed.values["back"], typed.arrays.place) == (5, 4)

"""A check on an exercise that is small enough to get wrong in every way; and progress, which outlives a kernel."""

import os
import re

import pytest
import torch
from torch import nn

from attention_course.exercises import record
from attention_course.exercises.base import Exercise, Progress

PAGE_VARIABLE = torch.ones(2, 3)


def halves(x, flip=False):
    """Rows of x (n, d), halved."""
    return x / 2 if not flip else x.flip(0) / 2


def cases(generator):
    return [(torch.randn(n, d, generator=generator), n > 2) for n, d in ((2, 3), (4, 1))]


MISTAKES = {
    ("/ 2", "* 2"): "You double.",
    ("x.flip(0)", "x"): "You don't | flip.",
    ("x.flip(0)", "x[:2]"): "",
}
HEADING = "03#Find-the-leak"


@pytest.fixture
def exercise():
    return Exercise(
        name="halving", solution=halves, cases=cases, mistakes=MISTAKES, heading=HEADING, hints={"result": "Divide."}
    )


def fails(x, flip):
    raise KeyError("no head 3")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda x, flip: x * 2 if not flip else x.flip(0) * 2, "You double."),
        (lambda x, flip: x * 0.5, "You don't | flip."),
        (lambda x, flip: x.mul_(0.5).flip(0) if flip else x.mul_(0.5), "changes an argument in place"),
        (lambda x, flip: None, "did you forget the `return`"),
        (lambda x, flip: halves(x, flip).numpy(), "a tensor, but is a numpy.ndarray"),
        (lambda x, flip: halves(x, flip).index_fill(0, torch.tensor(1), torch.nan), "NaN at [1, 0], where ours is "),
        (lambda x, flip: halves(x, flip) + 1, "6 of 6 entries of the result differ. At [0, 0], yours is"),
        (lambda x, flip: halves(x, flip).double(), "Only its type isn't right: the numbers are right."),
        (lambda x, flip: halves(x, flip)[:, :2], "the last part is missing"),
        (lambda x, flip: halves(x, flip) * 1.5, "All of yours is 1.5 times as large as it should be."),
        (lambda x, flip: halves(x, flip).flip(1), "The right columns are there, but in another order."),
        (lambda x, flip: halves(x, flip) + 1, "All of yours is 1 too large."),
        (lambda x, flip: -halves(x, flip), "Only the sign differs."),
        (lambda x, flip: halves(x, flip).mT, "with their dimensions in another order."),
        (lambda x, flip: torch.zeros_like(x), "Every entry of yours is 0."),
        (lambda x, flip: halves(x), "You don't | flip."),
        (lambda x: halves(x, True), "`TypeError`"),
        (lambda x, flip: halves(PAGE_VARIABLE, False), "never reads `x` and `flip`. Instead, it reads"),
        (lambda x, flip: torch.log(-x.abs()) + flip, "The first NaN comes from line"),
        (lambda x, flip: 0, "input 1 of 4, `practice.halving.inputs()[0]`."),
        (lambda x, flip: halves(x.mul_(2), flip) / 2, "changes an argument in place"),
        (lambda x: x, "not in a line of yours: `TypeError`"),
        (lambda x, flip: fails(x, flip), """`raise KeyError("no head 3")`, with `KeyError`"""),
        (lambda x, flip: nn.functional.softmax(x, dim=7), "softmax(x, dim=7)"),  # the learner's line, not torch's
    ],
)
def test_wrong_answers_and_what_is_said(exercise, answer, said):
    reply = exercise.check(answer)
    assert reply.right is False
    assert said in reply.text
    assert not exercise.done


def test_an_answer_is_used_only_once_it_was_checked_and_right(exercise, capsys):
    right, again, wrong = (lambda x, flip: halves(x, flip)), (lambda x, flip: halves(x, flip)), (lambda x, flip: x)
    exercise.check(right)
    assert exercise.or_ours(right) is right
    assert exercise.or_ours(again) is halves
    assert "our halves, because its check hasn't run on yours as it is now" in capsys.readouterr().out
    exercise.check(wrong)
    assert exercise.or_ours(wrong) is halves
    assert capsys.readouterr().out == ""


def test_an_answer_runs_once_for_each_input(exercise):
    """What it appends to a list of the notebook is there once."""
    kept = []
    exercise.check(lambda x, flip: kept.append(flip))
    assert kept == [False, True, False, True]


def test_a_stub_with_another_name_in_it_is_an_attempt(exercise):
    exercise.stub, names = "def halves(x, flip): return x.sin()", {}
    exec(exercise.stub.replace("sin", "cos"), names)
    assert exercise.check(names["halves"]).right is False


def refuses(p):
    """p, below 1."""
    if p >= 1:
        raise ValueError(f"p must be below 1, got {p}")
    return p


def test_an_error_that_was_asked_for_is_asked_for_after_a_mistake_is_named():
    mistakes = {("ValueError(", "OSError("): "Kind.", ("return p", "return 2 * p"): "You double."}
    cases = [(2.0,), (0.5,), (0.3,)]
    exercise = Exercise(solution=refuses, cases=lambda g: cases, mistakes=mistakes, heading=HEADING)
    assert exercise.check(refuses).right
    assert "This call should raise a ValueError" in exercise.check(lambda p: p).text
    assert "You double." in exercise.check(lambda p: 2 * p).text


def new_exercise(name="halving"):
    """As in a new kernel."""
    return Exercise(name=name, title="Halving", solution=halves, cases=lambda g: [(1.0,), (3.0,)])


def test_what_was_right_once_is_known_to_the_next_kernel_and_no_edit_of_the_file_loses_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert new_exercise().check(halves).right
    assert os.listdir() == []  # outside a workbook
    (tmp_path / record.MARK).write_text("{}")
    first = new_exercise()
    assert first.check(abs).right is False
    assert not first.done
    assert first.check(halves).text == "✓ **Right.** Checked on 2 inputs."
    assert new_exercise().done
    assert Progress([new_exercise(), new_exercise("another")])().text == "**1 of 2 done.** ✓ Halving · ○ Halving"
    first.check(halves)
    assert re.fullmatch(r"\nhalving \d{4}-\d\d-\d\d", (tmp_path / record.FILE).read_text())
    (tmp_path / record.FILE).write_text("another 2026-01-01\n\nno end of line")
    assert new_exercise("mine").check(halves).right
    assert record.done() == {"another", "no", "mine"}


def is_large(x):
    """Whether any entry is above 1."""
    return bool((x > 1).any())


def test_yes_and_no_is_no_evidence():
    """Many mistakes give the same few answers."""
    mistakes = {("any", "all"): "You ask all entries.", ("> 1", "> 3"): ""}
    exercise = Exercise(
        solution=is_large, cases=lambda g: [(3 * torch.randn(5, generator=g),) for _ in range(9)], mistakes=mistakes
    )
    reply = exercise.check(lambda x: bool((x > 1).all()))
    assert reply.text.startswith("✗ **Not yet.** The result is False, and ours is True.")
    assert [mistake.name for mistake, _ in exercise.mistaken] == ["`> 3` for `> 1`"]


def scaled_sum(x, factor):
    """The sum of factor * x."""
    scaled = factor * x
    return scaled.sum()


def test_the_hint_is_about_the_first_step_that_is_not_right():
    hints = {"scaled": "Multiply.", "result": "Add."}
    exercise = Exercise(solution=scaled_sum, cases=lambda g: [(torch.randn(4, generator=g), 3.0)], hints=hints)
    early, late = (exercise.check(answer) for answer in (lambda x, f: (x + f).sum(), lambda x, f: (x * f).mean()))
    assert early.text.endswith("Hint: Multiply.")
    assert early.hints == ("Add.",)
    assert "right as far as `scaled` (line" in late.text
    assert late.text.endswith("Hint: Add.")


def test_an_argument_that_only_an_inner_function_reads_is_read(exercise):
    def answer(x, flip):
        def inner():
            return x.flip(0) if flip else x

        return inner() + 1

    assert "never reads" not in exercise.check(answer).text


def test_a_right_answer_gets_no_advice(exercise):
    unread = exercise.check(lambda x, flip, sign=1: halves(x, flip))
    assert unread.text == "✓ **Right.** Checked on 4 inputs."
    assert unread.hints == ()

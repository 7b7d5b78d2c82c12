"""Progress outlives a kernel: where it's kept, and that nothing found there breaks a check."""

import os
import re

import pytest

from attention_helpers import exercises
from attention_helpers.exercises import lesson_01, record
from attention_helpers.exercises.base import Exercise, Progress


def halves(x):
    """x, halved."""
    return x / 2


def exercise(name="halving"):
    """One that is new, as in a new kernel."""
    return Exercise(name=name, title="Halving", solution=halves, cases=lambda g: [(1.0,), (3.0,)])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def workbook(folder):
    (folder / record.MARK).write_text("{}")
    return folder


def test_what_was_right_once_is_known_to_the_next_kernel(workbook):
    first = exercise()
    assert first.check(None).right is None
    assert first.check(abs).right is False
    assert not first.done
    assert first.check(halves).text == "✓ **Right.** Checked on 2 inputs."
    assert exercise().done
    assert not exercise("another").done
    assert exercise().check(abs).right is False
    assert Progress([exercise(), exercise("another")])().text == "**1 of 2 done.** ✓ Halving · ○ Halving"
    first.check(halves)
    assert re.fullmatch(r"\nhalving \d{4}-\d\d-\d\d", (workbook / record.FILE).read_text())


def test_the_start_page_shows_the_whole_course(workbook):
    nothing = exercises.progress().text
    total = sum(lesson.count("○") for lesson in nothing.splitlines())
    assert nothing.startswith(f"**None of the {total} exercises ")
    record.note("contexts_at_once")
    text = exercises.progress().text
    assert text.startswith(f"**1 of {total} exercises done.**")
    assert f"| 01 | 1 of {len(lesson_01.EXERCISES)} | ○ " in text.replace("\xa0", " ")
    assert " ✓ All contexts at once ·" in text
    assert text.count("✓") == 1


def test_outside_a_workbook_nothing_is_written(folder):
    assert exercise().check(halves).right
    assert not exercise().done
    assert os.listdir(folder) == []


@pytest.mark.parametrize("found", [b"", b"another 2026-01-01\nhalving\n", b"no end of line", b"\n\nof latin-1: \xe4"])
def test_a_file_that_somebody_edited_loses_nothing(workbook, found):
    (workbook / record.FILE).write_bytes(found)
    before = record.done()
    assert exercise("mine").check(halves).text == "✓ **Right.** Checked on 2 inputs."
    assert record.done() == before | {"mine"}
    assert (workbook / record.FILE).read_bytes().startswith(found)


def test_a_file_that_cannot_be_written_is_told_and_the_answer_is_right_all_the_same(workbook):
    (workbook / record.FILE).mkdir()
    mine = exercise()
    reply = mine.check(halves)
    assert reply.right
    assert re.search(r" \(Not noted in progress.txt, so a new kernel will not know: .+\.\)$", reply.text)
    assert mine.done
    assert not exercise().done

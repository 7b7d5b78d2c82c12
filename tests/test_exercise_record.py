"""Progress outlives a kernel: where it's kept, and that nothing found there breaks a check."""

import os
import re

import pytest

from attention_course.exercises import record
from attention_course.exercises.base import Exercise, Progress


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
    assert first.check(abs).right is False
    assert not first.done
    assert first.check(halves).text == "✓ **Right.** Checked on 2 inputs."
    assert exercise().done
    assert not exercise("another").done
    assert exercise().check(abs).right is False
    assert Progress([exercise(), exercise("another")])().text == "**1 of 2 done.** ✓ Halving · ○ Halving"
    first.check(halves)
    assert re.fullmatch(r"\nhalving \d{4}-\d\d-\d\d", (workbook / record.FILE).read_text())


def test_outside_a_workbook_nothing_is_written(folder):
    assert exercise().check(halves).right
    assert not exercise().done
    assert os.listdir(folder) == []


def test_a_file_that_somebody_edited_loses_nothing(workbook):
    (workbook / record.FILE).write_text("another 2026-01-01\n\nno end of line")
    assert exercise("mine").check(halves).right
    assert record.done() == {"another", "no", "mine"}

"""The learner's copies: without answers, never overwritten, never lost, told of newer versions."""

import json
from pathlib import Path

import pytest
from checkouts import copy_of_checkout, load, program

LESSON = "03_causal_masking.ipynb"
KEPT = "03_causal_masking.yours-1.ipynb"
START = {"00_start_here.ipynb": "course's"}


def code(source, *outputs, count=7):
    return prose(source) | {"cell_type": "code", "execution_count": count, "outputs": list(outputs)}


def prose(source, **more):
    return {"cell_type": "markdown", "id": "a", "metadata": {}, "source": source} | more


def shown(**data):
    return {"output_type": "execute_result", "execution_count": 7, "metadata": {}, "data": data}


def put(path, *cells):
    """Write a notebook of these cells."""
    program(path, json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))


@pytest.fixture
def workbook(tmp_path, monkeypatch):
    """The tool in a course of two notebooks, filled, with one of them as `lesson`, and the learner's `copy` of it."""
    checkout = copy_of_checkout(tmp_path)
    for name in ("00_start_here.ipynb", LESSON):
        put(checkout / "notebooks" / name, prose("course's"))
    workbook = load(checkout, "setup/workbook")
    workbook.sign = lambda texts: None  # signatures go to your own Jupyter
    workbook.fill()
    workbook.lesson, workbook.copy = workbook.NOTEBOOKS / LESSON, workbook.WORKBOOK / LESSON
    return workbook


def contents(workbook):
    """What the cells of each copy that's a notebook say."""
    paths = [path for path in workbook.WORKBOOK.glob("*.ipynb") if workbook.version(path)]
    return {path.name: "".join("".join(cell["source"]) for cell in cells_of(path)) for path in paths}


def cells_of(path):
    return json.loads(path.read_bytes())["cells"]


def test_fill_copies_what_is_missing_and_overwrites_nothing(workbook, capsys):
    put(workbook.WORKBOOK / "00_start_here.ipynb", prose("mine"))
    workbook.copy.unlink()
    put(workbook.lesson, prose("newer"))
    workbook.fill()
    assert contents(workbook) == {"00_start_here.ipynb": "mine", LESSON: "newer"}
    assert capsys.readouterr().out == "", "the learner's edits are not a newer version of the course"


def test_a_damaged_copy_is_set_aside_and_stops_nothing(workbook, capsys):
    half = workbook.copy.read_bytes()[:-20]
    workbook.copy.write_bytes(half)
    workbook.main(["fill"])
    assert capsys.readouterr().out.startswith(f"Yours is now workbook/{KEPT} (it can't be read).\n")
    assert contents(workbook)[LESSON] == "course's"
    assert (workbook.WORKBOOK / KEPT).read_bytes() == half


def test_a_newer_version_is_told_at_each_call_and_reset_brings_it_and_keeps_the_old(workbook, capsys):
    put(workbook.NOTEBOOKS / "solutions/03_solutions.ipynb", prose("an answer"))  # which never stand in for a lesson
    put(workbook.copy, prose("mine"))
    put(workbook.lesson, prose("newer"))
    for _ in range(2):
        workbook.fill()
        assert "make reset NOTEBOOK=03 brings it" in capsys.readouterr().out
    workbook.main(["reset", "3"])
    put(workbook.copy, prose("mine again"))
    workbook.main(["reset", LESSON])
    workbook.main(["reset", "03"])  # nothing to keep now
    kept = {KEPT: "mine", "03_causal_masking.yours-2.ipynb": "mine again"}
    assert contents(workbook) == START | {LESSON: "newer"} | kept


def test_lost_record_is_told_once_and_loses_nothing(workbook, capsys):
    """As when a learner moves the notebooks, but not the hidden record, to a newer course."""
    put(workbook.copy, prose("mine"))
    workbook.VERSIONS.unlink()
    for said in (f"{LESSON}: the course may have a newer version", ""):
        workbook.fill()
        assert capsys.readouterr().out[:50] == said[:50]
    assert contents(workbook)[LESSON] == "mine"


def test_a_copy_holds_pictures_of_explorers_and_no_other_output(workbook):
    picture = shown(**{"image/svg+xml": "<svg/>", "text/plain": "words"})
    printed = {"output_type": "stream", "name": "stdout", "text": "the answer"}
    put(workbook.lesson, prose("Größe"), code("1", picture, printed), code("2", shown(**{"image/png": "AAAA"})))
    workbook.reset("03")
    kept = [prose("Größe"), code("1", picture | {"execution_count": None}, count=None), code("2", count=None)]
    assert cells_of(workbook.copy) == kept


def test_a_copy_that_was_only_run_is_not_told_of_and_not_set_aside(workbook, capsys):
    put(workbook.lesson, code(["1"], shown(**{"text/plain": "old"})))
    workbook.reset("03")
    put(workbook.copy, code("1", shown(), count=3))  # the same source in other bytes
    put(workbook.lesson, code(["1"], shown(**{"text/plain": "new"})))
    capsys.readouterr()
    workbook.fill()
    assert capsys.readouterr().out == "", "outputs make no newer version"
    put(workbook.lesson, code(["2"]))
    workbook.reset("03")
    assert contents(workbook) == START | {LESSON: "2"}


PASTED = {"a.png": {"image/png": "AAAA"}}  # a picture pasted into a cell


@pytest.mark.parametrize("changed", [prose("1 "), code("1"), prose("1", attachments=PASTED)])
def test_a_copy_with_a_changed_cell_is_set_aside(workbook, changed):
    put(workbook.lesson, prose("1"))
    workbook.reset("03")
    put(workbook.copy, changed)
    workbook.reset("03")
    assert cells_of(workbook.WORKBOOK / KEPT) == [changed]


def test_a_copy_stays_if_the_disk_is_full_while_a_newer_one_is_written(workbook, monkeypatch):
    def half(path, content, write=Path.write_bytes):
        write(path, content[:2])
        raise OSError("No space left on device")

    before = workbook.copy.read_bytes()
    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(OSError, match="No space"):
        workbook.write(workbook.copy, b"newest")
    assert workbook.copy.read_bytes() == before

"""The learner's copies: without answers, never overwritten, never lost, told of newer versions."""

import json
from pathlib import Path

import pytest
from checkouts import copy_of_checkout, load, program

LESSON = "03_causal_masking.ipynb"
KEPT = "03_causal_masking.yours-1.ipynb"
START = {"00_start_here.ipynb": "course's"}


def code(source, *outputs, count=7):
    run = {"execution_count": count, "outputs": list(outputs)}
    return {"cell_type": "code", "id": "a", "metadata": {}, "source": source} | run


def prose(source, **more):
    return {"cell_type": "markdown", "id": "b", "metadata": {}, "source": source} | more


def shown(**data):
    return {"output_type": "execute_result", "execution_count": 7, "metadata": {}, "data": data}


def put(path, *cells):
    """Write a notebook of these cells."""
    program(path, json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))


@pytest.fixture
def workbook(tmp_path, monkeypatch):
    """The tool in a course of two notebooks, filled; without signatures, which go to your own Jupyter."""
    checkout = copy_of_checkout(tmp_path)
    for name in ("00_start_here.ipynb", LESSON):
        put(checkout / "notebooks" / name, prose("course's"))
    workbook = load(checkout, "setup/workbook")
    monkeypatch.setattr(workbook, "sign", lambda texts: None)
    workbook.fill()
    return workbook


@pytest.fixture
def lesson(workbook):
    """The lesson as the course has it, and the learner's copy."""
    return workbook.NOTEBOOKS / LESSON, workbook.WORKBOOK / LESSON


def contents(workbook):
    """What the cells of each copy that's a notebook say."""
    paths = [path for path in workbook.WORKBOOK.glob("*.ipynb") if workbook.version(path)]
    cells = {path.name: json.loads(path.read_bytes())["cells"] for path in paths}
    return {name: "".join("".join(cell["source"]) for cell in each) for name, each in cells.items()}


def test_fill_copies_what_is_missing_and_overwrites_nothing(workbook, lesson, capsys):
    put(workbook.WORKBOOK / "00_start_here.ipynb", prose("mine"))
    lesson[1].unlink()
    put(lesson[0], prose("newer"))
    workbook.fill()
    assert contents(workbook) == {"00_start_here.ipynb": "mine", LESSON: "newer"}
    assert capsys.readouterr().out == "", "the learner's edits are not a newer version of the course"


def test_a_damaged_copy_is_set_aside_and_stops_nothing(workbook, lesson, capsys):
    half = lesson[1].read_bytes()[:-20]
    lesson[1].write_bytes(half)
    workbook.main(["fill"])
    assert capsys.readouterr().out.startswith(f"Yours is now workbook/{KEPT} (it can't be read).\n")
    assert contents(workbook)[LESSON] == "course's"
    assert (workbook.WORKBOOK / KEPT).read_bytes() == half


def test_a_newer_version_is_told_at_each_call_and_reset_brings_it_and_keeps_the_old(workbook, lesson, capsys):
    source, copy = lesson
    put(workbook.NOTEBOOKS / "solutions/03_solutions.ipynb", prose("an answer"))  # which never stand in for a lesson
    put(copy, prose("mine"))
    put(source, prose("newer"))
    for _ in range(2):
        workbook.fill()
        assert "make reset NOTEBOOK=03 brings it" in capsys.readouterr().out
    workbook.main(["reset", "3"])
    put(copy, prose("mine again"))
    workbook.main(["reset", LESSON])
    workbook.main(["reset", "03"])  # nothing to keep now
    kept = {KEPT: "mine", "03_causal_masking.yours-2.ipynb": "mine again"}
    assert contents(workbook) == START | {LESSON: "newer"} | kept


def test_lost_record_is_told_once_and_loses_nothing(workbook, lesson, capsys):
    """As when a learner moves the notebooks, but not the hidden record, to a newer course."""
    put(lesson[1], prose("mine"))
    workbook.VERSIONS.unlink()
    for said in (f"{LESSON}: the course may have a newer version", ""):
        workbook.fill()
        assert capsys.readouterr().out[:50] == said[:50]
    assert contents(workbook)[LESSON] == "mine"


def test_a_copy_holds_pictures_of_explorers_and_no_other_output(workbook, lesson):
    picture = shown(**{"image/svg+xml": "<svg/>", "text/plain": "words"})
    printed = {"output_type": "stream", "name": "stdout", "text": "the answer"}
    put(lesson[0], prose("Größe"), code("1", picture, printed), code("2", shown(**{"image/png": "AAAA"})))
    workbook.reset("03")
    cells = json.loads(lesson[1].read_text(encoding="utf-8"))["cells"]
    assert cells == [prose("Größe"), code("1", picture | {"execution_count": None}, count=None), code("2", count=None)]


def test_a_copy_that_was_only_run_is_not_told_of_and_not_set_aside(workbook, lesson, capsys):
    source, copy = lesson
    put(source, code(["1"], shown(**{"text/plain": "old"})))
    workbook.reset("03")
    put(copy, code("1", shown(), count=3))  # the same source in other bytes
    put(source, code(["1"], shown(**{"text/plain": "new"})))
    capsys.readouterr()
    workbook.fill()
    assert capsys.readouterr().out == "", "outputs make no newer version"
    put(source, code(["2"]))
    workbook.reset("03")
    assert contents(workbook) == START | {LESSON: "2"}


PASTED = {"a.png": {"image/png": "AAAA"}}  # a picture pasted into a cell


@pytest.mark.parametrize("changed", [prose("1 "), code("1"), prose("1", attachments=PASTED)])
def test_a_copy_with_a_changed_cell_is_set_aside(workbook, lesson, changed):
    put(lesson[0], prose("1"))
    workbook.reset("03")
    put(lesson[1], changed)
    workbook.reset("03")
    assert json.loads((workbook.WORKBOOK / KEPT).read_text())["cells"] == [changed]


def test_a_copy_stays_if_the_disk_is_full_while_a_newer_one_is_written(workbook, lesson, monkeypatch):
    def half(path, content, write=Path.write_bytes):
        write(path, content[:2])
        raise OSError("No space left on device")

    before = lesson[1].read_bytes()
    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(OSError, match="No space"):
        workbook.write(lesson[1], b"newest")
    assert lesson[1].read_bytes() == before

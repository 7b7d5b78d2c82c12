"""The learner's copies: without answers, never overwritten, never lost, told of newer versions."""

import json
import os
import sys

import pytest
from checkouts import copy_of_checkout, load, program

LESSON = "03_causal_masking.ipynb"
KEPT = "03_causal_masking.yours-1.ipynb"


def code(source, *outputs, count=7):
    run = {"execution_count": count, "outputs": list(outputs)}
    return {"cell_type": "code", "id": "a", "metadata": {"tags": ["one"]}, "source": source} | run


def prose(source, **more):
    return {"cell_type": "markdown", "id": "b", "metadata": {}, "source": source} | more


def shown(**data):
    return {"output_type": "execute_result", "execution_count": 7, "metadata": {}, "data": data}


def notebook(*cells):
    return json.dumps({"cells": list(cells), "metadata": {"a": 1}, "nbformat": 4, "nbformat_minor": 5})


def put(path, words):
    """Write a notebook whose one cell says these words."""
    program(path, notebook(prose([words])))


@pytest.fixture
def signing(tmp_path):
    """The tool in a course of two notebooks."""
    checkout = copy_of_checkout(tmp_path)
    for name in ("00_start_here", "03_causal_masking"):
        put(checkout / f"notebooks/{name}.ipynb", "course's")
    return load(checkout, "setup/workbook")


@pytest.fixture
def workbook(signing, monkeypatch):
    """The same, filled, without signatures: nbformat takes a second to import, and they go to your own Jupyter."""
    monkeypatch.setattr(signing, "sign", lambda texts: None)
    signing.fill()
    return signing


def contents(workbook):
    """What the cells of each copy that's a notebook say."""
    found = {}
    for path in workbook.WORKBOOK.glob("*.ipynb"):
        if workbook.version(path):
            cells = json.loads(path.read_bytes())["cells"]
            found[path.name] = "".join("".join(cell["source"]) for cell in cells)
    return found


def write_mine(workbook, words="mine"):
    put(workbook.WORKBOOK / LESSON, words)


def new_version(workbook):
    put(workbook.NOTEBOOKS / LESSON, "newer")


def test_fill_copies_what_is_missing_and_overwrites_nothing(workbook, capsys):
    put(workbook.WORKBOOK / "00_start_here.ipynb", "mine")
    (workbook.WORKBOOK / LESSON).unlink()
    new_version(workbook)
    workbook.fill()
    assert contents(workbook) == {"00_start_here.ipynb": "mine", LESSON: "newer"}
    assert capsys.readouterr().out == "", "the learner's edits are not a newer version of the course"


@pytest.mark.parametrize("name", ["pictures/you_are_here_03.svg", "glossary.md"])
def test_fill_brings_the_newest_of_what_the_notebooks_show_and_keeps_what_a_learner_changed(workbook, name, capsys):
    copy = workbook.WORKBOOK / name
    kept = copy.with_name(f"{copy.stem}.yours-1{copy.suffix}")
    for text in ("old", "new"):
        program(workbook.NOTEBOOKS / name, text)
        workbook.fill()
        assert copy.read_text() == text
    assert capsys.readouterr().out == ""
    copy.write_text("new and mine")
    workbook.fill()
    assert (copy.read_text(), kept.read_text()) == ("new", "new and mine")
    assert capsys.readouterr().out == f"Yours is now workbook/{kept.relative_to(workbook.WORKBOOK).as_posix()}.\n"
    workbook.fill()
    assert capsys.readouterr().out == ""


def damage_by_brackets(copy):
    copy.write_text("[" * 100_000)


def damage_by_half_a_file(copy):
    copy.write_bytes(copy.read_bytes()[:-20])


def damage_by_another_format(copy):
    copy.write_text('{"worksheets": []}')  # as notebooks were before 2015


def replace_by_folder(copy):
    copy.unlink()
    copy.mkdir()


DAMAGES = [damage_by_brackets, damage_by_half_a_file, damage_by_another_format, replace_by_folder]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["fill", "reset"])
@pytest.mark.parametrize("recorded", [True, False])
def test_a_damaged_copy_is_set_aside_and_stops_nothing(workbook, damage, name, recorded, capsys):
    copy = workbook.WORKBOOK / LESSON
    damage(copy)
    before = os.lstat(copy)
    if not recorded:
        workbook.VERSIONS.unlink()
    workbook.main([name, "03"][: 1 + (name == "reset")])
    assert capsys.readouterr().out.startswith(f"Yours is now workbook/{KEPT} (it can't be read).\n")
    assert contents(workbook)[LESSON] == "course's"
    kept = os.lstat(copy.with_name(KEPT))
    assert (kept.st_ino, kept.st_size) == (before.st_ino, before.st_size)


def test_a_damaged_notebook_of_the_course_is_named(workbook, capsys):
    (workbook.NOTEBOOKS / LESSON).write_text("<<<<<<< HEAD")
    workbook.fill()
    assert capsys.readouterr().out == "", "it's no newer version"
    (workbook.WORKBOOK / LESSON).unlink()
    for argument in (["reset", "03"], ["fill"]):
        with pytest.raises(SystemExit, match=f"{LESSON} is damaged"):
            workbook.main(argument)


def test_newer_version_is_told_at_each_call(workbook, capsys):
    write_mine(workbook)
    new_version(workbook)
    for _ in range(2):
        workbook.fill()
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith(LESSON)
        assert "make reset NOTEBOOK=03 brings it" in line
    assert contents(workbook)[LESSON] == "mine"


@pytest.mark.parametrize("name", ["03", "03_causal_masking", LESSON, "03_c"])
def test_reset_brings_the_new_and_keeps_the_old(workbook, name, capsys):
    write_mine(workbook)
    new_version(workbook)
    workbook.main(["reset", name])
    capsys.readouterr()
    workbook.fill()
    assert capsys.readouterr().out == ""
    write_mine(workbook, "mine again")
    workbook.main(["reset", name])
    workbook.main(["reset", name])  # nothing to keep now
    assert contents(workbook) == {
        "00_start_here.ipynb": "course's",
        LESSON: "newer",
        KEPT: "mine",
        "03_causal_masking.yours-2.ipynb": "mine again",
    }


def test_reset_of_one_notebook_keeps_the_records_of_the_others(workbook, capsys):
    write_mine(workbook)
    workbook.reset("00")
    capsys.readouterr()
    workbook.fill()
    assert capsys.readouterr().out == ""


def test_reset_interrupted_at_any_step_loses_nothing(workbook, monkeypatch):
    copy = workbook.WORKBOOK / LESSON
    write_mine(workbook)
    new_version(workbook)
    replace = os.replace

    def interrupt(*_):
        raise KeyboardInterrupt

    for step in (lambda *_: interrupt(), lambda source, to: interrupt() if to != copy else replace(source, to)):
        with monkeypatch.context() as patch:
            patch.setattr(workbook.os, "replace", step)
            with pytest.raises(KeyboardInterrupt):
                workbook.reset("03")
        assert "mine" in contents(workbook).values()
        workbook.fill()
        assert contents(workbook)[LESSON] == "newer"
        write_mine(workbook)


@pytest.mark.parametrize("record", [None, "{ torn", "[1]"])
def test_lost_record_is_told_once_and_loses_nothing(workbook, record, capsys):
    write_mine(workbook)
    workbook.VERSIONS.unlink()
    if record is not None:
        workbook.VERSIONS.write_text(record)
    workbook.fill()
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{LESSON}: the course may have a newer version")
    workbook.fill()
    assert capsys.readouterr().out == ""
    new_version(workbook)
    put(workbook.NOTEBOOKS / "00_start_here.ipynb", "newer")
    workbook.fill()
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("00_start_here.ipynb: the course has a newer version"), "there's a record of it again"
    assert second.startswith(f"{LESSON}: the course has a newer version")
    assert contents(workbook)[LESSON] == "mine"


@pytest.mark.parametrize("name", ["", "9", "0"])
def test_unknown_notebook_lists_what_there_is(workbook, name):
    with pytest.raises(SystemExit, match="00_start_here, 03_causal_masking"):
        workbook.main(["reset", name])


def test_another_folder_for_the_copies(signing, tmp_path, monkeypatch):
    """As a class's hub names one for each learner, next to one course for all."""
    monkeypatch.setenv("ATTENTION_WORKBOOK", str(tmp_path / "ada"))
    tool = load(signing.ROOT, "setup/workbook")
    monkeypatch.setattr(tool, "sign", lambda texts: None)
    tool.fill()
    assert (tmp_path / "ada" / LESSON).exists()
    assert not (signing.ROOT / "workbook").exists()


def test_solutions_keep_their_folder_and_never_stand_in_for_a_lesson(workbook, capsys):
    solutions, copy = (folder / "solutions/03_solutions.ipynb" for folder in (workbook.NOTEBOOKS, workbook.WORKBOOK))
    put(solutions, "course's solutions")
    workbook.fill()
    assert "course's solutions" in copy.read_text()
    put(copy, "mine")
    put(solutions, "newer")
    workbook.fill()
    assert "make reset NOTEBOOK=solutions/03 brings it" in capsys.readouterr().out
    workbook.main(["reset", "03"])
    assert "mine" in copy.read_text()
    workbook.main(["reset", "solutions/03"])
    assert "newer" in copy.read_text()
    assert "mine" in (copy.parent / "03_solutions.yours-1.ipynb").read_text()


def notebook_of(tool, picture):
    """Make of a lesson's file a notebook in which a picture is stored, its text in lines as Jupyter writes it."""
    output = shown(**{"image/svg+xml": ["<svg>\n", f"{picture}</svg>"]})
    program(tool.NOTEBOOKS / LESSON, notebook(code(["1"], output)))


def test_a_copy_holds_pictures_of_explorers_and_no_other_output(workbook):
    picture = shown(**{"image/svg+xml": "<svg/>", "text/plain": "words"})
    printed = {"output_type": "stream", "name": "stdout", "text": "the answer"}
    chart = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "AAAA"}}
    text = prose(["Größe"])
    program(workbook.NOTEBOOKS / LESSON, notebook(text, code("1", picture, printed), code("2", chart, shown())))
    workbook.reset("03")
    copy = json.loads((workbook.WORKBOOK / LESSON).read_text(encoding="utf-8"))
    first = picture | {"execution_count": None}
    assert copy["cells"] == [text, code("1", first, count=None), code("2", count=None)]
    assert copy["metadata"] == {"a": 1, "language_info": workbook.LANGUAGE}


@pytest.mark.slow  # ipykernel takes a second to import
def test_a_copy_says_of_its_language_what_a_kernel_says(workbook):
    """If it said anything else, Lab would call the notebook changed as soon as it's opened."""
    from ipykernel.ipkernel import IPythonKernel

    assert IPythonKernel.language_info == workbook.LANGUAGE


def test_a_copy_that_was_only_run_is_not_told_of_and_not_set_aside(workbook, capsys):
    notebook_of(workbook, "old")
    workbook.reset("03")
    (workbook.WORKBOOK / LESSON).write_text(notebook(code("1", shown(), count=3)))  # the same source in other bytes
    notebook_of(workbook, "another picture, the same cells")
    capsys.readouterr()
    workbook.fill()
    assert capsys.readouterr().out == "", "outputs make no newer version"
    program(workbook.NOTEBOOKS / LESSON, notebook(code(["2"])))
    workbook.fill()
    assert "the course has a newer version" in capsys.readouterr().out
    workbook.reset("03")
    assert sorted(contents(workbook)) == ["00_start_here.ipynb", LESSON]
    assert json.loads((workbook.WORKBOOK / LESSON).read_text())["cells"] == [code(["2"], count=None)]


@pytest.mark.parametrize(
    "changed",
    [
        [prose("2")],
        [prose("1 ")],
        [],
        [code("1")],
        [prose("1", attachments={"a.png": {"image/png": "AAAA"}})],  # a picture pasted into it
    ],
)
def test_a_copy_with_a_changed_cell_is_set_aside(workbook, changed, capsys):
    put(workbook.NOTEBOOKS / LESSON, "1")
    workbook.reset("03")
    (workbook.WORKBOOK / LESSON).write_text(notebook(*changed))
    capsys.readouterr()
    workbook.fill()
    assert capsys.readouterr().out == ""
    workbook.reset("03")
    assert (workbook.WORKBOOK / KEPT).read_text() == notebook(*changed)


@pytest.mark.slow  # nbformat takes a second to import, and nothing else in the quick tests needs it
def test_copies_are_trusted_by_jupyter_until_they_are_changed(signing, tmp_path, monkeypatch, capsys):
    from nbformat import read
    from nbformat.sign import NotebookNotary

    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "not" / "there yet"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    copy = signing.WORKBOOK / LESSON

    def is_trusted():
        with NotebookNotary() as notary:
            return notary.check_signature(read(copy, as_version=4))  # as Lab's server reads it

    notebook_of(signing, "by reset")
    signing.reset("03")
    assert is_trusted()
    copy.unlink()
    notebook_of(signing, "by fill")
    signing.fill()
    assert is_trusted()
    copy.write_text(copy.read_text().replace("by fill", "by another"))
    signing.fill()
    assert not is_trusted(), "what is not the course's own is not the course's to trust"
    assert "can't sign" not in capsys.readouterr().out


def test_a_copy_that_cannot_be_signed_is_made_all_the_same_and_told(signing, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "nbformat", None)
    notebook_of(signing, "by reset")
    signing.reset("03")
    (signing.WORKBOOK / LESSON).unlink()
    signing.fill()
    assert capsys.readouterr().out.count("Jupyter can't sign (") == 2
    assert "by reset" in (signing.WORKBOOK / LESSON).read_text()

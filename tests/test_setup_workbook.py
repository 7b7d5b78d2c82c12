"""The learner's copies: without answers, never overwritten, never lost, told of newer versions."""

import json
import os
import sys

import pytest
from checkouts import copy_of_checkout, load, program

LESSON = "03_causal_masking.ipynb"


@pytest.fixture
def workbook(tmp_path):
    """The tool in a course of two notebooks, whose copies are made."""
    checkout = copy_of_checkout(tmp_path)
    for name in ("00_start_here", "03_causal_masking"):
        program(checkout / f"notebooks/{name}.ipynb", f"course's {name}")
    tool = load(checkout, "setup/workbook")
    tool.fill()
    return tool


@pytest.fixture
def unsigned(workbook, monkeypatch):
    """The same, without signatures: they need nbformat, a second to import, and go to this machine's own Jupyter."""
    monkeypatch.setattr(workbook, "sign", lambda *texts: None)
    return workbook


def contents(workbook):
    return {path.name: path.read_text() for path in workbook.WORKBOOK.glob("*.ipynb")}


def new_version(workbook):
    (workbook.NOTEBOOKS / LESSON).write_text("newer")


def test_fill_copies_what_is_missing_and_overwrites_nothing(workbook, capsys):
    (workbook.WORKBOOK / "00_start_here.ipynb").write_text("mine")
    (workbook.WORKBOOK / LESSON).unlink()
    new_version(workbook)
    workbook.fill()
    assert contents(workbook) == {"00_start_here.ipynb": "mine", LESSON: "newer"}
    assert capsys.readouterr().out == "", "the learner's edits are not a newer version of the course"


def test_fill_brings_the_newest_of_what_the_notebooks_show_and_link_to(workbook):
    for text in ("old", "new"):
        for name in ("pictures/you_are_here_03.svg", "glossary.md"):
            program(workbook.NOTEBOOKS / name, text)
            workbook.fill()
            assert (workbook.WORKBOOK / name).read_text() == text


def test_newer_version_is_told_at_each_call(workbook, capsys):
    (workbook.WORKBOOK / LESSON).write_text("mine")
    new_version(workbook)
    for _ in range(2):
        workbook.fill()
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith(LESSON)
        assert "make reset NOTEBOOK=03 brings it" in line
    assert contents(workbook)[LESSON] == "mine"


@pytest.mark.parametrize("name", ["03", "03_causal_masking", LESSON, "03_c"])
def test_reset_brings_the_new_and_keeps_the_old(workbook, name, capsys):
    (workbook.WORKBOOK / LESSON).write_text("mine")
    new_version(workbook)
    workbook.main(["reset", name])
    capsys.readouterr()
    workbook.fill()
    assert capsys.readouterr().out == ""
    (workbook.WORKBOOK / LESSON).write_text("mine again")
    workbook.main(["reset", name])
    workbook.main(["reset", name])  # nothing to keep now
    assert contents(workbook) == {
        "00_start_here.ipynb": "course's 00_start_here",
        LESSON: "newer",
        "03_causal_masking.yours-1.ipynb": "mine",
        "03_causal_masking.yours-2.ipynb": "mine again",
    }


def test_reset_of_one_notebook_keeps_the_records_of_the_others(workbook, capsys):
    (workbook.WORKBOOK / LESSON).write_text("mine")
    workbook.reset("00")
    capsys.readouterr()
    workbook.fill()
    assert capsys.readouterr().out == ""


def test_reset_interrupted_at_any_step_loses_nothing(workbook, monkeypatch):
    copy = workbook.WORKBOOK / LESSON
    copy.write_text("mine")
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
        copy.write_text("mine")


@pytest.mark.parametrize("record", [None, "{ torn"])
def test_lost_record_is_told_once_and_loses_nothing(workbook, record, capsys):
    (workbook.WORKBOOK / LESSON).write_text("mine")
    workbook.VERSIONS.unlink()
    if record is not None:
        workbook.VERSIONS.write_text(record)
    workbook.fill()
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{LESSON}: the course's version may be newer")
    workbook.fill()
    assert capsys.readouterr().out == ""
    new_version(workbook)
    workbook.fill()
    assert f"{LESSON}: the course has a newer version" in capsys.readouterr().out
    assert contents(workbook)[LESSON] == "mine"


@pytest.mark.parametrize("name", ["", "9", "0"])
def test_unknown_notebook_lists_what_there_is(workbook, name):
    with pytest.raises(SystemExit, match="00_start_here, 03_causal_masking"):
        workbook.main(["reset", name])


def test_workbook_that_cannot_be_made_is_one_sentence(tmp_path):
    checkout = copy_of_checkout(tmp_path)
    program(checkout / "notebooks/00_start_here.ipynb", "")
    (checkout / "workbook").write_text("a file")
    with pytest.raises(SystemExit, match="workbook"):
        load(checkout, "setup/workbook").main(["fill"])


def test_solutions_keep_their_folder_and_never_stand_in_for_a_lesson(workbook, capsys):
    program(workbook.NOTEBOOKS / "solutions/03_solutions.ipynb", "course's solutions")
    workbook.fill()
    copy = workbook.WORKBOOK / "solutions/03_solutions.ipynb"
    assert copy.read_text() == "course's solutions"
    copy.write_text("mine")
    (workbook.NOTEBOOKS / "solutions/03_solutions.ipynb").write_text("newer")
    workbook.fill()
    assert "make reset NOTEBOOK=solutions/03 brings it" in capsys.readouterr().out
    workbook.main(["reset", "03"])
    assert copy.read_text() == "mine"
    workbook.main(["reset", "solutions/03"])
    assert copy.read_text() == "newer"
    assert (copy.parent / "03_solutions.yours-1.ipynb").read_text() == "mine"


def code(source, *outputs, count=7):
    run = {"execution_count": count, "outputs": list(outputs)}
    return {"cell_type": "code", "id": "a", "metadata": {"tags": ["one"]}, "source": source} | run


def shown(**data):
    return {"output_type": "execute_result", "execution_count": 7, "metadata": {}, "data": data}


def notebook(*cells):
    return json.dumps({"cells": list(cells), "metadata": {"a": 1}, "nbformat": 4, "nbformat_minor": 5})


def notebook_of(tool, picture):
    """Make of a lesson's file a notebook in which a picture is stored, its text in lines as Jupyter writes it."""
    output = shown(**{"image/svg+xml": ["<svg>\n", f"{picture}</svg>"]})
    program(tool.NOTEBOOKS / LESSON, notebook(code(["1"], output)))


def test_a_copy_holds_pictures_of_explorers_and_no_other_output(unsigned):
    picture = shown(**{"image/svg+xml": "<svg/>", "text/plain": "words"})
    printed = {"output_type": "stream", "name": "stdout", "text": "the answer"}
    chart = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "AAAA"}}
    text = {"cell_type": "markdown", "id": "b", "metadata": {}, "source": ["Größe"]}
    program(unsigned.NOTEBOOKS / LESSON, notebook(text, code("1", picture, printed), code("2", chart, shown())))
    unsigned.reset("03")
    copy = json.loads((unsigned.WORKBOOK / LESSON).read_text(encoding="utf-8"))
    first = picture | {"execution_count": None}
    assert copy["cells"] == [text, code("1", first, count=None), code("2", count=None)]
    assert copy["metadata"] == {"a": 1, "language_info": unsigned.LANGUAGE}


@pytest.mark.slow  # ipykernel takes a second to import
def test_a_copy_says_of_its_language_what_a_kernel_says(workbook):
    """If it said anything else, Lab would call the notebook changed as soon as it's opened."""
    from ipykernel.ipkernel import IPythonKernel

    assert IPythonKernel.language_info == workbook.LANGUAGE


def test_a_copy_that_was_only_run_is_not_told_of_and_not_set_aside(unsigned, capsys):
    notebook_of(unsigned, "old")
    unsigned.reset("03")
    (unsigned.WORKBOOK / LESSON).write_text(notebook(code("1", shown(), count=3)))  # the same source in other bytes
    notebook_of(unsigned, "another picture, the same cells")
    capsys.readouterr()
    unsigned.fill()
    assert capsys.readouterr().out == "", "outputs make no newer version"
    program(unsigned.NOTEBOOKS / LESSON, notebook(code(["2"])))
    unsigned.fill()
    assert "the course has a newer version" in capsys.readouterr().out
    unsigned.reset("03")
    assert sorted(contents(unsigned)) == ["00_start_here.ipynb", LESSON]
    assert json.loads(contents(unsigned)[LESSON])["cells"] == [code(["2"], count=None)]


@pytest.mark.parametrize(
    "changed",
    [
        notebook(code("2")),
        notebook(),
        notebook({"cell_type": "markdown", "id": "a", "metadata": {}, "source": "1"}),
        '{"cells": [1]}',  # no notebook any more
    ],
)
def test_a_copy_with_a_changed_cell_is_set_aside(unsigned, changed, capsys):
    notebook_of(unsigned, "old")
    unsigned.reset("03")
    (unsigned.WORKBOOK / LESSON).write_text(changed)
    capsys.readouterr()
    unsigned.fill()
    assert capsys.readouterr().out == ""
    unsigned.reset("03")
    assert contents(unsigned)["03_causal_masking.yours-1.ipynb"] == changed


@pytest.mark.slow  # nbformat takes a second to import, and nothing else in the quick tests needs it
def test_copies_are_trusted_by_jupyter_until_they_are_changed(workbook, tmp_path, monkeypatch, capsys):
    from nbformat import read
    from nbformat.sign import NotebookNotary

    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "not" / "there yet"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    copy = workbook.WORKBOOK / LESSON

    def is_trusted():
        with NotebookNotary() as notary:
            return notary.check_signature(read(copy, as_version=4))  # as Lab's server reads it

    notebook_of(workbook, "by reset")
    workbook.reset("03")
    assert is_trusted()
    copy.unlink()
    notebook_of(workbook, "by fill")
    workbook.fill()
    assert is_trusted()
    copy.write_text(copy.read_text().replace("by fill", "by another"))
    workbook.fill()
    assert not is_trusted(), "what is not the course's own is not the course's to trust"
    assert "cannot sign" not in capsys.readouterr().out


def test_a_copy_that_cannot_be_signed_is_made_all_the_same_and_told(workbook, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "nbformat", None)
    notebook_of(workbook, "by reset")
    workbook.reset("03")
    (workbook.WORKBOOK / LESSON).unlink()
    workbook.fill()
    assert capsys.readouterr().out.count("Jupyter cannot sign (") == 2
    assert "by reset" in contents(workbook)[LESSON]

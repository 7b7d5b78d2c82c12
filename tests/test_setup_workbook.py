"""The learner's copies: never overwritten, never lost, told of newer versions."""

import json
import os
import sys

import pytest
from checkouts import copy_of_checkout, load, program


@pytest.fixture
def checkout(tmp_path):
    return copy_of_checkout(tmp_path)


@pytest.fixture
def workbook(checkout):
    for name in ("00_start_here", "03_causal_masking"):
        program(checkout / f"notebooks/{name}.ipynb", f"course's {name}")
    tool = load(checkout, "setup/workbook")
    tool.fill()
    return tool


def contents(workbook):
    return {path.name: path.read_text() for path in workbook.WORKBOOK.glob("*.ipynb")}


def new_version(workbook):
    (workbook.NOTEBOOKS / "03_causal_masking.ipynb").write_text("newer")


def test_fill_copies_what_is_missing_and_overwrites_nothing(workbook, capsys):
    (workbook.WORKBOOK / "00_start_here.ipynb").write_text("mine")
    (workbook.WORKBOOK / "03_causal_masking.ipynb").unlink()
    new_version(workbook)
    workbook.fill()
    assert contents(workbook) == {"00_start_here.ipynb": "mine", "03_causal_masking.ipynb": "newer"}
    assert capsys.readouterr().out == "", "the learner's edits are not a newer version of the course"


def test_fill_brings_the_newest_of_what_the_notebooks_show_and_link_to(workbook):
    here, there = workbook.NOTEBOOKS, workbook.WORKBOOK
    for text in ("old", "new"):
        program(here / "pictures/you_are_here_03.svg", text)
        program(here / "glossary.md", text)
        workbook.fill()
        copies = there / "pictures/you_are_here_03.svg", there / "glossary.md"
        assert [copy.read_bytes() for copy in copies] == [
            (here / copy.relative_to(there)).read_bytes() for copy in copies
        ]


def test_newer_version_is_told_at_each_call(workbook, capsys):
    (workbook.WORKBOOK / "03_causal_masking.ipynb").write_text("mine")
    new_version(workbook)
    for _ in range(2):
        workbook.fill()
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith("03_causal_masking.ipynb: the course has a newer version; make reset NOTEBOOK=03")
    assert contents(workbook)["03_causal_masking.ipynb"] == "mine"


@pytest.mark.parametrize("name", ["03", "03_causal_masking", "03_causal_masking.ipynb", "03_c"])
def test_reset_brings_the_new_and_keeps_the_old(workbook, name, capsys):
    (workbook.WORKBOOK / "03_causal_masking.ipynb").write_text("mine")
    new_version(workbook)
    workbook.main(["reset", name])
    capsys.readouterr()
    workbook.fill()
    assert capsys.readouterr().out == ""
    (workbook.WORKBOOK / "03_causal_masking.ipynb").write_text("mine again")
    workbook.main(["reset", name])
    workbook.main(["reset", name])  # nothing to keep now
    assert contents(workbook) == {
        "00_start_here.ipynb": "course's 00_start_here",
        "03_causal_masking.ipynb": "newer",
        "03_causal_masking.yours-1.ipynb": "mine",
        "03_causal_masking.yours-2.ipynb": "mine again",
    }


def test_reset_interrupted_at_any_step_loses_nothing(workbook, monkeypatch):
    copy = workbook.WORKBOOK / "03_causal_masking.ipynb"
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
        assert contents(workbook)[copy.name] == "newer"
        copy.write_text("mine")


@pytest.mark.parametrize("record", [None, "{ torn", "[]", "{}", "\x00"])
def test_lost_record_is_told_once_and_loses_nothing(workbook, record, capsys):
    (workbook.WORKBOOK / "03_causal_masking.ipynb").write_text("mine")
    workbook.VERSIONS.unlink()
    if record is not None:
        workbook.VERSIONS.write_text(record)
    workbook.fill()
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("03_causal_masking.ipynb: the course's version may be newer")
    workbook.fill()
    assert capsys.readouterr().out == ""
    new_version(workbook)
    workbook.fill()
    assert "03_causal_masking.ipynb: the course has a newer version" in capsys.readouterr().out
    assert contents(workbook)["03_causal_masking.ipynb"] == "mine"


@pytest.mark.parametrize("name", ["", "9", "3", "0", "../notebooks/00_start_here"])
def test_unknown_notebook_lists_what_there_is(workbook, name):
    before = contents(workbook)
    with pytest.raises(SystemExit, match=r"^NOTEBOOK=.*give one of 00_start_here, 03_causal_masking"):
        workbook.main(["reset", name])
    assert contents(workbook) == before


def test_checkout_without_notebooks_is_one_sentence(checkout):
    with pytest.raises(SystemExit, match="holds no notebook"):
        load(checkout, "setup/workbook").main(["fill"])


def test_workbook_that_cannot_be_made_is_one_sentence(checkout):
    program(checkout / "notebooks/00_start_here.ipynb", "")
    (checkout / "workbook").write_text("a file")
    with pytest.raises(SystemExit, match=r"^Cannot keep the workbook: .*workbook"):
        load(checkout, "setup/workbook").main(["fill"])


def test_solutions_keep_their_folder_and_never_stand_in_for_a_lesson(workbook, capsys):
    program(workbook.NOTEBOOKS / "solutions" / "03_solutions.ipynb", "course's solutions")
    workbook.fill()
    copy = workbook.WORKBOOK / "solutions" / "03_solutions.ipynb"
    assert copy.read_text() == "course's solutions"
    copy.write_text("mine")
    (workbook.NOTEBOOKS / "solutions" / "03_solutions.ipynb").write_text("newer")
    workbook.fill()
    assert "make reset NOTEBOOK=solutions/03 brings it" in capsys.readouterr().out
    assert workbook.choose("03").name == "03_causal_masking.ipynb"
    workbook.main(["reset", "solutions/03"])
    assert copy.read_text() == "newer"
    assert (copy.parent / "03_solutions.yours-1.ipynb").read_text() == "mine"
    assert "Yours is now workbook/solutions/03_solutions.yours-1.ipynb." in capsys.readouterr().out


def notebook_of(tool, picture):
    """Make of a lesson's file a notebook in which a picture is stored, its text in lines as Jupyter writes it."""
    output = {"output_type": "display_data", "metadata": {}, "data": {"image/svg+xml": ["<svg>\n", f"{picture}</svg>"]}}
    cell = {"cell_type": "code", "id": "a", "execution_count": 1, "metadata": {}, "source": ["1"], "outputs": [output]}
    text = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    program(tool.NOTEBOOKS / "03_causal_masking.ipynb", text)


@pytest.mark.slow  # nbformat takes a second to import, and nothing else in the quick tests needs it
def test_copies_are_trusted_by_jupyter_until_they_are_changed(workbook, tmp_path, monkeypatch, capsys):
    from nbformat import read
    from nbformat.sign import NotebookNotary

    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "not" / "there yet"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    copy = workbook.WORKBOOK / "03_causal_masking.ipynb"

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
    assert not is_trusted()
    workbook.fill()
    assert not is_trusted(), "what is not the course's own is not the course's to trust"
    assert "cannot sign" not in capsys.readouterr().out


def test_a_copy_that_cannot_be_signed_is_made_all_the_same_and_told(workbook, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "nbformat", None)
    notebook_of(workbook, "by reset")
    workbook.reset("03")
    (workbook.WORKBOOK / "03_causal_masking.ipynb").unlink()
    workbook.fill()
    assert capsys.readouterr().out.count("Jupyter cannot sign (") == 2
    assert "by reset" in contents(workbook)["03_causal_masking.ipynb"]


@pytest.mark.parametrize("text", ["", "words", "[1", "1", "[]", "null", "{}", "\udc80"])
def test_a_call_that_makes_no_copy_of_a_notebook_does_not_load_nbformat(workbook, text, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "nbformat", None)
    notebook_of(workbook, "there already")
    (workbook.WORKBOOK / "03_causal_masking.ipynb").write_text("mine")
    (workbook.NOTEBOOKS / "05_odd.ipynb").write_bytes(text.encode(errors="surrogateescape"))
    workbook.fill()
    assert "cannot sign" not in capsys.readouterr().out
    assert (workbook.WORKBOOK / "05_odd.ipynb").exists()

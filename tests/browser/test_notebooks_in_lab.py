"""Every notebook in JupyterLab: it shows its stored pictures at once, and runs from top to bottom."""

from urllib.parse import unquote

import course
from visit import prompt

from attention_course import explorers


def test_every_explorer_stands_in_a_notebook():
    """So that the tests of a live explorer leave none out."""
    source = "\n".join(cell.source for path in course.PATHS for cell in course.code_cells(course.read(path)))
    assert [name for name in explorers.__all__ if f"{name}(" not in source] == []


def test_stored_pictures_are_shown_at_first_but_nothing_is_said_or_changed_before_a_cell_is_run(notebook):
    """A stored answer would spoil the prediction, and "unsaved changes" a learner's trust."""
    shown = {unquote(picture.partition(",")[2]) for picture in notebook.first["pictures"]}
    missing = [n for n, picture in enumerate(notebook.stored) if picture not in shown]
    assert missing == [], f"of {len(notebook.stored)} stored pictures; the page shows {len(shown)}"
    assert notebook.first["said"] == []
    assert notebook.first["prompts"] == [prompt(cell, " ") for cell in notebook.cells]
    assert not notebook.first["dirty"]
    assert notebook.last["dirty"], "or it cannot be seen"


def test_it_runs_without_an_error_and_code_and_what_it_prints_fit_on_a_screen(notebook):
    assert notebook.last["errors"] == []
    assert notebook.last["prompts"] == [prompt(cell, n) for n, cell in enumerate(notebook.cells, 1)]
    assert "model not found" not in notebook.last["text"].lower()
    assert notebook.lab.errors == []
    assert notebook.cut_off == [], "on a small screen"

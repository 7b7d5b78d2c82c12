"""The classroom's parts that need neither hub nor nbgrader; `make test-classroom` runs the whole."""

import ast

import nbformat
import pytest
from checkouts import needs_posix_shell

from attention_course.exercises import MODULES

pytestmark = needs_posix_shell


@pytest.fixture(scope="module")
def marks():
    from classroom import marks

    return marks


@pytest.fixture
def set_up():
    from classroom import set_up

    return set_up


@pytest.mark.parametrize("number", MODULES)
def test_each_exercise_of_each_lesson_gets_its_mark_right_after_its_check(marks, number):
    exercises = marks.practice(number).EXERCISES
    notebook = marks.with_marks(nbformat.read(marks.lesson_of(number).path, as_version=4), exercises)
    kinds = [cell.metadata.get("nbgrader", {}) for cell in notebook.cells]
    graded = [place for place, kind in enumerate(kinds) if kind.get("grade")]
    assert [kinds[place]["grade_id"] for place in graded] == [exercise.name for exercise in exercises]
    assert all(kinds[place - 1]["solution"] for place in graded)
    for place in graded:
        [decides] = ast.parse(notebook.cells[place].source).body
        before = ast.parse(notebook.cells[place - 1].source).body
        assert ast.unparse(decides.test) == f"{ast.unparse(before[-1])}.right"
    nbformat.validate(notebook)


def test_marks_of_ones_own_are_taken_away_and_a_missing_check_is_decided_at_the_end(marks):
    exercises = marks.practice("03").EXERCISES
    own = marks.marked(nbformat.v4.new_code_cell("assert True"), exercises[0].name, grade=True, points=99)
    notebook = marks.with_marks(nbformat.v4.new_notebook(cells=[own]), exercises)
    assert "nbgrader" not in notebook.cells[0].metadata
    assert [cell.source for cell in notebook.cells[1:]] == [marks.graded(exercise) for exercise in exercises]


def test_a_folder_that_keeps_learners_out_is_found_and_the_model_is_not_one(set_up, tmp_path):
    model = tmp_path / "closed" / "model"
    model.mkdir(parents=True, mode=0o700)
    (model / "weights").touch(0o600)
    for folder, mode in ((tmp_path, 0o711), (tmp_path / "closed", 0o750)):
        folder.chmod(mode)
    set_up.open_to_readers(model)
    closed = set_up.closed_folders(model / "weights", tmp_path)
    assert tmp_path / "closed" in closed
    assert not {tmp_path, model} & set(closed)
    assert (model / "weights").stat().st_mode & 0o777 == 0o644

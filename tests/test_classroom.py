"""The classroom's parts that need neither hub nor nbgrader; `make test-classroom` runs the whole."""

import ast

import nbformat
import pytest

from attention_course.exercises import MODULES

pytest.importorskip("pwd", reason="marks are made on Linux or macOS")
from classroom import marks


@pytest.mark.parametrize("number", MODULES)
def test_each_exercise_of_each_lesson_gets_its_mark_right_after_its_check(number):
    exercises = marks.practice(number).EXERCISES
    notebook = marks.with_marks(nbformat.read(marks.lesson_of(number).path, as_version=4), exercises)
    kinds = [cell.metadata.get("nbgrader", {}) for cell in notebook.cells]
    graded = [place for place, kind in enumerate(kinds) if kind.get("grade")]
    assert [kinds[place]["grade_id"] for place in graded] == [exercise.name for exercise in exercises]
    for place in graded:
        assert kinds[place - 1]["solution"]
        check = ast.unparse(ast.parse(notebook.cells[place - 1].source).body[-1])
        assert notebook.cells[place].source == f"assert {check}.right"
    nbformat.validate(notebook)


def test_marks_of_ones_own_are_taken_away_and_a_missing_check_is_decided_at_the_end():
    exercises = marks.practice("03").EXERCISES
    own = marks.marked(nbformat.v4.new_code_cell("assert True"), exercises[0].name, grade=True, points=99)
    notebook = marks.with_marks(nbformat.v4.new_notebook(cells=[own]), exercises)
    assert "nbgrader" not in notebook.cells[0].metadata
    assert [cell.source for cell in notebook.cells[1:]] == [marks.graded(exercise) for exercise in exercises]

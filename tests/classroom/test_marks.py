"""A class of three whose answers are known gets, from nbgrader itself, the marks that are known."""

import csv
import inspect
import os
import subprocess
import sys

import nbformat
import pytest

from classroom import marks

LESSON = marks.lesson_of("03").path
PRIVATE = ["JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"]


def answered(answers):
    """Notebook 03 with a learner's answers, by exercise, in place of what it ships; the others are left as they are."""
    notebook = nbformat.read(LESSON, as_version=4)
    cells = {cell.source: cell for cell in notebook.cells}
    for exercise in marks.practice("03").EXERCISES:
        if exercise.name in answers:
            check = exercise.cell.splitlines()[-1]
            cells[exercise.cell].source = f"{answers[exercise.name]}\n\n\n{check}"
    return notebook


def solutions():
    return {each.name: inspect.getsource(each.solution) for each in marks.practice("03").EXERCISES}


def some_right():
    """Two right of five: a known mistake, what is no Python, and one that is as it was shipped."""
    right = solutions()
    return {
        "mask_of_the_future": right["mask_of_the_future"],
        "weights_under_a_mask": right["weights_under_a_mask"].replace("-torch.inf", "0.0"),
        "window_mask": right["window_mask"],
        "find_leaks": "def leaks(layer, x)\n    return True",
    }


def graded_by_hand():
    """Cheating: somebody writes marks of his own into a notebook without answers, and deletes a check."""
    notebook = answered({})
    [untouched] = [cell for cell in notebook.cells if "practice.window_mask.check(" in cell.source]
    untouched.source = "'nothing'"
    extra = nbformat.v4.new_code_cell("assert True")
    notebook.cells.append(marks.marked(extra, "mask_of_the_future", grade=True, locked=True, points=99))
    return notebook


CLASS = {
    "ada": (lambda: answered(solutions()), 5),
    "ben": (lambda: answered(some_right()), 2),
    "cem": (graded_by_hand, 0),
}


@pytest.fixture
def report(tmp_path):
    """By name, the row that nbgrader exports of notebook 03."""
    private = {name: str(tmp_path / name.lower()) for name in PRIVATE}
    folder = tmp_path / "course"
    for name, (notebook, _) in CLASS.items():
        nbformat.write(notebook(), tmp_path / f"{name}.ipynb")
        marks.main(["take", folder, "03", name, tmp_path / f"{name}.ipynb"])
    for job in ("make", "grade"):
        subprocess.run([sys.executable, marks.__file__, job, folder, "03"], check=True, env=os.environ | private)
    with open(folder / "grades.csv", newline="") as file:
        return {row["student_id"]: row for row in csv.DictReader(file)}


def test_a_class_with_known_answers_gets_the_known_marks(report):
    got = {name: (float(row["score"]), float(row["max_score"])) for name, row in report.items()}
    print(f"\nmarks: {got}")
    assert got == {name: (known, 5) for name, (_, known) in CLASS.items()}

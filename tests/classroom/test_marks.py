"""A class of three whose answers are known gets, from nbgrader itself, the marks that are known."""

import csv
import inspect
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest

from classroom import marks, set_up

ROOT, REQUIRED = os.geteuid() == 0, os.environ.get("CLASSROOM") == "required"  # as CI has it
if ROOT and (closed := set_up.closed_to_learners()) and not REQUIRED:
    pytest.skip(
        f"Marks are made under another account than root's, which cannot enter {closed}", allow_module_level=True
    )

LESSON = marks.lesson_of("03").path
PRIVATE = ["HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"]


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


def deadly():
    """One answer is right, another ends its kernel."""
    right = solutions()
    return {"mask_of_the_future": right["mask_of_the_future"], "window_mask": "import os\n\nos._exit(1)"}


CLASS = {
    "ada": (lambda: answered(solutions()), 5),
    "ben": (lambda: answered(some_right()), 2),
    "cem": (graded_by_hand, 0),
    "dan": (lambda: answered(deadly()), 0),
}


@pytest.fixture
def place():
    """A folder of an account that is not root's, short of name, and how to call marks.py under that account."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    own = {"env": os.environ | {name: str(folder / name.lower()) for name in PRIVATE}}
    if ROOT:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        own |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    yield folder, lambda *job: subprocess.run([sys.executable, marks.__file__, *job], **own, stderr=-1, text=True)
    shutil.rmtree(folder)


def test_a_class_with_known_answers_gets_the_known_marks(place):
    """Also where somebody's answer ends its kernel."""
    folder, call = place
    course = folder / "course"
    assert call("make", course, "03").returncode == 0
    for name, (notebook, _) in CLASS.items():
        nbformat.write(notebook(), folder / f"{name}.ipynb")
        assert call("take", course, "03", name, folder / f"{name}.ipynb").returncode == 0
    assert "nbgrader could not do all of it" in call("grade", course, "03").stderr
    with open(course / "grades.csv", newline="") as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    got = {name: (float(row["score"]), float(row["max_score"])) for name, row in rows.items()}
    print(f"\nmarks: {got}")
    assert got == {name: (known, 5) for name, (_, known) in CLASS.items()}
    assert course.stat().st_mode & 0o077 == 0, "others could read answers and marks"


@pytest.mark.skipif(not ROOT, reason="another account than one's own takes root")
def test_marks_are_made_by_the_folders_owner_alone_and_learners_code_never_runs_as_root(place, tmp_path):
    folder, _ = place
    for job in ("make", "grade"):
        done = subprocess.run([sys.executable, marks.__file__, job, folder, "03"], stderr=-1, text=True)
        assert re.search("belongs to the account with the number .*: call this under that account", done.stderr)
    done = subprocess.run([sys.executable, marks.__file__, "grade", tmp_path, "03"], stderr=-1, text=True)
    assert "never as root" in done.stderr

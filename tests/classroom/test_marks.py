"""A class whose answers are known gets, from nbgrader itself, the marks that are known."""

import csv
import inspect
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest
from hub import skip_or_fail

from classroom import marks, set_up

ROOT = os.geteuid() == 0
PRIVATE = ["HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"]
RIGHT = {each.name: inspect.getsource(each.solution) for each in marks.practice("03").EXERCISES}
BEN = {  # one right of three: a known mistake, and what is no Python
    "hide_the_future": RIGHT["hide_the_future"].replace("-torch.inf", "0.0"),
    "window_mask": RIGHT["window_mask"],
    "find_leaks": "def leaks(f, x)\n    return True",
}
DAN = {"window_mask": "import os\n\nos._exit(1)"}  # it ends his kernel
KNOWN = {"ada": (RIGHT, 3), "ben": (BEN, 1), "dan": (DAN, 0)}


def answered(answers):
    """Notebook 03 with a learner's answers, by exercise, in place of what it ships; the others are left as they are."""
    notebook = nbformat.read(marks.lesson_of("03").path, as_version=4)
    for exercise in marks.practice("03").EXERCISES:
        if exercise.name in answers:
            [cell] = [cell for cell in notebook.cells if cell.source.endswith(exercise.cell)]
            imports, check = cell.source.removesuffix(exercise.cell), exercise.cell.splitlines()[-1]
            cell.source = f"{imports}{answers[exercise.name]}\n\n\n{check}"
    return notebook


@pytest.fixture
def place():
    """A folder of an account that is not root's, and how to call marks.py under that account."""
    if ROOT and (closed := set_up.closed_to_learners()):  # root makes no marks, so these tests take another account
        skip_or_fail(f"The account nobody may not enter {', '.join(map(str, closed))}: open it with chmod o+x.")
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
    for name, (answers, _) in KNOWN.items():
        nbformat.write(answered(answers), folder / f"{name}.ipynb")
        assert call("take", course, "03", name, folder / f"{name}.ipynb").returncode == 0
    assert "nbgrader could not do all of it" in call("grade", course, "03").stderr
    with open(course / "grades.csv", newline="") as file:
        got = {row["student_id"]: (float(row["score"]), float(row["max_score"])) for row in csv.DictReader(file)}
    assert got == {name: (known, 3) for name, (_, known) in KNOWN.items()}
    assert course.stat().st_mode & 0o077 == 0, "others could read answers and marks"
    call("feedback", course, "03")
    [page] = course.glob("feedback/ben/03/*.html")
    assert "hide_the_future" in page.read_text(encoding="utf-8")


@pytest.mark.skipif(not ROOT, reason="only root is refused")
def test_what_learners_wrote_never_runs_as_root(tmp_path):
    done = subprocess.run([sys.executable, marks.__file__, "grade", tmp_path, "03"], stderr=-1, text=True)
    assert "never as root" in done.stderr

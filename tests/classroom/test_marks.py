"""A class of three whose answers are known gets, from nbgrader itself, the marks that are known."""

import csv
import inspect
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest

from classroom import marks, set_up

ROOT, REQUIRED = os.geteuid() == 0, os.environ.get("CLASSROOM") == "required"  # as CI has it


def lacking():
    """Why marks cannot be made here, in a sentence, or "" if they can."""
    if find_spec("nbgrader") is None:
        return "Marks need nbgrader, which is not installed here: make test-classroom brings it."
    if ROOT and (closed := set_up.closed_to_learners()):
        return (
            "Root makes no marks, so these tests take another account, and it may not enter "
            f"{', '.join(map(str, closed))}: open it with chmod o+x, or call this under an account of your own."
        )
    return ""


LACKING = lacking()
if LACKING and not REQUIRED:
    pytest.skip(LACKING, allow_module_level=True)

LESSON = marks.lesson_of("03").path
PRIVATE = ["HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"]


def answered(answers):
    """Notebook 03 with a learner's answers, by exercise, in place of what it ships; the others are left as they are."""
    notebook = nbformat.read(LESSON, as_version=4)
    for exercise in marks.practice("03").EXERCISES:
        if exercise.name in answers:
            [cell] = [cell for cell in notebook.cells if cell.source.endswith(exercise.cell)]
            imports, check = cell.source.removesuffix(exercise.cell), exercise.cell.splitlines()[-1]
            cell.source = f"{imports}{answers[exercise.name]}\n\n\n{check}"
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
    """A folder of an account that is not root's, and how to call marks.py under that account."""
    if LACKING:
        pytest.fail(LACKING)
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


LOOKS = """
import psutil
both = [psutil.Process(), psutil.Process().parent()]
places = [place for each in both for place in each.net_connections("inet") if place.status == psutil.CONN_LISTEN]
open({ports!r}, "w").write(str(len(places)))
open({settings!r}, "a").write({line!r})
"""


def test_code_that_is_graded_reaches_neither_the_next_command_nor_another_account(place):
    folder, call = place
    course, trace, ports = folder / "course", folder / "trace", folder / "ports"
    line = f"\nfrom pathlib import Path; Path({str(trace)!r}).touch()\n"
    looks = LOOKS.format(ports=str(ports), settings=str(course / "nbgrader_config.py"), line=line)
    answer = solutions()["mask_of_the_future"] + looks
    nbformat.write(answered({"mask_of_the_future": answer}), folder / "eve.ipynb")
    for job in (("make",), ("take", "eve", folder / "eve.ipynb"), ("grade",)):
        assert call(job[0], course, "03", *job[1:]).returncode == 0
    # By the one that is left, ipykernel takes what a cell's own processes print; nothing can be heard there.
    assert ports.read_text() == "1", "what a kernel sends by a port, every account of the machine may hear"
    (course / "nbgrader_config.py").write_text(line)
    if ROOT:
        for job in ("make", "grade", "feedback"):
            done = subprocess.run([sys.executable, marks.__file__, job, course, "03"], stderr=-1, text=True)
            assert "never as root" in done.stderr
    assert call("feedback", course, "03").returncode == 0
    assert not trace.exists(), "what a learner wrote into the settings was executed"
    [page] = course.glob("feedback/eve/03/*.html")
    assert "mask_of_the_future" in page.read_text(encoding="utf-8")


@pytest.mark.skipif(not ROOT, reason="another account than one's own takes root")
def test_root_neither_makes_marks_nor_collects_for_itself(place, tmp_path):
    new = tmp_path / "new"
    for folder in (place[0], tmp_path, new):
        for job in ("make", "grade", "feedback"):
            done = subprocess.run([sys.executable, marks.__file__, job, folder, "03"], stderr=-1, text=True)
            assert "never as root" in done.stderr
    assert not new.exists()
    done = subprocess.run([sys.executable, marks.__file__, "collect", tmp_path, "03", "nobody"], stderr=-1, text=True)
    assert "belongs to root" in done.stderr


def test_marks_are_made_by_the_folders_owner_alone(place):
    done = place[1]("grade", "/", "03")
    assert "belongs to the account with the number 0: call this under that account" in done.stderr

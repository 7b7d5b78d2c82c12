"""Marks by nbgrader for the course's exercises, which stay as they are: what their checks call right counts a point.

    python classroom/marks.py make FOLDER 03           an assignment of notebook 03, in nbgrader's folder for a course
    python classroom/marks.py collect FOLDER 03 ada    what accounts have in their workbooks, as submissions (as root)
    python classroom/marks.py take FOLDER 03 ada FILE  a notebook that came another way, as a submission
    python classroom/marks.py grade FOLDER 03          run the submissions, and write FOLDER/grades.csv
    python classroom/marks.py feedback FOLDER 03       a page for each learner, FOLDER/feedback/ada/03/...html

A lesson is handed in whole, because an answer may use what came before it. Learners' code runs as the folder's owner,
an account that owns nothing else. Only `collect` starts as root, to read the workbooks, and becomes the owner before it
writes anything.
"""

import os
import pwd
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat

COURSE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(COURSE))  # where tools lies

from attention_course.exercises import MODULES, practice  # noqa: E402 (after the path)
from tools.notebooks.manifest import lesson_of  # noqa: E402

POINTS = 1  # for each exercise


def graded(exercise):
    """The cell that decides on an exercise's point: it fails where the check says anything but "right"."""
    return f"assert {exercise.cell.splitlines()[-1]}.right"


def marked(cell, name, **kind):
    """A cell as nbgrader knows it. kind: whether it is an answer (solution), or decides on a point (grade, points)."""
    kind = {"grade": False, "solution": False, "locked": False, "task": False} | kind
    cell.metadata["nbgrader"] = {"schema_version": 3, "grade_id": name, **kind}
    return cell


def with_marks(notebook, exercises):
    """A notebook, changed in place, in which each exercise's check is followed by the cell that decides on its point.

    An exercise whose check was deleted is decided at the end: its answer may stand anywhere.
    """
    for cell in notebook.cells:
        cell.metadata.pop("nbgrader", None)  # marks that somebody gave to himself
    for exercise in exercises:
        asks = re.compile(rf"\bpractice\.{exercise.name}\.check\(")
        places = [n for n, cell in enumerate(notebook.cells) if cell.cell_type == "code" and asks.search(cell.source)]
        if places:
            marked(notebook.cells[places[-1]], f"{exercise.name}_answer", solution=True)
        cell = nbformat.v4.new_code_cell(graded(exercise))
        marked(cell, exercise.name, grade=True, locked=True, points=POINTS)
        notebook.cells.insert(places[-1] + 1 if places else len(notebook.cells), cell)
    return notebook


def put(text, folder, number):
    """Write a lesson, given as the text of a notebook, with marks into one of nbgrader's folders."""
    notebook = with_marks(nbformat.reads(text, as_version=4), practice(number).EXERCISES)
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, folder / lesson_of(number).path.name)


def make(folder, number):
    """Write an assignment for a lesson, and enter it in nbgrader's gradebook."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)  # nbgrader lets everybody read what it writes
    put(lesson_of(number).path.read_text(encoding="utf-8"), folder / "source" / number, number)
    if nbgrader(folder, "generate_assignment", number, "--force"):
        sys.exit("nbgrader could not make the assignment, for the reason printed above.")


def grade(folder, number):
    """Have nbgrader run what was handed in, and write all marks into grades.csv, also where some cannot be run."""
    if [nbgrader(folder, *job) for job in (("autograde", number, "--force"), ("export",))] != [0, 0]:
        sys.exit("nbgrader could not do all of it, for the reason printed above. What it could is in grades.csv.")


def feedback(folder, number):
    """Have nbgrader write a page for each learner whose notebook was graded, with every exercise and its mark."""
    if nbgrader(folder, "generate_feedback", number, "--force"):
        sys.exit("nbgrader could not write every page, for the reason printed above.")


def nbgrader(folder, *command):
    """Call nbgrader in its folder, with this checkout's settings and the programs of its own environment.

    The settings are copied again each time, because they're executed and graded code may have changed them.
    """
    shutil.copy(COURSE / "classroom" / "nbgrader_config.py", folder / "nbgrader_config.py")
    own = os.environ | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}
    return subprocess.call([sys.executable, "-m", "nbgrader", *command], cwd=folder, env=own)


def take(folder, number, name, text):
    """Enter a notebook as what somebody handed in, in place of an earlier one; say so if it is none."""
    try:
        put(text, folder / "submitted" / name / number, number)
    except Exception as error:  # whatever nbformat meets in a damaged file: the others are taken all the same
        print(f"{name} has no notebook {number} that can be read: {error}")


def collect(folder, number, *names):
    """Take what each account has of a lesson in its workbook, as `classroom/learner.py` makes it.

    It is read as its account, so that a link leads nowhere where the account cannot go, and written as the folder's
    owner, who this process then is for good.
    """
    file, texts = Path("workbook", lesson_of(number).path.name), {}
    for name in names:
        account = pwd.getpwnam(name)
        own = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        read = {"stdout": subprocess.PIPE, "encoding": "utf-8", "errors": "replace"}
        texts[name] = subprocess.run(["cat", Path(account.pw_dir) / file], **read, **own).stdout
    owner = folder.stat()
    os.setgroups([])
    os.setgid(owner.st_gid)
    os.setuid(owner.st_uid)
    for name, text in texts.items():
        take(folder, number, name, text)


JOBS = {"make": make, "grade": grade, "feedback": feedback}


def main(arguments):
    match arguments:
        case [_, _, number, *_] if number not in MODULES:
            sys.exit(f"{number} is no lesson with exercises: give one of {', '.join(MODULES)}.")
        case [job, _, _] if job in JOBS and os.geteuid() == 0:
            how = f"never as root, as in: sudo -u marks --set-home {sys.executable} {' '.join(sys.argv)}"
            sys.exit(f"Code that learners wrote runs here: call this under an account of its own, {how}")
        case [job, folder, number] if job in JOBS:
            JOBS[job](Path(folder), number)
        case ["collect", folder, number, *names] if names:
            collect(Path(folder), number, *names)
        case ["take", folder, number, name, file]:
            take(Path(folder), number, name, Path(file).read_text(encoding="utf-8"))
        case _:
            sys.exit("usage:\n" + "\n".join(line for line in __doc__.splitlines() if "marks.py" in line))


if __name__ == "__main__":
    os.umask(0o077)
    try:
        main(sys.argv[1:])
    except (KeyError, OSError) as error:  # an account or a folder that isn't there
        sys.exit(f"Cannot do that: {error}.")

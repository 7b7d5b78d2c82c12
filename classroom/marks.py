"""Marks by nbgrader for the course's exercises, which stay as they are: what their checks call right counts a point.

    python classroom/marks.py make FOLDER 03           an assignment of notebook 03, in nbgrader's folder for a course
    python classroom/marks.py collect FOLDER 03 ada    what accounts have in their workbooks, as submissions (as root)
    python classroom/marks.py take FOLDER 03 ada FILE  a notebook that came another way, as a submission
    python classroom/marks.py grade FOLDER 03          run the submissions (never as root), and write FOLDER/grades.csv

A lesson is handed in whole, as an answer may use what stood above it. Learners' code runs as the folder's owner and may
leave anything in it, so nobody else works in there: neither root nor the teacher.
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

from attention_helpers.exercises import NUMBERS  # noqa: E402 (after the path)
from tools.notebooks.place_exercises import lesson_of, practice  # noqa: E402

POINTS = 1  # for each exercise
MOST = 50_000_000  # bytes of a notebook that is collected


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
        cell = marked(
            nbformat.v4.new_code_cell(graded(exercise)), exercise.name, grade=True, locked=True, points=POINTS
        )
        notebook.cells.insert(places[-1] + 1 if places else len(notebook.cells), cell)
    return notebook


def read(text, number):
    """A lesson, given as the text of a notebook, with marks."""
    return with_marks(nbformat.reads(text, as_version=4), practice(number).EXERCISES)


def put(notebook, folder, number):
    """Write a lesson into one of nbgrader's folders."""
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, folder / lesson_of(number).path.name)


def make(folder, number):
    """Write nbgrader's settings and an assignment for a lesson, and enter it in nbgrader's gradebook."""
    folder.mkdir(parents=True, exist_ok=True)
    check_owner(folder)
    folder.chmod(0o700)  # nbgrader lets everybody read what it writes
    shutil.copy(COURSE / "classroom" / "nbgrader_config.py", folder)
    put(read(lesson_of(number).path.read_text(encoding="utf-8"), number), folder / "source" / number, number)
    if nbgrader(folder, "generate_assignment", number, "--force"):
        sys.exit("nbgrader could not make the assignment, for the reason printed above.")


def grade(folder, number):
    """Have nbgrader run what was handed in, and write all marks into grades.csv, also where some cannot be run."""
    check_owner(folder)
    if os.geteuid() == 0:
        sys.exit("This runs what learners wrote: call it under an account of its own, never as root.")
    if [nbgrader(folder, *job) for job in (("autograde", number, "--force"), ("export",))] != [0, 0]:
        sys.exit("nbgrader could not do all of it, for the reason printed above. What it could stands in grades.csv.")


def check_owner(folder):
    """End here unless the folder is the caller's own."""
    if (owner := folder.stat().st_uid) != os.geteuid():
        sys.exit(f"{folder} belongs to the account with the number {owner}: call this under that account.")


def nbgrader(folder, *command):
    """Call nbgrader in its folder, with the programs of its own environment, of which it calls one by name."""
    own = os.environ | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}
    return subprocess.call([sys.executable, "-m", "nbgrader", *command], cwd=folder, env=own)


def take(folder, number, name, text):
    """Enter a notebook as what somebody handed in, in place of an earlier one; say so if it is none."""
    try:
        notebook = read(text, number)
    except Exception as error:  # whatever else nbformat meets in a file that anybody could write
        print(f"{name} has no notebook {number} that can be read: {error or type(error).__name__}")
    else:
        put(notebook, folder / "submitted" / name / number, number)


def collect(folder, number, *names):
    """Take what each account has of a lesson in its workbook, as `classroom/learner.py` makes it.

    It is read as root and written as the folder's owner, who this process then is for good.
    """
    accounts = {}
    for name in names:
        try:
            accounts[name] = pwd.getpwnam(name)
        except KeyError:
            sys.exit(f"{name} is no account of this machine.")
    file, own = Path("workbook", lesson_of(number).path.name), folder.stat()
    texts = {name: read_as(account, account.pw_dir / file) for name, account in accounts.items()}
    os.setgroups([])
    os.setgid(own.st_gid)
    os.setuid(own.st_uid)
    for name, text in texts.items():
        take(folder, number, name, text)


def read_as(account, path):
    """A file's text as this account may read it, so that a link leads root nowhere where its owner cannot go.

    "" for what has no end or never begins, as a link to a device and a pipe.
    """
    own = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": [], "start_new_session": True}
    command, wires = (
        ["head", f"--bytes={MOST}", "--", str(path)],
        {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE},
    )
    try:
        return subprocess.run(command, timeout=60, **wires, **own).stdout.decode(errors="replace")
    except subprocess.TimeoutExpired:
        return ""


def main(arguments):
    match arguments:
        case [_, _, number, *_] if number not in NUMBERS:
            sys.exit(f"{number} is no lesson with exercises: give one of {', '.join(NUMBERS)}.")
        case ["make", folder, number]:
            make(Path(folder), number)
        case ["grade", folder, number]:
            grade(Path(folder), number)
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
    except OSError as error:
        sys.exit(f"Cannot do that: {error}.")

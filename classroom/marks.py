"""Marks by nbgrader for the course's exercises, which stay as they are: what their checks call right counts a point.

    python classroom/marks.py make FOLDER 03           an assignment of notebook 03, in nbgrader's folder for a course
    python classroom/marks.py collect FOLDER 03 ada    what accounts have in their workbooks, as submissions (as root)
    python classroom/marks.py take FOLDER 03 ada FILE  a notebook that came another way, as a submission
    python classroom/marks.py grade FOLDER 03          run the submissions, and write FOLDER/grades.csv
    python classroom/marks.py feedback FOLDER 03       a page for each learner, FOLDER/feedback/ada/03/...html

A lesson is handed in whole, because an answer may use what came before it. Learners' code runs as the folder's owner
and can leave anything there, settings that nbgrader would execute among them. So every step runs as that owner, and
none as root; only `collect` starts as root, to read the workbooks, and becomes the owner before it writes anything.
"""

import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat

COURSE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(COURSE))  # where tools lies

from attention_helpers.exercises import NUMBERS  # noqa: E402 (after the path)
from tools.notebooks import own_sockets  # noqa: E402
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
    """Write an assignment for a lesson, and enter it in nbgrader's gradebook."""
    if os.geteuid():  # root is refused below, and should leave no folder behind
        folder.mkdir(parents=True, exist_ok=True)
    check_owner(folder)
    folder.chmod(0o700)  # nbgrader lets everybody read what it writes
    put(read(lesson_of(number).path.read_text(encoding="utf-8"), number), folder / "source" / number, number)
    if nbgrader(folder, "generate_assignment", number, "--force"):
        sys.exit("nbgrader could not make the assignment, for the reason printed above.")


def grade(folder, number):
    """Have nbgrader run what was handed in, and write all marks into grades.csv, also where some cannot be run."""
    check_owner(folder)
    if [nbgrader(folder, *job) for job in (("autograde", number, "--force"), ("export",))] != [0, 0]:
        sys.exit("nbgrader could not do all of it, for the reason printed above. What it could is in grades.csv.")


def feedback(folder, number):
    """Have nbgrader write a page for each learner whose notebook was graded, with every exercise and its mark."""
    check_owner(folder)
    if nbgrader(folder, "generate_feedback", number, "--force"):
        sys.exit("nbgrader could not write every page, for the reason printed above.")


def check_owner(folder):
    """End here for root, to whom learners' code could hand its own, and unless the folder is the caller's own."""
    if os.geteuid() == 0:
        sys.exit(
            f"Code that learners wrote runs in {folder}, and can change what is in there: call this under an account "
            f"of its own, never as root, as in: sudo -u marks --set-home {sys.executable} {' '.join(sys.argv)}"
        )
    if (owner := folder.stat().st_uid) != os.geteuid():
        sys.exit(f"{folder} belongs to the account with the number {owner}: call this under that account.")


def nbgrader(folder, *command):
    """Call nbgrader in its folder, with this checkout's settings and the programs of its own environment.

    The settings are copied again each time, because they're executed and graded code may have changed them. Kernels
    get sockets in a folder that only this account enters, because other accounts could listen at a port. The folder has
    a short name (a socket's has at most 107 characters), and an absolute one: nbgrader and its kernels run in different
    folders, and by a relative name, jupyter_client's default, they'd never find each other.
    """
    settings = folder / "nbgrader_config.py"
    settings.unlink(missing_ok=True)  # a link would lead elsewhere
    shutil.copy(COURSE / "classroom" / "nbgrader_config.py", settings)
    own = os.environ | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}
    with tempfile.TemporaryDirectory(dir="/tmp") as sockets:
        kernels = ["--KernelManager.transport=ipc", f"--KernelManager.ip={sockets}/kernel"]
        return subprocess.call([sys.executable, "-m", "nbgrader", *command, *kernels], cwd=folder, env=own)


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
    if own.st_uid == 0:
        sys.exit(f"{folder} belongs to root, who never grades: give it to an account of its own, as README.md says.")
    texts = {name: read_as(account, account.pw_dir / file) for name, account in accounts.items()}
    own_sockets.FOLDER.cleanup()  # it was made as root by the import, and nothing here starts a kernel
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
        case ["feedback", folder, number]:
            feedback(Path(folder), number)
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

"""Keep which exercises were once right, so that the next kernel knows: progress.txt in the learner's workbook.

A line for each: the exercise's name, and the day. Delete a line, and its exercise counts as open again. Lines are only
ever appended, so two notebooks that are open at once don't lose each other's.

The file is next to the notebook (a kernel starts in its notebook's folder), and only if that folder is a workbook: in
one, `make lab` keeps a file .versions.json. So the course's own notebooks, the solutions and the tests write nothing.
"""

from datetime import date
from pathlib import Path

FILE, MARK = "progress.txt", ".versions.json"


def file():
    """Where progress is kept, or None outside a workbook."""
    folder = Path.cwd()
    return folder / FILE if (folder / MARK).exists() else None


def done():
    """The names of the exercises that were right once: the first word of each line."""
    path = file()
    text = path.read_text(encoding="utf-8") if path and path.exists() else ""
    return {line.split()[0] for line in text.splitlines() if line.strip()}


def note(name):
    """Add an exercise that is right; return what to say if that fails, in one sentence, or ""."""
    path = file()
    if path is None or name in done():
        return ""
    try:
        with path.open("a", encoding="utf-8") as lines:
            lines.write(f"\n{name} {date.today()}")  # the newline first: an edit may have dropped the last one
    except OSError as error:  # a full disk, for example
        return f"(Not noted in {FILE}, so a new kernel will not know: {error}.)"
    return ""

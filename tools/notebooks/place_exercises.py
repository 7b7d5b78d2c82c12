"""Write the exercises of attention_helpers.exercises into the notebooks, and make the notebooks of solutions.

    python -m tools.notebooks.place_exercises [NN ...]      (none means all lessons that have exercises)

A lesson's exercises come before its summary; their cells' ids begin with "exercise". Nothing else in a lesson
changes, and no outputs are made: run `make refresh` afterwards. A test holds notebooks and exercises together.
"""

import importlib
import sys

import nbformat

from attention_helpers.exercises import NUMBERS

from . import draw_map
from .manifest import LESSONS, NOTEBOOKS
from .refresh_notebooks import METADATA

INTRODUCTION = """## Exercises

Write your answer over the three dots, or mend what stands there, and run the cell: the check below it answers.
Hints are folded under its answer, a gentle one first, the next inside it. Stuck for good? The
[solutions](solutions/{number}_solutions.ipynb) say why they are right."""
SOLUTIONS = """# Solutions to notebook {number}

![{alternative}](../{picture})

Each solution, why it is right, and what the check says to the usual wrong ways. Try first:
[{title}](../{file}#Exercises) has the exercises and their hints. Then run the first cell, and those of the
exercise that you want to see."""


def practice(number):
    return importlib.import_module(f"attention_helpers.exercises.lesson_{number}")


def import_line(number):
    return f"from attention_helpers.exercises import lesson_{number} as practice"


def lesson_cells(number):
    """The cells of a lesson's exercises as pairs (kind, source), in their order."""
    exercises = practice(number).EXERCISES
    yield "markdown", INTRODUCTION.format(number=number)
    yield "code", "\n".join([*getattr(practice(number), "IMPORTS", "").splitlines(), import_line(number)])
    for place, exercise in enumerate(exercises, 1):
        yield "markdown", f"### Exercise {place}: {exercise.title}\n\n{exercise.prompt}"
        yield "code", exercise.cell
    yield "markdown", "How many are done ([Start here](00_start_here.ipynb#How-far-you-are) shows the whole course):"
    yield "code", "practice.progress()"


def lesson_of(number):
    """The lesson as the manifest has it."""
    return next(lesson for lesson in LESSONS if lesson.number == number)


def solution_cells(number):
    """The cells of a notebook of solutions."""
    lesson = lesson_of(number)
    yield (
        "markdown",
        SOLUTIONS.format(
            number=number,
            title=lesson.name,
            file=lesson.file,
            alternative=draw_map.alternative(lesson.here),
            picture=lesson.picture,
        ),
    )
    yield "code", f"from attention_helpers import show_source\n{import_line(number)}"
    for place, exercise in enumerate(practice(number).EXERCISES, 1):
        yield "markdown", f"## {place}. {exercise.title}\n\n{exercise.prompt}"
        yield "code", f"show_source(practice.{exercise.name}.solution)"
        yield "markdown", f"**Why it is right.** {exercise.why}"
        yield "code", f"practice.{exercise.name}.check(practice.{exercise.name}.solution)"
        yield "code", f"practice.{exercise.name}.wrong_ways()"


def cells_of(pairs, prefix):
    make = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    return [make[kind](source, id=f"{prefix}-{place}") for place, (kind, source) in enumerate(pairs)]


def place(number):
    """Bring one lesson and its solutions up to date."""
    path = lesson_of(number).path
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if not cell.id.startswith("exercise")]
    end, *_ = [n for n, cell in enumerate(cells) if cell.source.startswith("## Summary")]
    notebook.cells = cells[:end] + cells_of(lesson_cells(number), "exercise") + cells[end:]
    nbformat.write(notebook, path)
    solutions = NOTEBOOKS / "solutions" / f"{number}_solutions.ipynb"
    solutions.parent.mkdir(exist_ok=True)
    cells = cells_of(solution_cells(number), "solution")
    nbformat.write(nbformat.v4.new_notebook(metadata=METADATA, cells=cells), solutions)


if __name__ == "__main__":
    for number in sys.argv[1:] or NUMBERS:
        place(number)

"""Write the exercises of attention_helpers.exercises into the notebooks, and make the notebooks of solutions.

    python -m tools.notebooks.place_exercises [NN ...]      (none means all lessons that have exercises)

A lesson's exercises come before "Going deeper", or its summary; their cells' ids begin with "exercise". Nothing else in
a lesson changes, and no outputs are made: run `make refresh` afterwards. A test holds notebooks and exercises together.
"""

import importlib
import sys

import nbformat

from attention_helpers.exercises import NUMBERS

from . import draw_map
from .manifest import LESSONS, NOTEBOOKS
from .refresh_notebooks import METADATA

INTRODUCTION = """## Exercises

Fill in the dots, or fix the code, then run the cell. Stuck? The [solutions](solutions/{number}_solutions.ipynb) explain
every answer."""
SOLUTIONS = """# Solutions to notebook {number}

![{alternative}](../{picture})

Here is each solution, why it's right, and what the check says to the usual mistakes. Try them yourself first: the
exercises and their hints are in [{title}](../{file}#Exercises). Then run the first cell, followed by the cells of the
exercise that you want to see."""


def practice(number):
    return importlib.import_module(f"attention_helpers.exercises.lesson_{number}")


def import_line(number):
    return f"from attention_helpers.exercises import lesson_{number} as practice"


def code_of(exercise, number):
    """An exercise's cell, with all imports that an answer needs: learners jump straight to it."""
    lines = ["import torch", *exercise.imports.splitlines(), import_line(number)]
    others = [line for line in lines if "attention_helpers" not in line]
    ours = [line for line in lines if "attention_helpers" in line]
    space = ["", ""] if exercise.cell.startswith(("def ", "class ")) else [""]
    return "\n".join([*others, "", *ours, *space, exercise.cell])


def exercise_cells(number, deeper):
    """The cells of a lesson's exercises, without or with "Going deeper" in mind, as pairs (kind, source)."""
    for place, exercise in enumerate(practice(number).EXERCISES, 1):
        if exercise.deeper == deeper:
            yield "markdown", f"### Exercise {place}: {exercise.title}\n\n{exercise.prompt}"
            yield "code", code_of(exercise, number)


def lesson_cells(number):
    """Pairs (kind, source): the cells between a lesson's core and "Going deeper", and those at its end."""
    solved = "How many you've solved ([Start here](00_start_here.ipynb#Your-progress) shows the whole course):"
    first = ("markdown", INTRODUCTION.format(number=number)), *exercise_cells(number, deeper=False)
    return [*first, ("markdown", solved), ("code", "practice.progress()")], [*exercise_cells(number, deeper=True)]


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
        yield "markdown", f"**Why it's right.** {exercise.why}"
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
    places = [n for n, cell in enumerate(cells) if cell.source.startswith(("## Going deeper", "## Summary"))]
    core, rest, summary = cells[: places[0]], cells[places[0] : places[-1]], cells[places[-1] :]
    practised, deeper = lesson_cells(number)
    core += cells_of(practised, "exercise")
    rest += cells_of(deeper, "exercise-deeper")
    notebook.cells = core + rest + summary
    nbformat.write(notebook, path)
    solutions = NOTEBOOKS / "solutions" / f"{number}_solutions.ipynb"
    solutions.parent.mkdir(exist_ok=True)
    cells = cells_of(solution_cells(number), "solution")
    nbformat.write(nbformat.v4.new_notebook(metadata=METADATA, cells=cells), solutions)


if __name__ == "__main__":
    for number in sys.argv[1:] or NUMBERS:
        place(number)

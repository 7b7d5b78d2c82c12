"""Write the exercises of attention_course.exercises into the notebooks, and make the notebooks of solutions.

    python -m tools.notebooks.place_exercises [NN ...]      (none means all lessons that have exercises)

An exercise is a *Your turn* where the lesson has a Markdown cell whose id is "turn-" and its name: what that cell says
is written here, and so are the two after it, the exercise's cell and the folded answer. A lesson's other exercises come
before "Going deeper", or its last cell; their cells' ids begin with "exercise". Nothing else in a lesson changes, and
no outputs are made: run `make refresh` afterwards. A test holds notebooks and exercises together.
"""

import inspect
import re
import sys
import textwrap

import nbformat

from attention_course.exercises import MODULES, practice

from .manifest import NOTEBOOKS, lesson_of
from .refresh_notebooks import METADATA

SOLVED = "[solutions](solutions/{number}_solutions.ipynb) explain"
INTRODUCTION = f"## Exercises\n\nWrite your answer, then run the cell. Stuck? The {SOLVED}\nevery answer."
NO_MORE = f"## Exercises\n\nThis notebook's exercises are where their ideas come up. The\n{SOLVED} every answer."
SOLUTIONS = """# Solutions to notebook {number}

{picture}

Here is each solution, why it's right, and what the check says to the usual mistakes. Try them yourself first: the
exercises and their hints are in [{title}](../{file}#Exercises). Then run the first cell, followed by the cells of the
exercise that you want to see."""

ANSWER = """<details><summary>An answer that works</summary>

```python
{code}
```

{why}

</details>"""
TURN = "turn-"  # how the id of a cell begins that belongs to a Your turn
MADE = ("-code", "-answer")  # how the ids of those end that follow the first


def import_line(number):
    return f"from attention_course.exercises import {MODULES[number]} as practice"


def code_of(exercise, number):
    """An exercise's cell, with all imports that an answer needs: learners jump straight to it."""
    lines = ["import torch", *exercise.imports.splitlines(), import_line(number)]
    ours = sorted(line for line in lines if "attention_" in line)
    others = [line for line in lines if line not in ours]
    space = ["", ""] if exercise.cell.startswith(("def ", "class ")) else [""]
    return "\n".join([*others, "", *ours, *space, exercise.cell])


def turns_in(cells):
    """The names of the exercises that are a lesson's Your turn, in order."""
    return [cell.id.removeprefix(TURN) for cell in cells if cell.id.startswith(TURN) and not cell.id.endswith(MADE)]


def turn_cells(number, name):
    """The cells of a Your turn, as triples (end of the id, kind, source). What it needs is imported at the top."""
    [(place, exercise)] = [(n, each) for n, each in enumerate(practice(number).EXERCISES, 1) if each.name == name]
    code = textwrap.dedent(inspect.getsource(exercise.solution)).strip()
    yield "", "markdown", f"### Your turn {place}: {exercise.title}\n\n{exercise.prompt}"
    yield MADE[0], "code", exercise.cell
    yield MADE[1], "markdown", ANSWER.format(code=code, why=exercise.why)


def lesson_cells(number, turns):
    """The cells between a lesson's core and "Going deeper", as pairs (kind, source): its other exercises."""
    others = [(place, each) for place, each in enumerate(practice(number).EXERCISES, 1) if each.name not in turns]
    yield "markdown", (INTRODUCTION if others else NO_MORE).format(number=number)
    for place, exercise in others:
        yield "markdown", f"### Exercise {place}: {exercise.title}\n\n{exercise.prompt}"
        yield "code", code_of(exercise, number)
    yield "markdown", "How many you've solved ([Help](help.ipynb#Your-progress) shows the whole course):"
    yield "code", "practice.progress()"


def solution_cells(number):
    """The cells of a notebook of solutions, which begins with the lesson's picture."""
    lesson = lesson_of(number)
    picture = re.search(r"!\[.*\)", nbformat.read(lesson.path, as_version=4).cells[0].source)[0].replace("](", "](../")
    yield "markdown", SOLUTIONS.format(number=number, title=lesson.name, file=lesson.file, picture=picture)
    yield "code", f"{import_line(number)}\nfrom attention_helpers import show_source"
    for place, exercise in enumerate(practice(number).EXERCISES, 1):
        yield "markdown", f"## {place}. {exercise.title}\n\n{exercise.prompt}"
        yield "code", f"show_source(practice.{exercise.name}.solution)"
        yield "markdown", f"**Why it's right.** {exercise.why}"
        yield "code", f"practice.{exercise.name}.check(practice.{exercise.name}.solution)"
        yield "code", f"practice.{exercise.name}.wrong_ways()"


def new_cell(kind, source, name):
    return getattr(nbformat.v4, f"new_{kind}_cell")(source, id=name)


def cells_of(pairs, prefix):
    return [new_cell(*pair, f"{prefix}-{place}") for place, pair in enumerate(pairs)]


def with_turns(cells, number):
    """A lesson's own cells, with those of each Your turn in its place."""
    for cell in cells:
        if not cell.id.startswith(TURN):
            yield cell
        elif not cell.id.endswith(MADE):
            for end, kind, source in turn_cells(number, cell.id.removeprefix(TURN)):
                yield new_cell(kind, source, cell.id + end)


def write(path, cells):
    """Write a notebook with these cells; those that read as before keep their outputs, for `make refresh`."""
    new = nbformat.v4.new_notebook(metadata=METADATA)
    notebook = nbformat.read(path, as_version=4) if path.exists() else new
    former = {(cell.id, cell.source): cell for cell in notebook.cells}
    notebook.cells = [former.get((cell.id, cell.source), cell) for cell in cells]
    nbformat.write(notebook, path)


def place(number):
    """Bring one lesson and its solutions up to date."""
    path = lesson_of(number).path
    own = [cell for cell in nbformat.read(path, as_version=4).cells if not cell.id.startswith("exercise")]
    cells = [*with_turns(own, number)]
    split = next((n for n, cell in enumerate(cells) if cell.source.startswith("## Going deeper")), len(cells) - 1)
    practised = cells_of(lesson_cells(number, turns_in(cells)), "exercise")
    write(path, cells[:split] + practised + cells[split:])
    write(NOTEBOOKS / "solutions" / f"{number}_solutions.ipynb", cells_of(solution_cells(number), "solution"))


if __name__ == "__main__":
    for number in sys.argv[1:] or MODULES:
        place(number)

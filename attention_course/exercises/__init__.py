"""Exercises that answer back, one module per lesson.

A notebook imports one: `from attention_course.exercises import lesson_01 as practice`.

Each exercise lists the mistakes that learners make, with the reply to each: most are edits of its solution, the others
functions or classes.
"""

import importlib
import pkgutil

from .reply import Reply

# The numbers of the lessons that have exercises: "01", "02", ...
NUMBERS = sorted(module.name[-2:] for module in pkgutil.iter_modules(__path__) if module.name[:-2] == "lesson_")


def practice(number):
    """The module with a lesson's exercises; number: one of NUMBERS."""
    return importlib.import_module(f"{__name__}.lesson_{number}")


def progress():
    """How many exercises the learner has solved in the whole course, as a table with a row for each lesson.

    What counts is what record.py keeps in the workbook, and what was right in this kernel. Errors: none.
    """
    lessons = {number: practice(number).progress for number in NUMBERS}
    done, total = (sum(getattr(lesson, count) for lesson in lessons.values()) for count in ("done", "total"))
    rows = [f"| {number} | {lesson.done} of {lesson.total} |" for number, lesson in lessons.items()]
    said = f"**{done} of {total} exercises done.**" if done else f"**None of the {total} exercises is done yet.**"
    return Reply(None, "\n".join([said, "", "| notebook | done |", "| --- | --- |", *rows]))

"""Exercises that answer back, a module or folder a lesson.

A notebook imports one: `from attention_helpers.exercises import lesson_01 as practice`.

The wrong answers stand above their exercise, or in a file wrong_*.py beside it: a plain function, class or text for
each mistake, which a teacher can read by itself. One of a single line is a lambda.
"""

import pkgutil

# The numbers of the lessons that have exercises: "01", "02", ...
NUMBERS = sorted(module.name[-2:] for module in pkgutil.iter_modules(__path__) if module.name[:-2] == "lesson_")

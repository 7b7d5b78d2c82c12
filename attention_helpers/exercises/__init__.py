"""Exercises that answer back, a module or folder a lesson.

A notebook imports one: `from attention_helpers.exercises import lesson_01 as practice`.
"""

import pkgutil

# The numbers of the lessons that have exercises: "01", "02", ...
NUMBERS = sorted(module.name[-2:] for module in pkgutil.iter_modules(__path__) if module.name[:-2] == "lesson_")

"""Change each exercise's solution in every small way that `changes` knows; see that its check notices.

    python -m tools.mutants.exercise_mutants         all lessons
    python -m tools.mutants.exercise_mutants 03 05   these

Prints the changes that a check calls right. No input can tell some of them from the solution, because they compute the
same. If another one is in the list, the exercise needs a case that catches it.
"""

import itertools
import sys
from contextlib import contextmanager

from attention_course.exercises import MODULES, practice

from .changes import changed


def survivors(exercise, every=1):
    """How many small changes an exercise's solution has, and those that its check calls right, in words.

    every: 3 tries a third of them.
    """
    made, right, lived = [*changed(exercise.solution)][::every], exercise.outcomes(exercise.solution), []
    for change, other in made:
        with limited():
            given = exercise.outcomes(other)
        lived += [] if exercise.first_difference(given, right) else [change]
    return len(made), lived


@contextmanager
def limited(lines=10_000):
    """Stop what a text of Python does after so many lines: a loop over a list that grows would never end."""
    count, kept = itertools.count(), sys.gettrace()

    def trace(frame, *_):
        if frame.f_code.co_filename != "<string>":
            return None
        if next(count) > lines:
            raise TimeoutError(f"more than {lines} lines ran")
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(kept)


def main(numbers):
    for number in numbers or MODULES:
        for exercise in practice(number).EXERCISES:
            total, lived = survivors(exercise)
            caught = f"{number} {exercise.name:28} {total - len(lived)} of {total} caught"
            print(caught, *lived, sep="\n     ", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

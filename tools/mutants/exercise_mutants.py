"""Change each exercise's solution in every small way that `exercises.slips` knows; see that its check notices.

    python -m tools.mutants.exercise_mutants         all lessons
    python -m tools.mutants.exercise_mutants 03 05   these

Prints the changes that a check calls right. No input can tell some of them from the solution, because they compute the
same. If another one is in the list, the exercise needs a case that catches it.
"""

import sys

from attention_helpers.exercises import NUMBERS, practice, slips


def survivors(exercise):
    """How many small changes an exercise's solution has, and those that its check calls right, in words."""
    made = list(slips.changed(exercise.solution))
    return len(made), [f"{line} {slip}" for line, slip, other in made if exercise.does_right(other)]


def main(numbers):
    for number in numbers or NUMBERS:
        for exercise in practice(number).EXERCISES:
            total, lived = survivors(exercise)
            caught = f"{number} {exercise.name:28} {total - len(lived)} of {total} caught"
            print(caught, *lived, sep="\n     ", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

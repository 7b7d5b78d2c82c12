"""What a check says, and how far a learner is, as a notebook shows them."""

from typing import NamedTuple


class Reply(NamedTuple):
    """What a check says. `right` is True, False, or None for an exercise that was not attempted yet.

    hints: from gentle to plain. The text includes the first `shown` of them, and the others are folded under it.
    """

    right: bool | None
    text: str
    hints: tuple[str, ...] = ()
    shown: int = 0

    def __repr__(self):
        return self.text

    def _repr_markdown_(self):
        """A click opens the next hint, in which the one after is folded."""
        folds = ""
        for number in range(len(self.hints), self.shown, -1):
            summary = f"<summary>Hint {number} of {len(self.hints)}</summary>"
            folds = f"\n\n<details>{summary}\n\n{self.hints[number - 1]}{folds}\n\n</details>"
        return self.text + folds


class Progress:
    """progress(): the line that says how many of a lesson's exercises are done."""

    def __init__(self, exercises):
        self.exercises = exercises

    total = property(lambda self: len(self.exercises))
    done = property(lambda self: sum(exercise.done for exercise in self.exercises))
    marks = property(lambda self: " · ".join(f"{'✓' if each.done else '○'} {each.title}" for each in self.exercises))

    def __call__(self):
        return Reply(None, f"**{self.done} of {self.total} done.** {self.marks}")

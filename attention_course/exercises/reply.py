"""What a check says, and how far a learner is, as a notebook shows them."""

from typing import NamedTuple

# By verdict: a bar at the left, and a ground so thin that it suits a light page and a dark one.
BARS = {True: "solid #1e8e3e", False: "solid #d9483b", None: "dashed #767676"}
GROUNDS = {True: "rgba(30, 142, 62, 0.12)", False: "rgba(217, 72, 59, 0.12)", None: "rgba(118, 118, 118, 0.1)"}
CALLOUT = '<div style="border-left: 4px {}; background-color: {}; padding: 8px 12px">\n\n{}\n\n</div>'


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
        """An exercise's verdict is a callout. A click opens the next hint, in which the one after is folded."""
        if self.right is None and not self.hints:
            return self.text
        folds = ""
        for number in range(len(self.hints), self.shown, -1):
            summary = f"<summary>Hint {number} of {len(self.hints)}</summary>"
            folds = f"\n\n<details>{summary}\n\n{self.hints[number - 1]}{folds}\n\n</details>"
        return CALLOUT.format(BARS[self.right], GROUNDS[self.right], self.text + folds)


class Progress:
    """progress(): the line that says how many of a lesson's exercises are done."""

    def __init__(self, exercises):
        self.exercises = exercises

    total = property(lambda self: len(self.exercises))
    done = property(lambda self: sum(exercise.done for exercise in self.exercises))
    marks = property(lambda self: " · ".join(f"{'✓' if each.done else '○'} {each.title}" for each in self.exercises))

    def __call__(self):
        return Reply(None, f"**{self.done} of {self.total} done.** {self.marks}")

"""The course's manifest, notebooks/course.toml, as the tools and the tests read it."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
MANIFEST = tomllib.loads((NOTEBOOKS / "course.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Notebook:
    """One entry; course.toml says what the fields are."""

    file: str
    title: str
    question: str
    part: str
    core: int
    practice: int = 0
    deeper: int = 0
    parts: tuple = ()
    predict: str = ""

    @property
    def number(self):
        return self.file[:2]

    @property
    def path(self):
        return NOTEBOOKS / self.file

    @property
    def name(self):
        """The title as a heading has it."""
        return f"Appendix: {self.title}" if self.part == "appendix" else f"{int(self.number)}. {self.title}"


COURSE = [Notebook(**entry) for entry in MANIFEST["notebook"]]
START, *LESSONS = COURSE
HELP = NOTEBOOKS / MANIFEST["help"]


def lesson_of(number):
    """A lesson by its number, such as "03"."""
    return next(lesson for lesson in LESSONS if lesson.number == number)

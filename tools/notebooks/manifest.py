"""The course's manifest, notebooks/course.toml, as the tools and the tests read it."""

import json
import tomllib
from dataclasses import dataclass
from functools import cached_property
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
    minutes: list
    move: str = ""
    predict: str = ""
    free: int = 0

    @property
    def number(self):
        return self.file[:2]

    @property
    def path(self):
        return NOTEBOOKS / self.file

    @property
    def name(self):
        """The title as a heading has it."""
        return f"{int(self.number)}. {self.title}"

    @property
    def total(self):
        """Minutes for all parts."""
        return sum(minutes for _, minutes in self.minutes)

    @cached_property
    def practice(self):
        """Minutes for the explorer and the exercises that the notebook holds; the start page has neither."""
        cells = json.loads(self.path.read_text(encoding="utf-8"))["cells"]
        exercises = sum("".join(cell["source"]).startswith("### Exercise ") for cell in cells)
        return exercises and MANIFEST["practice"]["explorer"] + exercises * MANIFEST["practice"]["exercise"]


COURSE = [Notebook(**entry) for entry in MANIFEST["notebook"]]
START, *LESSONS = COURSE

"""The course's manifest, notebooks/course.toml, as the tools and the tests read it."""

import json
import re
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
    here: tuple = ()

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
    def picture(self):
        """Where its drawing "you are here" stands, seen from the notebook."""
        return f"pictures/you_are_here_{self.number}.svg"

    @property
    def total(self):
        """Minutes for all parts."""
        return sum(minutes for _, minutes in self.minutes)

    @cached_property
    def exercises(self):
        """The titles of the exercises that the notebook holds."""
        sources = ["".join(cell["source"]) for cell in json.loads(self.path.read_text(encoding="utf-8"))["cells"]]
        return [found[1] for source in sources if (found := re.match(r"### Exercise \d+: (.*)", source))]

    @property
    def practice(self):
        """Minutes for the explorer and the exercises; the start page has neither."""
        exercises = len(self.exercises)
        return exercises and MANIFEST["practice"]["explorer"] + exercises * MANIFEST["practice"]["exercise"]


COURSE = [Notebook(**entry) for entry in MANIFEST["notebook"]]
START, *LESSONS = COURSE

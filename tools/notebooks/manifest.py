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

    @cached_property
    def sections(self):
        """The notebook's parts as pairs (heading, minutes), without its exercises and its summary."""
        section, minutes = "", {}
        for kind, source in self._cells:
            heading = re.match(r"##? (.*)", source) if kind == "markdown" else None
            section = heading[1] if heading else section
            minutes[section] = minutes.get(section, 0) + minutes_of(kind, source)
        return [(name, max(1, round(time))) for name, time in minutes.items() if name not in ("Exercises", "Summary")]

    @cached_property
    def _cells(self):
        cells = json.loads(self.path.read_text(encoding="utf-8"))["cells"]
        return [(cell["cell_type"], "".join(cell["source"])) for cell in cells]

    @property
    def _deeper(self):
        """Where "Going deeper" begins in `sections`."""
        return next((n for n, (name, _) in enumerate(self.sections) if name == "Going deeper"), len(self.sections))

    @property
    def core(self):
        """Minutes for what comes before the exercises."""
        return sum(minutes for _, minutes in self.sections[: self._deeper])

    @property
    def deeper(self):
        """Minutes for "Going deeper", or 0."""
        return sum(minutes for _, minutes in self.sections[self._deeper :])

    @property
    def practice(self):
        """Minutes for the explorer and the exercises; the start page has neither."""
        exercises = sum(source.startswith(("### Exercise ", "### Your turn ")) for _, source in self._cells)
        return exercises and MANIFEST["practice"]["explorer"] + exercises * MANIFEST["practice"]["exercise"]


def minutes_of(kind, source):
    """How long a cell takes: a minute for 150 words or for a prediction, half a minute for code and what it draws."""
    if kind == "code":
        return 0.5
    prose = re.sub(r"\$\$.*?\$\$|```.*?```|\]\([^)]*\)|<[^>]+>", " ", source, flags=re.S)
    words = re.findall(r"[A-Za-z][\w'’-]*", prose)
    return len(words) / 150 + source.count("<b>Predict:")


COURSE = [Notebook(**entry) for entry in MANIFEST["notebook"]]
START, *LESSONS = COURSE
HELP = NOTEBOOKS / MANIFEST["help"]


def lesson_of(number):
    """A lesson by its number, such as "03"."""
    return next(lesson for lesson in LESSONS if lesson.number == number)

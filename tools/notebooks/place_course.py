"""Write what notebooks/course.toml says into README.md, the teachers' page and the notebooks: tables, heads, links to
the neighbours; and draw the picture at the head of each notebook.

    python -m tools.notebooks.place_course

Only the cells' text changes, never their ids or outputs. A test holds what stands there to what this would write.
"""

import re
from itertools import groupby

import nbformat

from . import draw_map
from .manifest import COURSE, LESSONS, NOTEBOOKS, START

README = NOTEBOOKS.parent / "README.md"
TEACHING = NOTEBOOKS.parent / "docs" / "teaching.md"
TABLE = re.compile(r"(?<=<!-- make course: from here -->\n).*?(?=<!-- make course: to here -->)", flags=re.S)
# The paragraphs about a notebook that are written here; those between them are its own.
WRITTEN = re.compile(r"#+ .*|\*\*.*\*\*|!\[You are here.*|About \d+ minutes.*|(Previous|Next): \[.*")
ABOUT = "## What's in this course"  # on the start page, whose first cell leaves room for the playground
MAP = """## The notebooks

Take them in order; each builds on the one before. The first minutes are for reading, predicting and running
the cells; those after the plus are for playing with the sliders and solving the exercises. All are estimates.

{tables}"""


def link(notebook, folder=""):
    return f"[{notebook.name}]({folder}{notebook.file})"


def minutes(notebook):
    return f"{notebook.total} + {notebook.practice}" if notebook.practice else str(notebook.total)


def table(header, rows):
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows))


def tables(header, notebooks, row):
    """A table for each part of the course."""
    parts = groupby(notebooks, key=lambda notebook: notebook.part)
    return "\n\n".join(f"Part {part}:\n\n{table(header, map(row, members))}" for part, members in parts)


def readme(text):
    """README.md, with its tables of notebooks as they should be."""

    def row(notebook):
        return link(notebook, "notebooks/"), notebook.question, minutes(notebook)

    before, after = TABLE.split(text)
    return f"{before}\n{tables(['notebook', 'question', 'minutes'], COURSE, row)}\n\n{after}"


def overview():
    """The start page's tables of lessons."""

    def row(lesson):
        return link(lesson), lesson.question, minutes(lesson), lesson.move

    return MAP.format(tables=tables(["Notebook", "Question", "Minutes", "What you can move"], LESSONS, row))


def teaching(text):
    """The teachers' page, with its table of minutes as it should be."""

    def row(lesson):
        parts = "<br>".join(f"{part} {minutes}" for part, minutes in lesson.minutes)
        return link(lesson, "../notebooks/"), parts, f"{lesson.total} + {lesson.practice}", lesson.predict

    before, after = TABLE.split(text)
    lessons = table(["Notebook", "Minutes a part", "Minutes", "To predict aloud"], map(row, LESSONS))
    return f"{before}\n{lessons}\n\n{after}"


def own_words(source):
    return [paragraph for paragraph in source.split("\n\n") if not WRITTEN.fullmatch(paragraph)]


def head(notebook, source, heading):
    """What a notebook is about: a heading, its question, its own words, how long, and the neighbours."""
    more = f", and {notebook.practice} more for the explorer and the exercises" if notebook.practice else ""
    place = COURSE.index(notebook)
    previous = f"Previous: {link(COURSE[place - 1])} · " if place else ""
    about = [f"About {notebook.total} minutes{more}.", previous + way_on(following(notebook))]
    picture = f"![{draw_map.alternative(notebook.here)}]({notebook.picture})"
    return "\n\n".join([heading, f"**{notebook.question}**", picture, *own_words(source), *about])


def following(notebook):
    """The next notebook, or none."""
    return next(iter(COURSE[COURSE.index(notebook) + 1 :]), None)


def way_on(notebook):
    return f"Next: {link(notebook)}" if notebook else f"Next: [the start page]({START.file})"


def summary(notebook, source):
    """A notebook's summary, with the way on and the question that waits there."""
    own = [paragraph for paragraph in source.split("\n\n") if not paragraph.startswith("Next: [")]
    after = following(notebook)
    return "\n\n".join([*own, way_on(after) + (f". {after.question}" if after else "")])


def cells(notebook, sources):
    """The texts of all cells of a notebook as they should be; those that it shares with no other stay as they are."""
    title, sources = f"# {notebook.name}", [*sources]
    place = place_of("## Summary", sources)
    sources[place] = summary(notebook, sources[place])
    if notebook is not START:
        return [head(notebook, sources[0], title), *sources[1:]]
    place = place_of(ABOUT, sources)
    sources[place] = head(notebook, sources[place], ABOUT)
    sources[place_of("## The notebooks", sources)] = overview()
    return ["\n\n".join([title, *own_words(sources[0])]), *sources[1:]]


def place_of(heading, sources):
    [place] = [n for n, source in enumerate(sources) if source.startswith(heading)]
    return place


def main():
    for page, written in ((README, readme), (TEACHING, teaching)):
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
    for entry in COURSE:
        (NOTEBOOKS / entry.picture).parent.mkdir(exist_ok=True)
        (NOTEBOOKS / entry.picture).write_text(draw_map.drawing(entry.here), encoding="utf-8")
        notebook = nbformat.read(entry.path, as_version=4)
        texts = cells(entry, [cell.source for cell in notebook.cells])
        for cell, text in zip(notebook.cells, texts, strict=True):
            cell.source = text
        nbformat.write(notebook, entry.path)


if __name__ == "__main__":
    main()

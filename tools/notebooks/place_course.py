"""Write what notebooks/course.toml says into README.md, the teachers' page and the notebooks: tables, heads, links to
the neighbours; and the published models into the page of names.

    python -m tools.notebooks.place_course

Only the cells' text changes, never their ids or outputs. A test holds what stands there to what this would write.
"""

import re

import nbformat

from attention_course.published import models_table, published_models

from .colab_copies import ADDRESS, in_colab
from .manifest import COURSE, HELP, LESSONS, NOTEBOOKS, START

README = NOTEBOOKS.parent / "README.md"
TEACHING = NOTEBOOKS.parent / "docs" / "teaching.md"
NAMES = NOTEBOOKS / "reference_names.md"
TABLE = re.compile(r"(?<=<!-- make course: from here -->\n).*?(?=<!-- make course: to here -->)", flags=re.S)
# The paragraphs about a notebook that are written here; those between them are its own.
WRITTEN = re.compile(r"#+ .*|\*\*.*\*\*|About \d+ minutes.*|(Previous|Next): \[.*|The course (begins|ends) .*")
*_, LAST, APPENDIX = COURSE
TO_HELP = f"[Help]({HELP.name})"
BADGE = "[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({})"
MAP = """## The notebooks

Each builds on the one before. *Minutes* (estimates) are for the core, about {hours} in part one, and *practice* is for
sliders and exercises.

{tables}"""


def link(notebook, folder=""):
    return f"[{notebook.name}]({folder}{notebook.file})"


def table(header, rows):
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows))


def tables(notebooks, folder=""):
    """A table for each part of the course."""
    header, parts = ["notebook", "question", "minutes", "practice"], {}
    for notebook in notebooks:
        cells = link(notebook, folder), notebook.question, str(notebook.core), str(notebook.practice or "")
        parts.setdefault(notebook.part, []).append(cells)
    titles = {part: f"Part {part}" for part in parts} | {"appendix": "Appendix"}
    return "\n\n".join(f"{titles[part]}:\n\n{table(header, rows)}" for part, rows in parts.items())


def overview():
    """The start page's tables of lessons, and how long part one takes, to the nearest quarter of an hour."""
    hours, rest = divmod(round(sum(lesson.core for lesson in LESSONS if lesson.part == "one") / 15), 4)
    return MAP.format(hours=f"{hours}{('', '¼', '½', '¾')[rest]} hours", tables=tables(LESSONS))


def minutes():
    """The teachers' table."""

    def row(lesson):
        times = [str(count or "") for count in (lesson.core, lesson.practice, lesson.deeper)]
        return link(lesson, "../notebooks/"), "<br>".join(lesson.parts), *times, lesson.predict

    header = ["Notebook", "Minutes per part", "Core", "Explorer and exercises", "Going deeper", "To predict aloud"]
    return table(header, map(row, LESSONS))


def page(path):
    """The text of a page, with its table as it should be."""
    shown = tables(COURSE, "notebooks/")
    if ADDRESS:
        shown = f"{BADGE.format(in_colab(START.file, ADDRESS))}\n\n{shown}"
    rows = {README: shown, TEACHING: minutes(), NAMES: models_table(published_models())}[path]
    return TABLE.sub(lambda _: f"\n{rows}\n\n", path.read_text(encoding="utf-8"))


def own_words(source):
    return [paragraph for paragraph in source.split("\n\n") if not WRITTEN.fullmatch(paragraph)]


def head(notebook, source):
    """A lesson's title, its question, its own words, how long it takes, and the neighbours."""
    times = [f"About {notebook.core} minutes"]
    if notebook is APPENDIX:
        times += [f"{notebook.practice} more for the exercises"]
    elif notebook.practice:
        times += [f"{notebook.practice} more for the explorer and the exercises"]
    if notebook.deeper:
        times += [f"{notebook.deeper} for *Going deeper*"]
    *first, last = times
    about = f"{', '.join(first)}, and {last}." if first else f"{last}."
    ways = [way_on(notebook), also(notebook)]
    if notebook is not APPENDIX:
        ways.insert(0, f"Previous: {link(COURSE[COURSE.index(notebook) - 1])}")
    ways = " · ".join(ways)
    return "\n\n".join([f"# {notebook.name}", f"**{notebook.question}**", *own_words(source), about, ways])


def start(source):
    """The start page's first cell, which leaves room for the playground."""
    about = f"About {START.core} minutes. {way_on(START)} · {also(START)}"
    return "\n\n".join([f"# {START.name}", *own_words(source), about])


def also(notebook):
    """The help page, and once there's an address, Colab: no badge, which each opening would ask the network for."""
    if not ADDRESS:
        return TO_HELP
    return f"{TO_HELP} · [Open in Colab]({in_colab(notebook.file, ADDRESS)})"


def way_on(notebook, question=False):
    """The link to the next notebook, and if it's asked for, the question that waits there, or that none does."""
    if notebook is APPENDIX:
        return f"The course begins with {link(START)}"
    if notebook is LAST:
        ends = f"The course ends here. Back to [the start page]({START.file}) · "
        return ends + link(APPENDIX) if question else link(APPENDIX)
    after = COURSE[COURSE.index(notebook) + 1]
    return f"Next: {link(after)}" + (f". {after.question}" if question else "")


def cells(notebook, sources):
    """The texts of all cells of a notebook as they should be; those that it shares with no other stay as they are."""
    first, *others, last = sources
    if notebook is START:
        return [start(first), *(overview() if cell.startswith("## The notebooks") else cell for cell in others), last]
    end = "\n\n".join([*own_words(last), way_on(notebook, question=True)])
    return [head(notebook, first), *others, end]


def main():
    for path in (README, TEACHING, NAMES):
        path.write_text(page(path), encoding="utf-8")
    for entry in COURSE:
        notebook = nbformat.read(entry.path, as_version=4)
        for cell, text in zip(notebook.cells, cells(entry, [cell.source for cell in notebook.cells]), strict=True):
            cell.source = text
        nbformat.write(notebook, entry.path)


if __name__ == "__main__":
    main()

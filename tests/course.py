"""The course's notebooks, as the tests read them: as JSON, since importing nbformat costs a second."""

import json
import re

from tools.notebooks.manifest import COURSE
from tools.notebooks.manifest import NOTEBOOKS as FOLDER

ROOT = FOLDER.parent
PATHS = sorted(path for path in FOLDER.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
LESSONS = [notebook.path for notebook in COURSE[1:]]
FREE = "nbval-ignore-output"
SVG = "image/svg+xml"
[MEASURED] = re.findall(r"^regex: (.*)$", (FOLDER / "measured.cfg").read_text(encoding="ascii"), flags=re.M)


def joined(text):
    """The file keeps a text as a string or as a list of lines."""
    return "".join(text) if isinstance(text, list) else text


class Node(dict):
    """A JSON object whose entries are attributes as well; its texts are strings."""

    __getattr__ = dict.__getitem__

    def __init__(self, entries):
        texts = [name for name in entries if name in ("source", "text", SVG) or name.startswith("text/")]
        super().__init__(entries | {name: joined(entries[name]) for name in texts})


def read(path):
    return json.loads(path.read_text(encoding="utf-8"), object_hook=Node)


def at(path, cell, text=""):
    """Where something is wrong, and what, for a message: a long text is cut, since a picture is one line of 100 kB."""
    return f"{path.name}, cell {cell.id}: {text[:400]}"


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell):
    return cell.metadata.get("tags", [])


def text_of(output):
    """What an output says in text: a stream's text, or its data under every text type."""
    shown = "\n".join(text for kind, text in output.get("data", {}).items() if kind.startswith("text/"))
    return output.get("text", shown)


def without_measured(text):
    """A text as nbval compares it: the numbers after ≈ left out."""
    return re.sub(MEASURED, "≈", text)


def printed_in(path):
    """All numbers of a notebook's outputs, pictures and code, as they're written but without thousands' commas."""
    cells = code_cells(read(path))
    shown = [text_of(output) + output.get("data", {}).get(SVG, "") for cell in cells for output in cell.outputs]
    text = "\n".join((*shown, *(cell.source for cell in cells)))
    return {number.replace(",", "") for number in re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", text)}


def anchors(notebook):
    """The anchors that JupyterLab gives to a notebook's headings."""
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return {heading.strip().replace(" ", "-") for heading in re.findall(r"^#+ +(.+)$", text, flags=re.M)}

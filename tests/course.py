"""The course's notebooks, as the tests read them."""

import re
from pathlib import Path

import nbformat

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "notebooks"
PATHS = sorted(path for path in FOLDER.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
FREE = "nbval-ignore-output"


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell):
    return cell.metadata.get("tags", [])


def text_of(output):
    """What an output says in text: a stream's text, or its data under every text type but the picture's stand-in."""
    if output.output_type == "stream":
        return output.text
    if output.output_type == "error":
        return ""
    return "\n".join(text for kind, text in output.data.items() if kind.startswith("text/"))


def numbers_in(text):
    """All numbers of a text in order; 2,362,368 is one."""
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", text)]


def anchors(notebook):
    """The anchors that JupyterLab gives to a notebook's headings."""
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return {heading.strip().replace(" ", "-") for heading in re.findall(r"^#+ +(.+)$", text, flags=re.M)}

"""An extension of Sphinx for the reading site: live explorers, alt texts, MathJax from a package.

The notebooks' files stay as they are: what is added is added to their text as Sphinx reads it.
"""

import json
import re
from importlib.util import find_spec
from pathlib import Path

from sphinx.util.fileutil import copy_asset

from .live_pages import GRIDS, PLAYGROUND, block
from .run_cell import code_for

SVG, PNG = "image/svg+xml", "image/png"
START = "notebooks/00_start_here"
MOVES = """``````{{raw}} html
{block}
``````
"""
REST = """:::{{container}} live-rest
{rest}
[Set the course up](/docs/index.md#run-it-yourself), open this notebook there, and run the cell above.
:::"""
STILL = "On this page the explorer is a picture, because it answers to what you type. To move it yourself:"
ONLY_THERE = "This explorer has some of its states here. In the notebook, {names} and you can choose any value."
FRONT = "<!-- the playground, live -->"
# What the pages load of MathJax: its scripts in one file, and the fonts; 1.6 of 24 MB.
MATHJAX = ["tex-chtml.js", "output/chtml/fonts/woff-v2/*"]


def slug(heading):
    """A heading's anchor, as JupyterLab makes it."""
    return heading.strip().replace(" ", "-")


def with_alt_text(cell):
    """A code cell, whose figure is read out as in JupyterLab: there the output says how, here the cell."""
    for output in cell.get("outputs", []):
        if alt := output.get("metadata", {}).get(PNG, {}).get("alt"):
            cell["metadata"]["mystnb"] = {"image": {"alt": alt}}
    return cell


def explorer_of(cell, cells, start):
    """The code that makes a cell's explorer, and its kind, if it's live on the site; else None.

    start: whether it's the start page, where the playground plays.
    """
    pictures = [output["data"] for output in cell.get("outputs", []) if SVG in output.get("data", {})]
    kind = "".join(pictures[0]["text/plain"]).split(":")[0] if pictures else None
    if kind == "Playground":
        return (PLAYGROUND, kind) if start else None
    return (code_for("".join(cell["source"]), cells), kind) if kind in GRIDS else None


def with_explorer(cell, cells, start):
    """A code cell and, after it, its explorer; one that isn't live stays a picture."""
    pictures = [output for output in cell.get("outputs", []) if SVG in output.get("data", {})]
    if found := explorer_of(cell, cells, start):
        cell["outputs"] = [output for output in cell["outputs"] if output not in pictures]
        made, rest = block(*found)
        return [cell, markdown(cell, MOVES.format(block=made) + REST.format(rest=only_there(rest)))]
    for output in pictures:
        output["data"] = {"text/html": following("".join(output["data"][SVG]))}
    return [cell, markdown(cell, REST.format(rest=STILL))] if pictures else [cell]


def only_there(rest):
    """What an explorer's notebook has and the site lacks; rest: the names of controls."""
    *others, last = [f"*{name}*" for name in rest] or [""]
    names = f"{', '.join(others)} and {last} move too" if others else f"{last} moves too"
    return ONLY_THERE.format(names=f"{names}," if last else "").replace("notebook,  and", "notebook")


def following(svg):
    """A stored picture in the page's colour, without its white ground."""
    return re.sub('<rect [^>]*fill="#fff"></rect>', "", svg, count=1).replace("color:#000;", "color:inherit;", 1)


def markdown(cell, source):
    return {"cell_type": "markdown", "id": f"{cell['id']}-live", "metadata": {}, "source": source}


def complete(app, docname, source):
    """What Sphinx reads of a notebook, or of a page that asks for the playground."""
    if app.env.doc2path(docname).suffix != ".ipynb":
        if FRONT in source[0]:
            source[0] = source[0].replace(FRONT, MOVES.format(block=block(PLAYGROUND, "Playground")[0]))
        return
    notebook, start = json.loads(source[0]), docname == START
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    notebook["cells"] = [
        made for cell in notebook["cells"] for made in with_explorer(with_alt_text(cell), cells, start)
    ]
    source[0] = json.dumps(notebook)


def copy_mathjax(app, error):
    package = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
    files = [] if error else [file for pattern in MATHJAX for file in package.glob(pattern)]
    for file in files:
        copy_asset(file, Path(app.outdir, "_static", "mathjax", file.relative_to(package).parent))


def setup(app):
    app.connect("source-read", complete)
    app.connect("build-finished", copy_mathjax)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""An extension of Sphinx for the reading site: how to make an explorer live, alt texts, MathJax from a package.

The notebooks' files stay as they are: what is added is added to their text as Sphinx reads it.
"""

import json
from importlib.util import find_spec
from pathlib import Path

from sphinx.util.fileutil import copy_asset

SVG, PNG = "image/svg+xml", "image/png"
HOW_TO_MAKE_IT_LIVE = """:::{note}
On this page the explorer is a picture. To move its sliders, set the course up as
[the first page](/docs/index.md) says, open this notebook there, and run the cell above.
:::"""
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


def with_explorer(cell):
    """A code cell, and after an explorer's picture how to make it live; the picture keeps the words that name it."""
    pictures = [output for output in cell.get("outputs", []) if SVG in output.get("data", {})]
    for output in pictures:
        output["data"] = {"text/html": output["data"][SVG]}
    how = {"cell_type": "markdown", "id": f"{cell['id']}-live", "metadata": {}, "source": HOW_TO_MAKE_IT_LIVE}
    return [cell, how] if pictures else [cell]


def complete(app, docname, source):
    """What Sphinx reads of a notebook."""
    if app.env.doc2path(docname).suffix != ".ipynb":
        return
    notebook = json.loads(source[0])
    notebook["cells"] = [made for cell in notebook["cells"] for made in with_explorer(with_alt_text(cell))]
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

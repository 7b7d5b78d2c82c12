"""An extension of Sphinx for the reading site: live explorers, solutions, formulas without a script.

The notebooks' files stay as they are: what is added is added to their text as Sphinx reads it.
"""

import html
import json
import re

from docutils.nodes import make_id

from attention_course.exercises import practice
from attention_helpers import show_source

from .formulas import write_in
from .live_pages import PLAYGROUND, block
from .manifest import COURSE
from .place_exercises import TURN
from .run_cell import code_for

SVG, PNG = "image/svg+xml", "image/png"
START = "notebooks/00_start_here"
MOVES = """``````{{raw}} html
{block}
``````
"""
REST = """:::{{container}} live-rest
This explorer has some of its states here. In the notebook, {more}you can choose any value.
To try it, [set the course up](/docs/index.md#run-it-yourself), open this notebook there, and run the cell above.
:::"""
ABOUT = "Attention in PyTorch, from a dot product to the heads of a GPT, in notebooks with explorers that move."
# What the start page says of a notebook's cells, and what it says here.
INSTEAD = {
    r"Press Shift\+Enter\s+twice, and\s+you'll get .*?\)\.": "In the picture below, a model learns to do that.",
    r"In \*Free play\* you can": "In the notebook's *Free play* you can",
}
SOLUTION = """<details><summary>Solution</summary>

{code}

**Why it's right.** {why}

</details>"""
NOT_YET = r"(?m)^\*\*Not attempted yet.*\n"  # nor can anybody answer: of the reply, the hints stay
FRONT = "<!-- the playground, live -->"


def slug(heading):
    """A heading's anchor, as JupyterLab makes it."""
    return heading.strip().replace(" ", "-")


def with_figure(cell):
    """A cell folded as in the notebook, whose figure has its alt text and its width: here the cell has them."""
    if cell["metadata"].get("jupyter", {}).get("source_hidden"):
        cell["metadata"].setdefault("tags", []).append("hide-input")
    for output in cell.get("outputs", []):
        if image := output.get("metadata", {}).get(PNG):
            cell["metadata"]["mystnb"] = {"image": {"alt": image["alt"], "width": f"{image['width']}px"}}
        elif said := re.search(r'aria-label="(.*?)"', "".join(output.get("data", {}).get(SVG, ""))):
            cell["metadata"]["mystnb"] = {"image": {"alt": html.unescape(said[1])}}
    return cell


def with_links(cell):
    """A cell in whose outputs links to notebooks lead to their pages: Sphinx follows only a text's own."""
    for output in cell.get("outputs", []):
        if said := output.get("data", {}).get("text/markdown"):
            output["data"]["text/markdown"] = re.sub(r"\]\((\w+)\.ipynb(#[^)]*)?\)", to_page, "".join(said))
    return cell


def to_page(link):
    """A link to a notebook, or to a heading of it, as one to its page."""
    name, heading = link.groups()
    anchor = f"#{make_id(heading)}" if heading else ""
    return f"]({name}.html{anchor})"


def explorer_of(cell, cells):
    """The codes that make a cell's explorer, and its kind; None if it has no explorer."""
    pictures = [output["data"] for output in cell.get("outputs", []) if SVG in output.get("data", {})]
    kind, _, live = "".join(part for data in pictures for part in data["text/plain"]).partition(": run this cell")
    if not live:
        return None
    return (PLAYGROUND if kind == "Playground" else code_for("".join(cell["source"]), cells)), kind


def with_explorer(cell, cells):
    """A code cell and, after it, its explorer."""
    if not (found := explorer_of(cell, cells)):
        return [cell]
    cell["outputs"] = [output for output in cell["outputs"] if SVG not in output.get("data", {})]
    made, rest = block(tuple(found[0]), found[1])
    more = f"more can be moved ({', '.join(f'*{name}*' for name in rest)}), and " if rest else ""
    return [cell, markdown(cell, MOVES.format(block=made) + REST.format(more=more))]


def with_solution(cell, number):
    """A code cell and, after an exercise's, its solution, folded: here nobody can check an answer.

    A Your turn has its answer in the next cell.
    """
    name = re.search(r"^practice\.(\w+)\.check\(", "".join(cell["source"]), flags=re.MULTILINE)
    if cell["cell_type"] != "code" or not name:
        return [cell]
    for output in cell["outputs"]:
        output["data"]["text/markdown"] = re.sub(NOT_YET, "", "".join(output["data"]["text/markdown"]))
    if cell["id"].startswith(TURN):
        return [cell]
    exercise = getattr(practice(number), name[1])
    code = show_source(exercise.solution).data
    return [cell, {**markdown(cell, SOLUTION.format(code=code, why=exercise.why)), "id": f"{cell['id']}-solution"}]


def markdown(cell, source):
    return {"cell_type": "markdown", "id": f"{cell['id']}-live", "metadata": {}, "source": source}


def say_what_holds_here(notebook):
    """Replace what only a notebook can say. Errors: ValueError if the notebook doesn't say it any more."""
    for pattern, said in INSTEAD.items():
        before = ["".join(cell["source"]) for cell in notebook["cells"]]
        after = [re.sub(pattern, said, source, flags=re.DOTALL) for source in before]
        if after == before:
            raise ValueError(f"{START} doesn't say {pattern!r} any more: correct INSTEAD")
        for cell, source in zip(notebook["cells"], after, strict=True):
            cell["source"] = source


def complete(app, docname, source):
    """What Sphinx reads of a notebook, or of a page that asks for the playground."""
    if app.env.doc2path(docname).suffix != ".ipynb":
        if FRONT in source[0]:
            source[0] = source[0].replace(FRONT, MOVES.format(block=block(PLAYGROUND, "Playground")[0]))
        return
    notebook = json.loads(source[0])
    if docname == START:
        say_what_holds_here(notebook)
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    explorers = [made for cell in notebook["cells"] for made in with_explorer(with_links(with_figure(cell)), cells)]
    lesson = docname.startswith("notebooks/") and docname.count("/") == 1
    number = docname.removeprefix("notebooks/")[:2]
    notebook["cells"] = [made for cell in explorers for made in (with_solution(cell, number) if lesson else [cell])]
    source[0] = json.dumps(notebook)


def describe(app, pagename, templatename, context, doctree):
    """What a search engine or a chat shows of a page: the question that its notebook answers."""
    lesson = next((each for each in COURSE if f"notebooks/{each.path.stem}" == pagename), None)
    title, text = (f"{lesson.title}: {app.config.project}", lesson.question) if lesson else (app.config.project, ABOUT)
    tags = {'name="description"': text, 'property="og:title"': title, 'property="og:description"': text}
    if address := app.config.html_baseurl:  # a picture needs a whole address
        tags['property="og:image"'] = f"{address}_static/playground.png"
    for key, value in tags.items():
        context["metatags"] = context.get("metatags", "") + f'\n<meta {key} content="{html.escape(value)}">'


def setup(app):
    app.connect("source-read", complete)
    app.connect("html-page-context", describe)
    app.add_html_math_renderer("drawn", write_in("span"), write_in("div"))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

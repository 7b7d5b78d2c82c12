"""Write the package's classes into the pages that build them, so that each class has one text.

    python -m tools.notebooks.place_classes

A page shows its class without docstrings and in 80 columns, after the imports that it needs. Where PAGES names the page
of the class before, `# new` marks each statement that isn't in that one. No outputs are made: run `make refresh`
afterwards. A test holds pages and package together.
"""

import ast
import importlib
import inspect
import io
import re
import subprocess
import sys
import tokenize
from typing import NamedTuple

import nbformat

import attention_helpers

from .manifest import lesson_of


class Page(NamedTuple):
    module: str  # in attention_helpers
    names: list  # the classes and functions that the cell shows, in order
    before: tuple | None = None  # the page of the class before, if `# new` marks the differences
    given: set = frozenset()  # what earlier cells define


V2 = ("02", "whole-class-v2")
MASKED = ("03", "whole-class")  # the one class that's typed on its page, because it has no dropout yet
CAUSAL = ("04", "whole-class")
SPLIT = ("06", "whole-class")
PAGES = {  # number of the notebook, id of the cell
    V2: Page("layers", ["SelfAttention_v2"]),
    CAUSAL: Page("layers", ["CausalAttention"], MASKED),
    ("05", "whole-class"): Page("layers", ["MultiHeadAttentionWrapper"]),
    SPLIT: Page("layers", ["MultiHeadAttention"], CAUSAL),
    ("07", "model-class"): Page("training.lookup", ["LookupModel"]),
    ("08", "model-class"): Page("training.characters", ["CharacterModel"]),
    ("10", "class-with-a-cache"): Page("modern.cached", ["CachedAttention"]),
    ("11", "whole-class"): Page("modern.positions", ["rotate", "RotaryAttention"]),
    ("12", "latent-class"): Page("modern.memory", ["LatentAttention"]),
    ("12", "state-class"): Page("modern.memory", ["GatedDeltaNet"]),
    ("14", "block"): Page("parallel.split", ["block"], given={"torch"}),
    ("14", "split-class"): Page("parallel.split", ["pass_on", "ParallelAttention"], given={"attend_in_tiles"}),
    ("16", "whole-class-v1"): Page("layers", ["SelfAttention_v1"], V2),
}
WIDTH = 80
FORMAT = [sys.executable, "-m", "ruff", "format", "--isolated", f"--line-length={WIDTH}", "-"]
SKIPPED = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)


def plain_source(thing):
    """The source of a class or function without its docstrings."""
    code = inspect.getsource(thing)
    lines = code.splitlines()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            for row in range(node.body[0].lineno - 1, node.body[0].end_lineno):
                lines[row] = None
    return "\n".join(line for line in lines if line is not None)


def imports_for(code, module, given):
    """The lines that import what a code takes from outside itself, as its module does or from the package."""
    tree = ast.parse(code)
    shown = {node.name for node in tree.body}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - shown - given
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0):
            node.names = [each for each in node.names if (each.asname or each.name) in used]
            if node.names:
                yield ast.unparse(node)
    ours = {}
    for name in sorted(used & vars(module).keys()):
        home = getattr(getattr(module, name), "__module__", "")
        if home.startswith("attention_helpers"):
            home = "attention_helpers" if hasattr(attention_helpers, name) else home
            ours.setdefault(home, []).append(name)
    yield ""
    for home, names in ours.items():
        yield f"from {home} import {', '.join(names)}"


def statements(code):
    """Where each statement of a code begins, and its text without comments, however it's broken into lines."""
    words = []
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.NEWLINE:
            yield words[0].start[0], " ".join(word.string for word in words)
            words = []
        elif token.type not in SKIPPED:
            words.append(token)


def in_width(line, mark=""):
    """A line of code with its comment and a mark behind it; what's too wide there goes on a line above."""
    code, _, comment = line.partition("  # ")
    indent = " " * (len(line) - len(line.lstrip()))
    said = ": ".join(filter(None, (mark, comment)))
    if not said or len(f"{code}  # {said}") <= WIDTH:
        return [f"{code}  # {said}" if said else code]
    if mark and len(f"{code}  # {mark}") <= WIDTH:
        return [f"{indent}# {comment}", f"{code}  # {mark}"]
    return [f"{indent}# {said}", code]


def mark_new(code, before):
    """A code whose statements that aren't in the code before have the comment `# new`."""
    known = {text for _, text in statements(before)}
    new = {row for row, text in statements(code) if text not in known}
    lines = []
    for row, line in enumerate(code.splitlines(), 1):
        lines += in_width(line, "new") if row in new else [line]
    return re.sub(r"^( *# )(.+)\n *# new$", r"\1new: \2", "\n".join(lines), flags=re.M)  # one comment of two


def cell_of(number, name):
    """The notebook with this number, and its cell with this id."""
    notebook = nbformat.read(lesson_of(number).path, as_version=4)
    return notebook, next(cell for cell in notebook.cells if cell.id == name)


def class_cell(page):
    """What a page's cell says."""
    module = importlib.import_module(f"attention_helpers.{page.module}")
    code = "\n\n".join(plain_source(getattr(module, name)) for name in page.names)
    lines = [*imports_for(code, module, page.given), ""]
    for line in code.splitlines():
        lines += [line] if line.lstrip().startswith("#") else in_width(line)
    done = subprocess.run(FORMAT, input="\n".join(lines), capture_output=True, text=True, check=True)
    code = done.stdout.strip()
    return mark_new(code, cell_of(*page.before)[1].source) if page.before else code


if __name__ == "__main__":
    for (number, name), page in PAGES.items():
        notebook, cell = cell_of(number, name)
        cell.source = class_cell(page)
        nbformat.write(notebook, lesson_of(number).path)

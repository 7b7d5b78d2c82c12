"""Run one cell of a notebook, and before it only those that it needs: to make an explorer, no lesson is executed."""

import ast
import builtins
import io
from contextlib import redirect_stderr, redirect_stdout


def code_for(cell, cells):
    """A cell's code, after that of the cells before it that make a name that it needs; cells: all code in order."""
    chosen, needed = [], set()
    for each in reversed(cells[: cells.index(cell) + 1]):
        names = [node for node in ast.walk(ast.parse(each)) if isinstance(node, ast.Name)]
        made = {node.id for node in names if isinstance(node.ctx, ast.Store)} | set(defined(each))
        if not chosen or made & needed:
            needed = (needed - made) | ({node.id for node in names} - made - set(dir(builtins)))
            chosen = [each, *chosen]
    return "\n".join(chosen)


def defined(code):
    """The names that a cell's imports, functions and classes define."""
    for node in ast.parse(code).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((name.asname or name.name).split(".")[0] for name in node.names)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name


def shown_by(code):
    """What the code's last line shows, as an object; what the code prints is dropped."""
    *before, shown = ast.parse(code).body
    names = {"__name__": "__main__"}
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        exec(compile(ast.Module(before, []), "notebook", "exec"), names)
        return eval(compile(ast.Expression(shown.value), "notebook", "eval"), names)

"""Run one cell of a notebook, and before it only those that it needs: to make an explorer, no lesson is executed."""

import ast
import builtins
import io
import linecache
import zlib
from contextlib import redirect_stderr, redirect_stdout
from symtable import symtable
from unittest.mock import patch


def code_for(cell, cells):
    """The codes of the cells that make a name that a cell needs, and its own; cells: all code in order."""
    chosen, needed = [], set()
    for each in reversed(cells[: cells.index(cell) + 1]):
        names = [node for node in ast.walk(ast.parse(each)) if isinstance(node, ast.Name)]
        symbols = symtable(each, "cell", "exec").get_symbols()  # is_namespace: a function or a class
        made = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        made |= {symbol.get_name() for symbol in symbols if symbol.is_imported() or symbol.is_namespace()}
        if not chosen or made & needed:
            needed = (needed - made) | ({node.id for node in names} - made - set(dir(builtins)))
            chosen = [each, *chosen]
    return chosen


def shown_by(codes):
    """What the last line of the last code shows, as an object; what the codes print is dropped."""
    names, shown = {"__name__": "__main__"}, []
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), patch("sys.displayhook", shown.append):
        for code in codes:
            place = f"<cell {zlib.crc32(code.encode())}>"
            linecache.cache[place] = len(code), None, code.splitlines(keepends=True), place  # explorers show lines
            exec(compile(ast.Interactive(ast.parse(code).body), place, "single"), names)
    return shown[-1]

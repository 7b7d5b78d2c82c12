"""Exercises as source code: what a notebook ships to complete or fix, and known mistakes."""

import inspect
import re
import textwrap
from contextlib import suppress
from types import CodeType

import torch

from ..judge.lines import calling_line as calling_line
from ..judge.lines import error_line as error_line

# Python compiles `torch.exp(x)` differently where torch is imported in the same cell, as it is in the notebooks' cells.
IMPORTS = ("", "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n")


def stub_of(function):
    """A function's head, its docstring, and a place to write."""
    head = re.match(r"def .*?:\n", source_of(function), flags=re.S).group()
    doc = textwrap.indent(f'"""{inspect.getdoc(function)}"""', "    ")
    return f"{head}{doc}\n    ...  # your code"


def source_of(thing):
    return textwrap.dedent(inspect.getsource(thing))


def with_changes(solution, edits):
    """The solution, a function or class, with each `old` of the pairs (old, new) replaced everywhere in its source.

    Errors: ValueError if an `old` isn't in the source.
    """
    source = source_of(solution)
    for old, new in edits:
        if old not in source:
            raise ValueError(f"old must be in the source of {solution.__name__}, got {old!r}")
        source = source.replace(old, new)
    names = dict(vars(inspect.getmodule(solution)))
    exec(source, names)
    return names[solution.__name__]


def is_stub(answer, stub, name):
    """Whether an answer does what the stub does: the learner ran the cell as it was shipped."""
    for imports in IMPORTS:
        names = {"__name__": "exercise", "torch": torch, "nn": torch.nn}  # at hand, as in the notebooks
        with suppress(Exception):  # a stub that isn't a complete program
            exec(imports + stub, names)
            if essence(answer) == essence(names[name]):
                return True
    return False


def essence(thing):
    """What a function, a class's methods or a code object does, whichever file and line it's in."""
    if inspect.isclass(thing):
        return [essence(part) for part in vars(thing).values() if inspect.isfunction(part)]
    code = getattr(thing, "__code__", thing)
    if not isinstance(code, CodeType):
        return repr(code)
    return code.co_name, code.co_code, [essence(part) for part in code.co_consts], code.co_names, code.co_varnames

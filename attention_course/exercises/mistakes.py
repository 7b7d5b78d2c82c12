"""Known mistakes: a wrong solution, which is mostly the right one with an edit, and the reply to who made it."""

import inspect
import textwrap
from typing import Any, NamedTuple


class Mistake(NamedTuple):
    """A mistake that people make: its name, a function or class that makes it, and the check's reply."""

    name: str
    wrong: Any
    reply: str


def edited(solution, old, new):
    """The solution, a function or class, with `old` replaced by `new` everywhere in its source.

    Errors: ValueError if `old` isn't in the source.
    """
    source = textwrap.dedent(inspect.getsource(solution))
    if old not in source:
        raise ValueError(f"old must be in the source of {solution.__name__}, got {old!r}")
    names = dict(vars(inspect.getmodule(solution)))
    exec(source.replace(old, new), names)
    return names[solution.__name__]


def paragraph(text):
    """A text as one line, however its source is wrapped."""
    return " ".join(text.split())

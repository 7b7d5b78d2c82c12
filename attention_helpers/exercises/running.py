"""Run a learner's code without harm: what it returns or raises, on which line, and with the random state kept."""

import inspect
import linecache
import random
import sys
import traceback
from contextlib import contextmanager
from types import CodeType
from typing import Any, NamedTuple

import torch

from .compare import difference

TEXT = "<your text>"  # the file name of an answer that is given as a text


class Outcome(NamedTuple):
    """What one call left: its value or its error, and the arguments afterwards."""

    value: Any
    error: Exception | None
    case: tuple

    def alike(self, other, tolerance, asked=None):
        """Whether two calls gave the same, and left the same behind.

        asked: an error that is asked for here; its message is the learner's to choose.
        """
        if type(self.error) is not type(other.error):
            return False
        if self.error is not None:
            as_asked = asked is not None and isinstance(self.error, type(asked))
            return as_asked or str(self.error) == str(other.error)
        return not (difference(self.value, other.value, tolerance) or difference(self.case, other.case, tolerance))


def outcome(call, answer, case):
    """Call an answer; an interrupt goes through, everything else that it raises is part of the outcome."""
    try:
        return Outcome(call(answer, *case), None, case)
    except Exception as error:
        return Outcome(None, error, case)


@contextmanager
def kept_random_state():
    """Leave torch's, Python's and numpy's global generators as they were."""
    python, numpy = random.getstate(), getattr(sys.modules.get("numpy"), "random", None)
    array_state = numpy.get_state() if numpy else None
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            random.setstate(python)
            if numpy:
                numpy.set_state(array_state)


def compiled(text, name):
    """What a text of Python calls `name`, with torch and nn at hand, as in the notebooks."""
    text = text.strip() + "\n"
    linecache.cache[TEXT] = (len(text), None, text.splitlines(keepends=True), TEXT)  # for the line that failed
    namespace = {"__name__": "exercise", "torch": torch, "nn": torch.nn}
    exec(compile(text, TEXT, "exec"), namespace)  # the learner's own code, in the learner's own kernel
    if name not in namespace:
        raise NameError(f"the text defines no {name}")
    return namespace[name]


def as_shipped(stub, name):
    """The function or class that a stub defines, or None where the stub is no whole program."""
    try:
        return compiled(stub, name)
    except Exception:
        return None


def codes(thing):
    """The code objects of a function, or of all that a class's body defines, by name."""
    if inspect.isclass(thing):
        return {name: code for name, part in vars(thing).items() for code in [getattr(part, "__code__", None)] if code}
    return {"": getattr(thing, "__code__", None)}


def essence(code):
    """What a function does, whichever file and line it stands in."""
    constants = [essence(c) if isinstance(c, CodeType) else c for c in code.co_consts]
    return code.co_code, repr(constants), code.co_names, code.co_varnames


def same_code(one, other):
    """Whether two functions, or two classes, have the same code."""
    if type(one) is not type(other) or not callable(one):
        return False
    ones, others = codes(one), codes(other)
    return ones.keys() == others.keys() and all(
        ones[name] and others[name] and essence(ones[name]) == essence(others[name]) for name in ones
    )


def own_line(error, answer):
    """An error in one sentence, with the last line of the learner's own code that it passed through."""
    said = (str(error).strip().splitlines() or [""])[0].rstrip(".")
    what = f"`{type(error).__name__}`" + (f": {said}" if said else "")
    if isinstance(error, SyntaxError) and error.text:
        return f"Python cannot read line {error.lineno}, `{error.text.strip()}`: {error.msg}."
    files = {code.co_filename for code in codes(answer).values() if code} | {TEXT}
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    if not lines:
        return f"The call failed, though not in a line of yours: {what}."
    return f"Your code stopped in line {lines[-1].lineno}, `{lines[-1].line}`, with {what}."

"""Run a learner's code without harm: what it returns or raises, on which line, and with the random state kept."""

import functools
import inspect
import io
import linecache
import random
import sys
import traceback
from contextlib import contextmanager, nullcontext, redirect_stdout
from types import CodeType
from typing import Any, NamedTuple

import torch

from .compare import difference, error_in_words, message

TEXT = "<your text>"  # the file name of an answer that is given as a text


class Outcome(NamedTuple):
    """What one call left: its value or its error, and the arguments afterwards."""

    value: Any
    error: BaseException | None
    case: tuple

    def alike(self, other, tolerance, asked=None):
        """Whether two calls gave the same, and left the same behind.

        asked: an error that is asked for here; its message is the learner's to choose.
        """
        if type(self.error) is not type(other.error):
            return False
        if self.error is not None:
            as_asked = asked is not None and isinstance(self.error, type(asked))
            return as_asked or message(self.error) == message(other.error)
        return not (difference(self.value, other.value, tolerance) or difference(self.case, other.case, tolerance))


def outcome(call, answer, case, afterwards=lambda: None, prints=True):
    """Call an answer; an interrupt goes through, all else that it raises, also exit(), is part of the outcome.

    prints: whether what it prints shows.
    """
    try:
        with nullcontext() if prints else redirect_stdout(io.StringIO()):
            return Outcome(call(answer, *case), None, case)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Outcome(None, error, case)
    finally:
        afterwards()


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
    what = error_in_words(error)
    if isinstance(error, SyntaxError) and error.text:
        return f"Python cannot read line {error.lineno}, `{error.text.strip()}`: {error.msg}."
    answer = unwrapped(answer)
    if library := not_theirs(answer):
        name = getattr(answer, "__name__", None)
        thing = f"`{name}`" if name else f"an object of `{type(answer).__name__}`"
        return f"You passed {thing} of {library}, no code of your own, and the call failed: {what}."
    line = last_line(error, answer)
    if not line:
        return f"The call failed, though not in a line of yours: {what}."
    return f"Your code stopped in {line}, with {what}."


def last_line(error, answer):
    """The last line of the learner's own code that an error passed through, or ""."""
    written = answer if hasattr(answer, "__code__") or inspect.isclass(answer) else type(answer)
    files = {code.co_filename for code in codes(written).values() if code} | {TEXT}
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    return f"line {lines[-1].lineno}, `{lines[-1].line}`" if lines else ""


def unwrapped(answer):
    """What stands under functools.partial, functools.cache and their like."""
    while isinstance(answer, functools.partial):
        answer = answer.func
    return inspect.unwrap(answer)


def not_theirs(answer):
    """The library that a function, class or object comes from where the learner cannot have written it, or ""."""
    home = getattr(answer, "__objclass__", answer)  # torch.Tensor.softmax, say, names no module of its own
    library = (getattr(home, "__module__", None) or type(home).__module__).partition(".")[0]
    known = answer is not None and library in {*sys.stdlib_module_names, "torch", "numpy", "attention_helpers"}
    return {"builtins": "Python"}.get(library, library) if known else ""


def interrupted(error, answer, said):
    """An interrupt, to be shown in one sentence, and what else is to be said. It still ends a run of all cells."""
    line = last_line(error, unwrapped(answer))
    where = f": your code was in {line}." if line else "."
    error.args = (" ".join([f"The check was interrupted{where}", *said]),)
    error._render_traceback_ = lambda: [f"{type(error).__name__}: {error}"]  # what IPython shows for a traceback
    return error.with_traceback(None)

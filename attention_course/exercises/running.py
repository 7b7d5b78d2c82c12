"""Run an answer on the cases: what each call returns or raises, and what it does to its arguments."""

import io
from contextlib import nullcontext, redirect_stdout
from typing import Any, NamedTuple

import torch

from attention_helpers.seeded import undisturbed

from ..any_layer.lines import error_line, first_line


class Outcome(NamedTuple):
    """What one call left: its value or its error, and its arguments before and after."""

    value: Any
    error: Exception | None
    before: tuple
    after: tuple


class Interrupted(KeyboardInterrupt):
    """The learner stopped a check. IPython shows what this says, and no traceback through the library."""

    def _render_traceback_(self):
        return [str(self)]


def run(call, answer, fresh, cases):
    """The outcome of call(answer, *case) for each case. fresh: the same cases, which no call has touched.

    Each call draws from the same seed, and only the first one's prints show. Errors: none, except KeyboardInterrupt.
    """
    outcomes = []
    for before, case in zip(fresh, cases, strict=True):
        value = error = None
        with undisturbed(None), redirect_stdout(io.StringIO()) if outcomes else nullcontext():
            torch.default_generator.manual_seed(0)
            try:
                value = call(answer, *case)
            except Exception as raised:
                error = raised
        outcomes.append(Outcome(value, error, before, case))
    return outcomes


def own_line(error):
    """An error in one sentence, with the last line of the learner's own code that it passed through."""
    if isinstance(error, SyntaxError) and error.text:
        return f"Python cannot read line {error.lineno}, `{error.text.strip()}`: {error.msg}."
    line, said = error_line(error), ": ".join(filter(None, [f"`{type(error).__name__}`", first_line(error)]))
    if not line:
        return f"The call failed, though not in a line of yours: {said}."
    return f"Your code stopped in {line}, with {said}."

"""Which line of the learner's code called an operation, or failed?"""

import linecache
import re
import sys
import traceback

HINTS = {  # what to add to an error's message
    r"before Module.__init__|no attribute '(training|_modules|_parameters|_buffers|\w+_hooks)'": (
        "begin `__init__` with `super().__init__()`"
    ),
    "NoneType": "None is what a method without `return` returns",
}
NOT_THEIRS = {"attention_course", "attention_helpers", "torch", "numpy"} | sys.stdlib_module_names  # not __main__


def own_line(frame, number):
    """A line of the learner's code as "line 12, `scores = queries @ keys`"; "" for anybody else's."""
    if frame.f_globals.get("__name__", "").partition(".")[0] in NOT_THEIRS:
        return ""
    return f"line {number}, `{linecache.getline(frame.f_code.co_filename, number).strip()}`"


def calling_line(frame, until):
    """The learner's line from which `frame` was called, below the call of `until`; "" if only others' code did."""
    line = ""
    while not line and frame and frame.f_code is not until.__code__:
        line, frame = own_line(frame, frame.f_lineno), frame.f_back
    return line


def error_line(error):
    """The learner's last line that an error passed through, or ""."""
    lines = (own_line(*each) for each in traceback.walk_tb(error.__traceback__))
    return ["", *filter(None, lines)][-1]


def first_line(error):
    """The first line of an error's message, and what it may need."""
    said = (str(error).strip().splitlines() or [""])[0]
    return ": ".join([said.rstrip("."), *(hint for pattern, hint in HINTS.items() if re.search(pattern, said))])


def failure(error):
    """An error in the learner's code as "line 12, `q @ k`: RuntimeError: ...", with the first line of its message."""
    return ": ".join(filter(None, [error_line(error), type(error).__name__, first_line(error)]))

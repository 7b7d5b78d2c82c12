"""What an answer was seen to do: what torch made in which line, and which of its arguments it never reads."""

import dis
import inspect
import sys
import weakref
from contextlib import contextmanager
from types import CodeType

import torch
from torch.overrides import TorchFunctionMode

from .compare import close, difference, leaves
from .source import calling_line

MOST, LARGEST = 3000, 100_000  # tensors that are kept, and their entries


class Watch(TorchFunctionMode):
    """Keeps a copy of each tensor that torch makes meanwhile, in `made`, with the learner's line that asked for it.

    until: the function that runs the learner's code.
    """

    def __init__(self, until):
        super().__init__()
        self.until = until
        self.made = []
        self.references = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        made = args[:1] if function is torch.Tensor.__setitem__ else result
        for tensor in made if isinstance(made, (tuple, list)) else [made]:
            if isinstance(tensor, torch.Tensor) and tensor.numel() <= LARGEST and len(self.made) < MOST:
                self.made.append((tensor.detach().clone(), calling_line(sys._getframe(1), self.until)))
                self.references.append(weakref.ref(tensor))
        return result

    def alive(self):
        """How many numbers are in the tensors that somebody still keeps."""
        kept = {id(tensor): tensor.numel() for tensor in (each() for each in self.references) if tensor is not None}
        return sum(kept.values())


@contextmanager
def own_variables(solution):
    """A dictionary that holds what the solution's variables held when it returned."""
    codes = {function.__code__ for function in functions_in(solution)}
    variables, before = {}, sys.getprofile()

    def look(frame, event, _):
        if event == "return" and frame.f_code in codes:
            variables.update(frame.f_locals)

    sys.setprofile(look)
    try:
        yield variables
    finally:
        sys.setprofile(before)


def functions_in(thing):
    """A function, or a class's methods."""
    parts = vars(thing).values() if inspect.isclass(thing) else [thing]
    return [part for part in parts if inspect.isfunction(part)]


def names_read(code, kind):
    """The variables of a kind, FAST or GLOBAL, that a function's code reads."""
    loaded = [each.argval for each in dis.get_instructions(code) if each.opname.startswith(f"LOAD_{kind}")]
    return [name for each in loaded for name in (each if isinstance(each, tuple) else (each,))]


def never_read(answer):
    """The arguments that nothing in a function, or in a class's method, reads."""
    names = []
    for code in (function.__code__ for function in functions_in(answer)):
        read = {*names_read(code, "FAST"), *code.co_cellvars, "self", "_"}
        names += [name for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if name not in read]
    return names


def page_variables(answer):
    """The notebook's tensors and whole numbers that a function or class reads, by name."""
    names = {}
    for function in functions_in(answer):
        codes = [function.__code__]
        for code in codes:  # the list grows
            codes += [part for part in code.co_consts if isinstance(part, CodeType)]
            names |= {name: function.__globals__.get(name) for name in names_read(code, "GLOBAL")}
    return {name: value for name, value in names.items() if isinstance(value, (torch.Tensor, int))}


def unused(answer, solution):
    """What an answer doesn't read of its arguments and reads of the notebook instead, as two sentences, each or ""."""
    idle, found = never_read(answer), page_variables(answer)
    of_page = [name for name, value in found.items() if idle or isinstance(value, torch.Tensor)]
    unread = f"Your code never reads {these(idle)}." if idle and not never_read(solution) else ""
    start = "Instead, it" if unread else "Your code"
    return unread, f"{start} reads the notebook's own {these(of_page)}, whatever the arguments are." if of_page else ""


def these(names):
    """Names in words: `a`, `b` and `c`."""
    quoted = [f"`{name}`" for name in names]
    return " and ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))


def steps(hints, given, expected, tolerance):
    """How far an answer is right, in a sentence or "", and the name of the hint for what comes next.

    A step is a variable of the solution, or a part of the result. It's right if, on every input, the part is right, or
    one of the tensors that torch made has its numbers.
    """
    parts = [name for outcome in expected if isinstance(outcome.value, dict) for name in outcome.value]
    lines = {name: line_of(name, given, expected, tolerance) for name in names_of_steps(hints, expected, parts)}
    right = [name for name, line in lines.items() if line is not False]
    last = max((place for place, name in enumerate(lines) if name in right and name not in parts), default=-1)
    after = next((name for name in [*lines][last + 1 :] if name not in right and name in hints), "result")
    if right and right[-1] in parts:
        return f"{these(right)} {'are' if len(right) > 1 else 'is'} right.", after
    if right:
        named = right[-1:] if right == [*lines][: len(right)] else right
        where = f" ({lines[right[-1]]})" if lines[right[-1]] else ""
        return f"Your code is right as far as {these(named)}{where}.", after
    shown = [got.value for got, right in zip(given, expected, strict=True) if got.made and right.error is None]
    if lines and shown and all(isinstance(value, torch.Tensor) for value in shown):
        return f"Nothing that your code computes equals our `{after}`.", after
    return "", after if shown and all(isinstance(value, dict) for value in shown) else ""


def names_of_steps(hints, expected, parts):
    """The solution's variables that a hint is about, but for its arguments and its result, and the result's parts."""
    names = {}
    for outcome in expected:
        known = [*leaves(outcome.before), *([] if parts else leaves(outcome.value))]
        for name in hints:
            held = [*leaves(outcome.variables.get(name))]
            if held and not any(close(held[0], each, 1e-9) for each in known):
                names[name] = None
    return [*(names | dict.fromkeys(parts))]


def line_of(step, given, expected, tolerance):
    """The learner's line that computes a step, "" if that's unknown, or False if none does."""
    found = ""
    for got, right in zip(given, expected, strict=True):
        if isinstance(right.value, dict) and step in right.value and isinstance(got.value, dict):
            lines = [] if difference(right.value[step], got.value[step], tolerance) else [""]
        else:
            wanted = [*leaves(right.variables.get(step))]
            lines = [""] if wanted or right.error else []
            for ours in wanted:
                lines = lines and [line for tensor, line in got.made if holds(tensor, ours, tolerance)]
        if not lines:
            return False
        found = found or lines[0]
    return found


def holds(tensor, step, tolerance):
    """Whether a tensor has a step's numbers, perhaps transposed."""
    turned = [step, step.mT] if step.dim() > 1 else [step]
    return tensor.numel() == step.numel() and any(close(each.flatten(), tensor.flatten(), tolerance) for each in turned)


def origin(given, expected):
    """The line that made the first NaN or inf, if the result has NaN; or what's done with torch's seed: a sentence."""
    for got, right in zip(given, expected, strict=True):
        if has_nan(got.value) and not has_nan(right.value):
            for tensor, line in got.made:
                if line and (tensor.isnan() | (tensor == torch.inf)).any():
                    return f"The first {'NaN' if tensor.isnan().any() else 'inf'} comes from {line}."
    own, ours = ({after for before, after in (o.seeds for o in some) if after != before} for some in (given, expected))
    if own == ours:
        return ""
    return f"Your code sets torch's seed to {min(own)}, whatever it was before." if own else "Your code sets no seed."


def has_nan(value):
    return any(leaf.isnan().any() for leaf in leaves(value))

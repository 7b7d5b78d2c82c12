"""Say in words how an answer differs from what was expected, coarse before fine: kind, shape, dtype, NaN, values."""

import math
from numbers import Number

import torch


def difference(expected, got, tolerance, rows=False, name="the result"):
    """The first difference in one sentence, or "" where there is none within the tolerance.

    Tensors of any shape, numbers, strings, None, and tuples, lists or dictionaries of them. rows: the tensor's rows are
    to sum to 1, and a learner whose rows do not is told so. Errors: none.
    """
    if isinstance(expected, torch.Tensor):
        return tensor_difference(expected, got, tolerance, rows, name)
    if isinstance(expected, dict):
        if not isinstance(got, dict) or expected.keys() != got.keys():
            return sentence(f"{name} should have the names {', '.join(map(str, expected))}.")
        pairs = [(expected[key], got[key], f"{name}'s {key}") for key in expected]
        return first(difference(e, g, tolerance, rows, part) for e, g, part in pairs)
    if isinstance(expected, (tuple, list)):
        if not isinstance(got, (tuple, list)) or len(expected) != len(got):
            return should_be(name, f"{len(expected)} things together", got)
        pairs = [(e, g, f"part {n} of {name}") for n, (e, g) in enumerate(zip(expected, got, strict=True), 1)]
        return first(difference(e, g, tolerance, rows, part) for e, g, part in pairs)
    if isinstance(expected, Number):
        return number_difference(expected, got, tolerance, name)
    if isinstance(expected, (str, type(None))) and type(expected) is type(got):
        return "" if expected == got else sentence(f"{name} should be another than {got!r}.")
    wanted = "None" if expected is None else kind(expected)
    return "" if type(expected) is type(got) else should_be(name, wanted, got)


def first(findings):
    return next((finding for finding in findings if finding), "")


def sentence(text):
    return text[0].upper() + text[1:]


def should_be(name, wanted, got):
    found = "None: is there a `return`?" if got is None else f"{kind(got)}."
    return sentence(f"{name} should be {wanted}, and is {found}")


def kind(thing):
    """A thing's type, as one says it."""
    library = type(thing).__module__.partition(".")[0]
    name = type(thing).__name__ if library in ("builtins", "torch") else f"{library}.{type(thing).__name__}"
    article = "an" if name[0].lower() in "aeiou" else "a"
    return f"{article} {name} of {len(thing)}" if isinstance(thing, (tuple, list)) else f"{article} {name}"


def number_difference(expected, got, tolerance, name):
    if isinstance(got, torch.Tensor) and got.numel() == 1:
        got = got.item()
    if not isinstance(got, Number) or isinstance(got, bool) != isinstance(expected, bool):
        return should_be(name, kind(expected), got)
    if got == expected or (got != got and expected != expected):
        return ""
    close = abs(got - expected) <= tolerance * max(1, abs(expected)) if math.isfinite(got - expected) else False
    if close and not isinstance(expected, int):
        return ""
    shown = got if isinstance(got, (bool, complex)) else f"{got:g}"
    return sentence(f"{name} is {shown}, and should not be.")


def tensor_difference(expected, got, tolerance, rows, name):
    if not isinstance(got, torch.Tensor):
        return should_be(name, "a tensor", got)
    if got.shape != expected.shape:
        return sentence(f"{name} should have the shape {tuple(expected.shape)}, and has {tuple(got.shape)}.")
    if got.dtype != expected.dtype:
        return sentence(f"{name} should be of dtype {expected.dtype}, and is of {got.dtype}.")
    expected, got = expected.detach(), got.detach()
    lost = got.isnan() & ~expected.isnan()
    if lost.any():
        return sentence(f"{name} is NaN at {place(lost)}, where a number belongs.")
    close = torch.isclose(got.double(), expected.double(), rtol=tolerance, atol=tolerance, equal_nan=True)
    if close.all():
        return ""
    total = got.double().sum(dim=-1) if rows and got.dim() else torch.ones(())
    off = (total - 1).abs() > max(tolerance, 1e-4)
    if off.any():
        return sentence(f"the rows of {name} should sum to 1: row {place(off)} sums to {total[off][0].item():.4f}.")
    here = tuple((~close).nonzero()[0].tolist())
    return sentence(
        f"{int((~close).sum())} of {close.numel()} entries of {name} differ, the first at {list(here)}: "
        f"{shown(got[here])} where {shown(expected[here])} belongs."
    )


def place(where):
    return where.nonzero()[0].tolist()


def shown(value):
    return str(value.item()) if value.dtype == torch.bool else f"{value.item():.4g}"


def changed_input(before, after):
    """Which argument was changed in place, a tensor or a list of them, in one sentence, or ""."""
    for number, (old, new) in enumerate(zip(before, after, strict=True), 1):
        if difference(old, new, 0.0):
            return f"Your code changes its argument {number} in place: work on a copy, the caller still needs it."
    return ""

"""Say in words how an answer differs from what was expected, coarse before fine: kind, shape, dtype, NaN, values."""

import cmath
from numbers import Integral, Number, Real

import torch


def difference(expected, got, tolerance, rows=False, name="the result"):
    """The first difference in one sentence, or "" where there is none within the tolerance.

    Tensors of any shape, numbers, strings, None, and tuples, lists or dictionaries of them. rows: the tensor's rows are
    to sum to 1, and a learner whose rows do not is told so. Errors: none, whatever `got` is.
    """
    try:
        return difference_of_kinds(expected, got, tolerance, rows, name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a learner's own class may fail wherever it is looked at
        return sentence(f"{name} cannot be read: {error_in_words(error)}.")


def error_in_words(error):
    """An error's type, and the first line of what it says."""
    lines = message(error).strip().splitlines() or [""]
    return f"`{type(error).__name__}`" + (f": {lines[0].rstrip('.')}" if lines[0] else "")


def message(error):
    """What an error says, or "" where its own `str` fails."""
    try:
        return "".join(str(error))  # not the str itself: that may be of a class of theirs
    except KeyboardInterrupt:
        raise
    except BaseException:
        return ""


def difference_of_kinds(expected, got, tolerance, rows, name):
    """`difference`, which may fail on what a learner made."""
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
    sorts = (Number, bool, Real)  # True is no count, and 3 + 0j no 3
    if any(isinstance(got, sort) != isinstance(expected, sort) for sort in sorts):
        return should_be(name, kind(expected), got)
    if got == expected or (got != got and expected != expected):
        return ""
    count = isinstance(expected, Integral)  # must be right to the last digit
    if not count and cmath.isfinite(got - expected) and abs(got - expected) <= tolerance * max(1, abs(expected)):
        return ""
    return sentence(f"{name} is {written(got, whole=count)}, and should not be.")


def written(number, whole=False):
    """A number in few digits; a count in all of its own, also one that came from a division (whole)."""
    if isinstance(number, bool):
        return str(number)
    counts = isinstance(number, Integral) or (whole and float(number).is_integer())
    if counts and abs(number) < 1e20:
        return str(int(number))
    return f"{complex(number) if not isinstance(number, Real) else float(number):g}"


def tensor_difference(expected, got, tolerance, rows, name):
    if not isinstance(got, torch.Tensor):
        return should_be(name, "a tensor", got)
    if (got.layout, got.is_nested) != (expected.layout, expected.is_nested):
        found = "nested" if got.is_nested else f"of the layout {got.layout}"
        return sentence(f"{name} should be an ordinary tensor, and is {found}.")
    if got.shape != expected.shape:
        return sentence(f"{name} should have the shape {tuple(expected.shape)}, and has {tuple(got.shape)}.")
    if got.dtype != expected.dtype:
        return sentence(f"{name} should be of dtype {expected.dtype}, and is of {got.dtype}.")
    if got.device != expected.device:
        return sentence(f"{name} should be on the device {expected.device}, and is on {got.device}.")
    expected, got = expected.detach(), got.detach()
    lost = got.isnan() & ~expected.isnan()
    if lost.any():
        return sentence(f"{name} is NaN{at(lost)}, where a number belongs.")
    wide = torch.complex128 if got.is_complex() else torch.float64
    close = torch.isclose(got.to(wide), expected.to(wide), rtol=tolerance, atol=tolerance, equal_nan=True)
    if close.all():
        return ""
    if rows and got.dim() and not got.is_complex():
        total = got.double().sum(dim=-1)
        off = (total - 1).abs() > max(tolerance, 1e-4)
        if off.any():
            return rows_in_words(total, off, name)
    here = tuple((~close).nonzero()[0].tolist())
    differ = f"{int((~close).sum())} of {close.numel()} entries of {name} differ, the first{at(~close)}: "
    differ = differ if here else f"{name} differs: "
    return sentence(f"{differ}{shown(got[here])} where {shown(expected[here])} belongs.")


def rows_in_words(total, off, name):
    """Which row sums to what; a result of one dimension is one row, and has no number."""
    first_sum = f"{total[off][0].item():.4f}"
    if not total.dim():
        return sentence(f"{name} should sum to 1, and sums to {first_sum}.")
    return sentence(f"the rows of {name} should sum to 1: row {place(off)} sums to {first_sum}.")


def at(where):
    """Where the first True is, in words; nothing for a tensor of no dimension, which has one place."""
    return f" at {place(where)}" if where.dim() else ""


def place(where):
    return where.nonzero()[0].tolist()


def shown(value):
    inexact = value.is_floating_point() or value.is_complex()
    return f"{value.item():.4g}" if inexact else str(value.item())


def changed_input(names, before, after):
    """Which argument was changed in place, a tensor or a list of them, in one sentence, or ""."""
    for name, old, new in zip(names, before, after, strict=True):
        if difference(old, new, 0.0):
            return f"Your code changes its argument `{name}` in place: work on a copy, the caller still needs it."
    return ""

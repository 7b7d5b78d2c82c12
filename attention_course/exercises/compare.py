"""Say in words how an outcome differs from what was expected, coarse before fine: error, kind, shape, dtype, values."""

import math
from numbers import Integral, Number, Real

import torch

from .source import error_line

CHANGES = "Your code changes an argument in place: work on a copy, the caller still needs it."
CLEAR = (
    CHANGES,
    "This call should raise",
    "The ValueError is right",
    "The result should be a",
)  # what needs no more words


def find_fault(expected, got, tolerance):
    """What's wrong with an outcome of a call, in one sentence, or ""."""
    if expected.error is not None:
        return find_error_fault(type(expected.error), got.error)
    if got.error is not None:
        return name_line(got.error)
    changed = difference(got.before, got.after, 0.0)
    if changed and not difference(expected.before, expected.after, 0.0):
        return CHANGES
    found = difference(expected.value, got.value, tolerance)
    return got.fault or found[:1].upper() + found[1:]


def find_error_fault(expected, got):
    """What's wrong with an answer's error, or with None, where one of the type `expected` is asked for."""
    if got is None:
        return f"This call should raise a {expected.__name__}, but it returned something."
    if not isinstance(got, expected):
        return f"This isn't the {expected.__name__} that the exercise asks for: {name_line(got)}"
    return "" if str(got) else f"The {expected.__name__} is right, but its message is empty. Let it say what's wrong."


def name_line(error):
    """An error with its message, and the last line of the learner's own code that it passed through."""
    line = error_line(error)
    said = ": ".join(filter(None, [f"`{type(error).__name__}`", " ".join(str(error).split()).rstrip(".")]))
    return f"Your code stopped in {line}, with {said}." if line else f"The call failed, not in a line of yours: {said}."


def is_evidence(given, expected, tolerance):
    """Whether outcomes hold numbers that aren't the right ones, and that aren't all alike.

    Only they tell one mistake from another. Yes or no, a shape, an error, NaN, and the same number everywhere don't.
    """
    single = set()
    for got, right in zip(given, expected, strict=True):
        if got.error is None and right.error is None:
            yours, ours = ([*leaves(each.value)] for each in (got, right))
            for n, own in enumerate(yours):
                other = ours[n] if n < len(ours) and ours[n].shape == own.shape else None
                numbers = own[own.isfinite()]
                if other is not None and close(numbers, other[own.isfinite()], tolerance):
                    continue
                if len(numbers.unique()) > 1:
                    return True
                single.update(numbers.tolist()[:1] if own.dtype != torch.bool else [])
    return len(single) > 1


def leaves(value):
    """The tensors in a value, and its numbers as tensors."""
    if isinstance(value, torch.Tensor):
        yield value.detach()
    elif isinstance(value, Number):
        yield torch.tensor(value)
    elif isinstance(value, (tuple, list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from leaves(part)


def same_outcomes(ones, others, expected, tolerance):
    """Whether each of two lists of outcomes has the same values, errors and arguments afterwards.

    expected: the solution's outcomes. If one is an error, an error of its kind is the same in whichever words.
    """
    return all(same_outcome(*three, tolerance) for three in zip(ones, others, expected, strict=True))


def same_outcome(one, other, expected, tolerance):
    if one.error is None and other.error is None:
        return one.fault == other.fault and not difference(
            (one.value, one.after), (other.value, other.after), tolerance
        )
    as_asked = expected.error is not None and isinstance(one.error, type(expected.error))
    return type(one.error) is type(other.error) and (as_asked or str(one.error) == str(other.error))


def difference(expected, got, tolerance, name="the result"):
    """The first difference in one sentence, still without a capital, or "" if there is none within the tolerance.

    Tensors, numbers, strings, None, and tuples, lists or dictionaries of them, as an exercise's `call` makes them; of
    anything else, only the type counts.
    """
    if isinstance(expected, torch.Tensor):
        return tensor_difference(expected, got, tolerance, name)
    if isinstance(expected, dict):
        if not isinstance(got, dict):
            return should_be(name, f"{len(expected)} things ({', '.join(expected)})", got)
        found = (difference(part, got[key], tolerance, f"`{key}`") for key, part in expected.items())
        return next(filter(None, found), "")
    if isinstance(expected, (tuple, list)):
        if not isinstance(got, (tuple, list)) or len(expected) != len(got):
            return should_be(name, f"{len(expected)} things together", got)
        pairs = enumerate(zip(expected, got, strict=True), 1)
        return next(filter(None, (difference(*pair, tolerance, f"part {n} of {name}") for n, pair in pairs)), "")
    if isinstance(expected, Number):
        return number_difference(expected, got, tolerance, name)
    if type(expected) is not type(got):
        return should_be(name, "None" if expected is None else kind(expected), got)
    return yours_and_ours(f"{name} is", got, expected) if isinstance(expected, str) and expected != got else ""


def tensor_difference(expected, got, tolerance, name):
    if not isinstance(got, torch.Tensor):
        return should_be(name, "a tensor", got)
    if got.shape != expected.shape:
        return f"{name} should have the shape {tuple(expected.shape)}, and has {tuple(got.shape)}."
    if got.dtype != expected.dtype:
        return f"{name} should be of dtype {expected.dtype}, and is of {got.dtype}."
    lost = got.isnan() & ~expected.isnan()
    if lost.any():
        ours = in_digits(expected[lost][0].item(), 4)
        return f"{name} is NaN at {lost.nonzero()[0].tolist()}, where ours is {ours}."
    far = ~torch.isclose(got.double(), expected.double(), rtol=tolerance, atol=tolerance, equal_nan=True)
    if not far.any():
        return ""
    many = f"{int(far.sum())} of {far.numel()} entries of {name} differ. At {far.nonzero()[0].tolist()}, yours is"
    return yours_and_ours(many if far.dim() else f"{name} is", got[far][0].item(), expected[far][0].item())


def number_difference(expected, got, tolerance, name):
    if isinstance(got, torch.Tensor) and got.numel() == 1:
        got = got.item()
    if not isinstance(got, Real) or isinstance(got, bool) != isinstance(expected, bool):  # True isn't a count
        return should_be(name, kind(expected), got)
    tolerance = 0 if isinstance(expected, Integral) else tolerance  # a count must be right to the last digit
    same = math.isclose(got, expected, rel_tol=tolerance, abs_tol=tolerance)
    return "" if same else yours_and_ours(f"{name} is", got, expected)


def yours_and_ours(start, got, expected):
    """A sentence with both, in as many digits as it takes to tell them apart."""
    pairs = [(in_digits(got, digits), in_digits(expected, digits)) for digits in (4, 10, 17)]
    yours, ours = next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])
    return f"{start} {yours}, and ours is {ours}."


def in_digits(value, digits):
    if not isinstance(value, float):
        return repr(value)
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e9 else f"{value:.{digits}g}"


def should_be(name, wanted, got):
    found = "None: did you forget the `return`?" if got is None else f"{kind(got)}."
    return f"{name} should be {wanted}, but is {found}"


def kind(thing):
    """A thing's type, as people say it."""
    library, name = type(thing).__module__.partition(".")[0], type(thing).__name__
    name = f"numpy.{name}" if library == "numpy" else name
    size = f" of {len(thing)}" if isinstance(thing, (tuple, list)) else ""
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}{size}"


def close(one, other, tolerance):
    """Whether two tensors have the same shape and, within a tolerance, the same numbers."""
    pair = [each.detach().double() for each in (one, other) if not each.is_complex()]
    return one.shape == other.shape and len(pair) == 2 and torch.allclose(*pair, tolerance, tolerance, equal_nan=True)

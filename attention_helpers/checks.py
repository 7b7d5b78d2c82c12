"""Checks of what torch doesn't say, or doesn't say clearly. Each error names the argument, its value and the rule."""

import math
from numbers import Integral, Real

import torch


def check_size(name, value, minimum=1):
    """Return `value`. TypeError if it isn't a whole number, ValueError if it's below `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value}")
    return value


def check_finite(name, value):
    """Return `value` as a float. TypeError if it isn't a real number, ValueError if it isn't finite."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return float(value)


def check_tensor(name, value, ranks=None, layout="(..., num_tokens, d_in)"):
    """TypeError unless `value` is a floating-point tensor, ValueError unless its rank is one of `ranks`.

    ranks: without it, any rank from 2. layout: the shape that the error asks for.
    """
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(value).__name__}")
    if not value.is_floating_point():
        raise TypeError(f"{name} must hold floating-point numbers, got {value.dtype}")
    if value.ndim < 2 if ranks is None else value.ndim not in ranks:
        raise ValueError(f"{name} must have the shape {layout}, got {tuple(value.shape)}")

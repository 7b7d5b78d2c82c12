"""Whose numbers are these? Find the step, the seed and the mistake that they come from."""

from .answer import whose

__all__ = ["whose"]

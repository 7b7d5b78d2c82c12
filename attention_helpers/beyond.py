"""Where older notebooks look for parts that are called differently now."""

from ._older import OlderNotebook


def __getattr__(name):
    raise OlderNotebook

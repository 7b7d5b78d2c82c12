"""The playground: attention that learns while you watch, and fails where it must."""

from .door import Playground

__all__ = ["Playground"]

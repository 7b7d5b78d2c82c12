"""The playground: attention that learns while you watch, and fails where it must."""

from .explorer import Playground

__all__ = ["Playground"]

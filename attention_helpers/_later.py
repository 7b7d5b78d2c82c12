"""Packages whose names are imported when they're first used, because torch takes seconds and a first picture shouldn't.

This is PEP 562 the way SPEC 1 of the scientific Python projects has it: the imports are written in `__init__.pyi`,
where editors read them, and nowhere else.
"""

import ast
import sys
from importlib import import_module
from pathlib import Path


def on_first_use(package, file):
    """The __all__, __getattr__ and __dir__ of a package; file: its __init__.py, next to which is its __init__.pyi."""
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    home_of = {alias.name: part.module for part in stub.body for alias in part.names}

    def get(name):
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{home_of[name]}"), name)
        setattr(sys.modules[package], name, value)  # so that the next use doesn't come here
        return value

    return sorted(home_of), get, lambda: sorted({*vars(sys.modules[package]), *home_of})

"""Copies of the checkout, on which tests let the tools loose; and what a test needs of the machine."""

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ["requirements.txt", "requirements-dev.txt", "requirements-model.txt"]
REQUIREMENTS += ["docs/requirements.txt", "classroom/requirements.txt"]
FILES = ["Makefile", *REQUIREMENTS, "constraints.txt", "pyproject.toml"]
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed here")
needs_posix_shell = pytest.mark.skipif(os.name == "nt", reason="Windows does not run a shell script as a program")


def copy_of_checkout(folder):
    """Copy what the set-up needs; the folder's name is one that careless quoting and globbing trip over."""
    checkout = folder / "a course [1]"
    shutil.copytree(ROOT / "tools", checkout / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    for name in [*FILES, "notebooks/course.toml"]:
        (checkout / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, checkout / name)
    return checkout


def outside_make(**more):
    """The environment without what the make that runs the tests would pass on to one that a test starts."""
    own = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "ARGS", "PORT", "PYTHON", "NOTEBOOK", "TORCH"}
    return {name: value for name, value in os.environ.items() if name not in own} | more


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def load(checkout, name):
    """Import a tool from the copied checkout, which is thereby the folder that it works on."""
    spec = importlib.util.spec_from_file_location(Path(name).name, checkout / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

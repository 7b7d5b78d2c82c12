"""The Makefile, what CI runs, and the pins."""

import re
import subprocess

import pytest
from checkouts import REQUIREMENTS, ROOT, copy_of_checkout, outside_make, program
from needs import needs_make, needs_posix_shell


def pins(name):
    return set(re.findall(r"^[\w.-]+==[\w.]+", (ROOT / name).read_text(encoding="utf-8"), flags=re.M))


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_a_pin_changed_by_hand_is_in_the_constraints_too(name):
    assert pins(name) <= pins("constraints.txt"), "make upgrade ARGS=--no-upgrade brings it in"


def make(checkout, *arguments, **more):
    return subprocess.run(["make", *arguments], cwd=checkout, env=outside_make(**more), capture_output=True, text=True)


@pytest.fixture
def checkout(tmp_path):
    return copy_of_checkout(tmp_path)


@needs_make
def test_make_without_python_says_how_to_name_one(checkout):
    result = make(checkout, "lab", "PYTHON=no-such-python")
    assert result.returncode != 0
    assert "make lab PYTHON=" in result.stderr


@needs_make
@needs_posix_shell
def test_a_users_python_path_reaches_neither_python(checkout):
    python = program(checkout / "python", '#!/bin/sh\necho "path: $PYTHONPATH."\n')
    said = make(checkout, "reset", f"PYTHON='{python}'", "BIN='$(CURDIR)'", PYTHONPATH="/my/packages").stdout
    assert set(said.splitlines()) == {"path: ."}

"""What an import costs, and whether every public name is there."""

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import attention_helpers

PACKAGE = Path(attention_helpers.__file__).parent
MODULES = {
    path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", "."): path for path in PACKAGE.rglob("*.py")
}
# One process for all that needs a fresh one: Python and torch take a second and a half to start.
FRESH = """
import json, sys
import torch
before = set(sys.modules)
import attention_helpers
found = {"added": sorted(set(sys.modules) - before), "modules": sorted(sys.modules)}
from attention_helpers.seeded import seeded
seeded(attention_helpers.CausalAttention, 123, 3, 2, 6, 0.0)
print(json.dumps(found | {"with a layer": sorted(sys.modules)}))
"""
# Started as soon as this file is read: it then runs beside other tests, on another core.
PROCESS = subprocess.Popen([sys.executable, "-c", FRESH], stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def fresh():
    """Which modules a fresh process has, and which of them the package brought."""
    out, _ = PROCESS.communicate(timeout=100)
    return json.loads(out)


def test_import_loads_nothing_heavy(fresh):
    heavy = {"matplotlib", "ipywidgets", "IPython", "PIL", "pandas", "scipy", "nbformat", "jupyter_core"}
    assert heavy & {name.partition(".")[0] for name in fresh["modules"]} == set()


def test_an_explorers_layer_does_not_load_torch_a_second_time_by_its_meta_device(fresh):
    assert {"sympy", "torch._dynamo"} & set(fresh["with a layer"]) == set()


def test_import_adds_only_the_package_and_little_of_the_standard_library(fresh):
    tops = {name.partition(".")[0] for name in fresh["added"]}
    assert tops - {"attention_helpers"} <= sys.stdlib_module_names
    loaded = {name.split(".")[1] for name in fresh["added"] if name.startswith("attention_helpers.")}
    assert not loaded & {"plots", "explorers", "exercises", "training", "fast", "modern", "language_model", "any_layer"}


def test_no_check_is_an_assert_which_optimised_python_would_drop():
    for name, path in MODULES.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        asserts = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)]
        assert len(asserts) == (name == "exercises.lesson_06"), name  # there, in a class for learners to mend


def test_all_is_sorted_and_whole():
    names = attention_helpers.__all__
    assert len(names) == len(set(names))
    public_names = {n for n, thing in vars(attention_helpers).items() if n[0] != "_" and not inspect.ismodule(thing)}
    assert set(names) == public_names

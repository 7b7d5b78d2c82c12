"""Who may know whom, what an import costs, and whether every public name is there and tells what it does."""

import ast
import importlib.util
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import attention_helpers

PACKAGE = Path(attention_helpers.__file__).parent
MODULES = {
    path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", "."): path for path in PACKAGE.rglob("*.py")
}
FOLDERS = {"beyond", "explorers", "exercises"}
# One process for all that needs a fresh one: Python and torch take a second and a half to start.
FRESH = """
import json, sys
import torch
before = set(sys.modules)
import attention_helpers
found = {"added": sorted(set(sys.modules) - before), "modules": sorted(sys.modules)}
from attention_helpers.explorers.seeded import seeded
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
    assert "ipywidgets" in fresh["with a layer"]
    assert {"sympy", "torch._dynamo"} & set(fresh["with a layer"]) == set()


def test_import_adds_only_the_package_and_little_of_the_standard_library(fresh):
    tops = {name.partition(".")[0] for name in fresh["added"]}
    assert tops - {"attention_helpers"} <= sys.stdlib_module_names
    rooms = {name for name in fresh["added"] if name.startswith("attention_helpers.")}
    assert not [name for name in rooms if name.split(".")[1] in (*FIGURES, *FOLDERS)]


def test_no_check_is_an_assert_which_optimised_python_would_drop():
    for name, path in MODULES.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        asserts = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)]
        assert len(asserts) == (name == "exercises.lesson_06.classes"), name  # there, in a class for learners to mend


def imports(path):
    """The modules that a file imports, anywhere in it; those of the package as attention_helpers.room."""
    module = ".".join(("attention_helpers", *path.relative_to(PACKAGE).with_suffix("").parts))
    package = module.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found


def rooms(path):
    """The rooms of the package that a file knows; those of beyond/ by their whole name, as beyond.costs."""
    known = {name.removeprefix("attention_helpers.") for name in imports(path)} & {*MODULES, *FOLDERS}
    return {name if name.startswith("beyond.") else name.partition(".")[0] for name in known}


# What each room of the mathematics may know, beside _checks.
MAY_KNOW = {
    "_checks": set(),
    "_data": set(),
    "sentences": {"_data"},
    "source": set(),
    "core": set(),
    "dropout": {"core"},
    "layers": {"core", "dropout"},
    "beyond.efficient": {"core", "dropout", "layers"},
    "probes": {"core", "dropout", "layers"},
    "trace": {"core", "dropout", "layers"},
    "watching": {"trace"},
    "verdicts": {"layers", "probes", "trace", "watching"},
    "beyond.training": {"sentences", "core", "dropout", "layers", "probes", "trace"},
    "beyond.characters": {"_data", "core", "dropout", "layers"},
    "beyond.costs": {"core", "layers", "beyond.efficient"},
    "beyond.variants": {"core"},
    "beyond.modern": {"core", "layers", "beyond.variants"},
    "beyond.model_tokens": set(),
    "beyond.gguf_files": {"beyond.model_tokens"},
    "beyond.model_files": {"beyond.gguf_files"},
    "beyond.real_model": {"beyond.model_files", "beyond.modern"},
    "beyond.head_jobs": set(),
    "plots": set(),
}
FIGURES = {"plots"}


@pytest.mark.parametrize("room", sorted(MAY_KNOW.keys() & MODULES.keys()))
def test_imports_point_one_way(room):
    assert rooms(MODULES[room]) <= MAY_KNOW[room] | {"_checks"}


def test_every_room_has_its_rule():
    """A new room must be given its place."""
    known = {*MAY_KNOW, "__init__", "beyond.__init__"}
    assert {name for name in MODULES if not name.startswith(("explorers.", "exercises."))} <= known


def test_nobody_imports_explorers_but_themselves():
    for name, path in MODULES.items():
        if not name.startswith("explorers"):
            assert "explorers" not in rooms(path), name


def test_figures_know_no_torch_and_the_mathematics_no_figures():
    outside = {name: {i.partition(".")[0] for i in imports(path)} for name, path in MODULES.items()}
    assert not [name for name in FIGURES if "torch" in outside[name]]
    for name in (MAY_KNOW.keys() & outside.keys()) - FIGURES:
        assert not outside[name] & {"matplotlib", "ipywidgets"}, name
    assert not outside["core"] & {"IPython"}


def public(kind):
    names = {name: getattr(attention_helpers, name) for name in attention_helpers.__all__}
    return [pytest.param(thing, id=name) for name, thing in names.items() if kind(thing)]


def is_result(thing):
    """A class of results, which is handed out and not called by a learner."""
    return inspect.isclass(thing) and (issubclass(thing, tuple) or thing.__name__ == "Trace")


def test_all_is_sorted_and_whole():
    names = attention_helpers.__all__
    assert len(names) == len(set(names))
    public_names = {n for n, thing in vars(attention_helpers).items() if n[0] != "_" and not inspect.ismodule(thing)}
    assert set(names) == public_names


OWN = {"show_source", "trace", "influence", "find_leak", "max_difference"}  # no publication describes them


@pytest.mark.parametrize("thing", public(lambda thing: not is_result(thing)))
def test_docstring_tells_shapes_errors_and_source(thing):
    text = inspect.getdoc(thing) or ""
    if "as in SelfAttention_v1" in text:
        text += inspect.getdoc(attention_helpers.SelfAttention_v1)
    assert re.search(r"\bErrors: ", text)
    assert re.search(r"[Ss]hape|\([a-z_., ]*num_\w+", text) or thing.__name__ == "show_source"  # it takes no tensor
    assert "Source" in text or thing.__name__ in OWN


@pytest.mark.parametrize("thing", public(is_result))
def test_results_have_a_docstring(thing):
    assert len(inspect.getdoc(thing) or "") > 40
    assert not (inspect.getdoc(thing) or "").startswith(f"{thing.__name__}(")  # namedtuple's own

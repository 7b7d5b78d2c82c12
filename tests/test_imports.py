"""What an import costs, and whether every public name is there. `make lint` looks at who imports whom."""

import inspect
import json
import subprocess
import sys
from importlib import import_module

import pytest

import attention_helpers
from attention_course import explorers

FRESH = """
import json, sys
import attention_course.explorers.playground
first = sorted(sys.modules)
import torch
before = set(sys.modules)
from attention_helpers import *
added = sorted(set(sys.modules) - before)
from attention_helpers.seeded import seeded
from attention_helpers.training.lookup import LookupModel, LookupTask
from attention_helpers.training.loop import Training
task = LookupTask(batch_size=2)
Training(seeded(LookupModel, 123, task), task, keep=False).take_step()
print(json.dumps({"first": first, "added": added, "with a training": sorted(sys.modules)}))
"""


@pytest.fixture(scope="module")
def fresh():
    """Which modules a fresh process has: at first, added by the package, and after a step of training."""
    process = subprocess.run([sys.executable, "-c", FRESH], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(process.stdout)


def test_the_playground_is_shown_before_anything_heavy_is_loaded(fresh):
    assert {"torch", "numpy", "matplotlib"} & set(fresh["first"]) == set()


def test_import_adds_only_the_package_and_little_of_the_standard_library(fresh):
    tops = {name.partition(".")[0] for name in fresh["added"]}
    assert tops - {"attention_helpers"} <= sys.stdlib_module_names
    loaded = {name.split(".")[1] for name in fresh["added"] if name.startswith("attention_helpers.")}
    assert not loaded & {"plots", "training", "fast", "modern", "language_model", "parallel"}


def test_neither_a_seeded_layer_nor_a_training_loads_torchs_compiler(fresh):
    """It takes as long as torch itself, and makes an explorer or a playground wait."""
    assert {"sympy", "torch._dynamo"} & set(fresh["with a training"]) == set()


@pytest.mark.parametrize("package", [attention_helpers, explorers])
def test_every_public_name_is_there_and_no_other(package):
    assert len(set(package.__all__)) == len(package.__all__) > 10
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        thing = getattr(package, name)
        home = package.__name__.partition(".")[0]
        assert (thing.__name__, thing.__module__.partition(".")[0]) == (name, home)
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'no_such_name'"):
        package.no_such_name  # noqa: B018


def test_a_name_stays_itself_once_other_modules_are_imported():
    assert inspect.isfunction(attention_helpers.trace)
    import_module("attention_course.any_layer")
    assert inspect.isfunction(attention_helpers.trace)

"""What an import costs, and whether every public name is there. `make lint` looks at who imports whom."""

import inspect
import json
import subprocess
import sys

import pytest

import attention_helpers

FRESH = """
import json, sys
import torch
before = set(sys.modules)
import attention_helpers
added = sorted(set(sys.modules) - before)
from attention_helpers.seeded import seeded
from attention_helpers.training.lookup import LookupModel, LookupTask
from attention_helpers.training.loop import Training
task = LookupTask(batch_size=2)
Training(seeded(LookupModel, 123, task), task, keep=False).take_step()
print(json.dumps({"added": added, "with a training": sorted(sys.modules)}))
"""


@pytest.fixture(scope="module")
def fresh():
    """Which modules the package brought to a fresh process, and which the process has after a step of training."""
    process = subprocess.run([sys.executable, "-c", FRESH], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(process.stdout)


def test_import_adds_only_the_package_and_little_of_the_standard_library(fresh):
    tops = {name.partition(".")[0] for name in fresh["added"]}
    assert tops - {"attention_helpers"} <= sys.stdlib_module_names
    loaded = {name.split(".")[1] for name in fresh["added"] if name.startswith("attention_helpers.")}
    assert not loaded & {"plots", "explorers", "exercises", "training", "fast", "modern", "language_model", "any_layer"}


def test_neither_a_seeded_layer_nor_a_training_loads_torchs_compiler(fresh):
    """It takes as long as torch itself, and makes an explorer or a playground wait."""
    assert {"sympy", "torch._dynamo"} & set(fresh["with a training"]) == set()


def test_all_names_every_public_name_once():
    names = attention_helpers.__all__
    assert len(names) == len(set(names))
    public_names = {n for n, thing in vars(attention_helpers).items() if n[0] != "_" and not inspect.ismodule(thing)}
    assert set(names) == public_names

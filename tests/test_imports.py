"""What an import costs. `make lint` looks at who imports whom."""

import json
import subprocess
import sys

import pytest

FRESH = """
import json, sys
import torch
before = set(sys.modules)
from attention_helpers import *
added = sorted(set(sys.modules) - before)
from attention_course.explorers import Playground
Playground()
print(json.dumps({"added": added, "with a picture": sorted(sys.modules)}))
"""


@pytest.fixture(scope="module")
def fresh():
    """Which modules a fresh process has: added to torch's by the package, and once a playground is there."""
    process = subprocess.run([sys.executable, "-c", FRESH], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(process.stdout)


def test_import_adds_only_the_package_and_little_of_the_standard_library(fresh):
    tops = {name.partition(".")[0] for name in fresh["added"]}
    assert tops - {"attention_helpers"} <= sys.stdlib_module_names
    loaded = {name.split(".")[1] for name in fresh["added"] if name.startswith("attention_helpers.")}
    assert not loaded & {"plots", "training", "costs", "modern", "language_model", "parallel"}


def test_no_first_picture_waits_for_torchs_compiler(fresh):
    """It takes as long to load as torch itself, and optimizers load it."""
    assert {"sympy", "torch._dynamo"} & set(fresh["with a picture"]) == set()

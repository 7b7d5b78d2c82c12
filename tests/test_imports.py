"""What an import costs. `make lint` looks at who imports whom."""

import subprocess
import sys

FRESH = """
import sys
import torch
before = set(sys.modules)
from attention_helpers import *
print(*set(sys.modules) - before)
from attention_course.explorers import Playground
Playground()
print(*sys.modules)
"""


def test_the_package_adds_little_to_torch_and_a_first_picture_needs_no_compiler():
    """The compiler takes as long to load as torch itself, and optimizers load it."""
    process = subprocess.run([sys.executable, "-c", FRESH], stdout=subprocess.PIPE, text=True, check=True)
    added, with_a_picture = (line.split() for line in process.stdout.splitlines())
    assert {name.partition(".")[0] for name in added} - {"attention_helpers"} <= sys.stdlib_module_names
    heavy = {"training", "costs", "modern", "language_model", "parallel"}
    assert not heavy & {name.split(".")[1] for name in added if name.startswith("attention_helpers.")}
    assert not {"sympy", "torch._dynamo"} & set(with_a_picture)

"""The classes that lessons write out plainly: each needs only torch, and computes what the package's class does."""

import ast
import functools
import inspect
import subprocess
import sys

import pytest
import torch
from course import LESSONS, code_cells, read

from attention_helpers import layers
from attention_helpers.modern.layers import ModernAttention

ROTARY = functools.partial(ModernAttention, num_kv_heads=2)
SIZES = {"d_in": 3, "d_out": 4, "context_length": 6, "dropout": 0.0, "num_heads": 2, "qkv_bias": True}
CODES = [cell.source for path in LESSONS for cell in code_cells(read(path)) if cell.id.startswith("whole-class")]
ALONE = """
import inspect, sys
sys.modules["attention_helpers"] = None  # only torch is at hand
import torch
made = []
for code, name, sizes, x in torch.load(sys.argv[1]):
    names = {}
    exec(code, names)
    torch.manual_seed(123)
    takes = inspect.signature(names[name]).parameters  # no dropout before notebook 04
    layer = names[name](**{each: sizes[each] for each in sizes if each in takes})
    output = layer(x)
    output.square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in layer.named_parameters()}
    made.append([layer.state_dict(), output.detach(), gradients])
torch.save(made, sys.argv[2])
"""


def called(code):
    """The name of a cell's last class, the package's class, the sizes that it takes, and an x."""
    name = [node.name for node in ast.parse(code).body if isinstance(node, ast.ClassDef)][-1]
    ours = ROTARY if name == "RotaryAttention" else getattr(layers, name)
    sizes = {each: SIZES[each] for each in inspect.signature(ours).parameters if each in SIZES}
    x = torch.randn(2, 6, 3) if "num_heads" in sizes or "context_length" in sizes else torch.randn(6, 3)
    return name, ours, sizes, x


@pytest.mark.slow
def test_plain_classes_alone_compute_what_the_packages_classes_do(tmp_path):
    jobs, same = [called(code) for code in CODES], {"rtol": 1e-5, "atol": 1e-6}
    torch.save(
        [(code, name, sizes, x) for code, (name, _, sizes, x) in zip(CODES, jobs, strict=True)], tmp_path / "jobs"
    )
    command = [sys.executable, "-I", "-c", ALONE, tmp_path / "jobs", tmp_path / "made"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for (_, ours, sizes, x), (state, output, gradients) in zip(jobs, torch.load(tmp_path / "made"), strict=True):
        torch.manual_seed(123)
        layer = ours(**sizes)
        layer(x).square().sum().backward()
        assert list(state) == list(layer.state_dict())
        torch.testing.assert_close(state, layer.state_dict(), **same)
        torch.testing.assert_close(output, layer(x).detach(), **same)
        torch.testing.assert_close(gradients, {name: each.grad for name, each in layer.named_parameters()}, **same)

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
CELLS = {path.name[:2]: [c for c in code_cells(read(path)) if c.id.startswith("whole-class")] for path in LESSONS}
CODES = [pytest.param(cell.source, id=f"{number}-{cell.id}") for number, cells in CELLS.items() for cell in cells]
ALONE = """
import sys
sys.modules["attention_helpers"] = None  # only torch is at hand
{code}
torch.manual_seed(123)
layer = {name}(**{sizes})
x = torch.load(sys.argv[1])
output = layer(x)
output.square().sum().backward()
gradients = {{name: parameter.grad for name, parameter in layer.named_parameters()}}
torch.save([layer.state_dict(), output.detach(), gradients], sys.argv[2])
"""


@pytest.mark.slow
@pytest.mark.parametrize("code", CODES)
def test_a_plain_class_alone_computes_what_the_packages_class_does(code, tmp_path):
    name = [node.name for node in ast.parse(code).body if isinstance(node, ast.ClassDef)][-1]
    ours = ROTARY if name == "RotaryAttention" else getattr(layers, name)
    sizes = {each: SIZES[each] for each in inspect.signature(ours).parameters if each in SIZES}
    x = torch.randn(2, 6, 3) if "num_heads" in sizes or "context_length" in sizes else torch.randn(6, 3)
    torch.save(x, tmp_path / "x")
    program = ALONE.format(code=code, name=name, sizes=sizes)
    command = [sys.executable, "-I", "-c", program, tmp_path / "x", tmp_path / "made"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    state, output, gradients = torch.load(tmp_path / "made")
    torch.manual_seed(123)
    layer = ours(**sizes)
    layer(x).square().sum().backward()
    same = {"rtol": 1e-5, "atol": 1e-6}
    assert list(state) == list(layer.state_dict())
    torch.testing.assert_close(state, layer.state_dict(), **same)
    torch.testing.assert_close(output, layer(x).detach(), **same)
    torch.testing.assert_close(gradients, {name: each.grad for name, each in layer.named_parameters()}, **same)

"""The classes that lessons write out plainly: each needs only torch, and computes what the package's class does."""

import ast
import inspect
import subprocess
import sys

import pytest
import torch
from course import LESSONS, code_cells, read

from attention_helpers import layers
from attention_helpers.modern.layers import ModernAttention

SIZES = {"d_in": 3, "d_out": 4, "context_length": 6, "dropout": 0.0, "num_heads": 2, "qkv_bias": True}
SIZES["num_kv_heads"] = 1  # of a class that returns its cache as well
CODES = [cell.source for path in LESSONS for cell in code_cells(read(path)) if cell.id.startswith("whole-class")]
ALONE = """
import sys
sys.modules["attention_helpers"] = None  # only torch is at hand
import torch
made = []
for code, name, sizes, x in torch.load(sys.argv[1]):
    names = {}
    exec(code, names)
    torch.manual_seed(123)
    layer = names[name](**sizes)
    output = layer(x) if "num_kv_heads" not in sizes else layer(x)[0]  # without the cache
    output.square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in layer.named_parameters()}
    made.append([layer.state_dict(), output.detach(), gradients])
torch.save(made, sys.argv[2])
"""


def called(code):
    """The name of a cell's last class, the package's class, the sizes that each of the two takes, and an x."""
    plain = [node for node in ast.parse(code).body if isinstance(node, ast.ClassDef)][-1]
    name, [init, *_] = plain.name, plain.body
    ours = ModernAttention if name == "RotaryAttention" else getattr(layers, name)
    sizes = {each: SIZES[each] for each in inspect.signature(ours).parameters if each in SIZES}
    own = {each.arg: SIZES[each.arg] for each in init.args.args if each.arg in sizes}  # 03's class has no dropout yet
    x = torch.randn(2, 6, 3) if "num_heads" in sizes or "context_length" in sizes else torch.randn(6, 3)
    assert sizes.keys() - own.keys() <= {"dropout"}, name
    return name, ours, own, sizes, x


@pytest.mark.slow
def test_plain_classes_alone_compute_what_the_packages_classes_do(tmp_path):
    jobs, same = [called(code) for code in CODES], {"rtol": 1e-5, "atol": 1e-6}
    torch.save(
        [(code, name, own, x) for code, (name, _, own, _, x) in zip(CODES, jobs, strict=True)], tmp_path / "jobs"
    )
    command = [sys.executable, "-I", "-c", ALONE, tmp_path / "jobs", tmp_path / "made"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for (_, ours, _, sizes, x), (state, output, gradients) in zip(jobs, torch.load(tmp_path / "made"), strict=True):
        torch.manual_seed(123)
        layer = ours(**sizes)
        layer(x).square().sum().backward()
        assert list(state) == list(layer.state_dict())
        torch.testing.assert_close(state, layer.state_dict(), **same)
        torch.testing.assert_close(output, layer(x).detach(), **same)
        torch.testing.assert_close(gradients, {name: each.grad for name, each in layer.named_parameters()}, **same)

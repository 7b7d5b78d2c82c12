"""The ways into the course besides `make lab`."""

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from sysconfig import get_path

import json5
import pytest
from checkouts import ROOT, needs_posix_shell


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


SERVER = """
from jupyter_server.serverapp import ServerApp
server = ServerApp()
server.initialize(["--allow-root", "--port=0", "--no-browser"], find_extensions=False)
print(server.contents_manager.pre_save_hook.__name__)
"""


@pytest.mark.slow  # makes an environment, and a server
@needs_posix_shell
def test_binders_last_step_fills_the_workbook_and_sets_lab_and_its_server_up(tmp_path):
    its, copy = tmp_path / "its", tmp_path / "course"
    venv.create(its, with_pip=False)
    [packages] = its.glob("lib/*/site-packages")
    (packages / "ours.pth").write_text(get_path("purelib"))  # with pip, and with what postBuild installs
    for folder in ("tools", "notebooks", ".binder"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "requirements-model.txt", copy)
    environment = os.environ | {"PATH": f"{its / 'bin'}{os.pathsep}{os.environ['PATH']}", "PIP_NO_INDEX": "1"}
    subprocess.run(["bash", ".binder/postBuild"], cwd=copy, env=environment, check=True)
    assert (copy / "workbook/00_start_here.ipynb").is_file()
    settings = json5.loads((its / "share/jupyter/lab/settings/overrides.json5").read_text())
    assert settings["@jupyterlab/apputils-extension:kernels-settings"]["commsOverSubshells"] == "disabled"
    its_own = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    its_own["JUPYTER_CONFIG_PATH"] = str(its / "etc/jupyter")
    command = [sys.executable, "-c", SERVER]
    server = subprocess.run(command, cwd=tmp_path, env=os.environ | its_own, capture_output=True, text=True)
    assert server.stdout.split() == ["drop_dead_views"], server.stderr


@pytest.mark.slow  # builds a wheel, and starts torch again
def test_the_first_cell_for_colab_installs_a_package_that_works(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, ROOT]
    subprocess.run(build, check=True, cwd=tmp_path)
    [wheel] = tmp_path.glob("*.whl")
    cell = re.search(r"```python\n(.*?)```", text("docs/other_doors.md").partition("## Colab")[2], flags=re.S)[1]
    # Tests have no network, and .venv has the other two.
    cell = cell.replace("git+https://HOST/OWNER/NAME anywidget psygnal", str(wheel))
    [example] = re.findall(r"```python\n(.*?)```", text("attention_helpers/README.md"), flags=re.S)
    last = "from attention_course import explorers; explorers.MaskExplorer()"
    (tmp_path / "cells.ipy").write_text(f"{cell}\n{example}\n{last}; print(explorers.__file__)\n")
    elsewhere = {"PIP_TARGET": str(tmp_path / "its"), "PYTHONPATH": str(tmp_path / "its"), "PIP_NO_INDEX": "1"}
    (tmp_path / "its").mkdir()
    command = [sys.executable, "-m", "IPython", "--no-banner", "cells.ipy"]
    result = subprocess.run(command, cwd=tmp_path, env=os.environ | elsewhere, capture_output=True, text=True)
    *answers, file = result.stdout.splitlines()
    expected = re.findall(r"^print.*  # (.*)$", example, flags=re.M)
    assert answers[-len(expected) :] == expected, result.stdout + result.stderr
    assert Path(file).is_relative_to(tmp_path / "its")

"""What stands at the repository's door: licence, citation, and the ways in beside `make lab`."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv

import pytest
import yaml
from checkouts import ROOT, load
from needs import needs_posix_shell

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
[AUTHORS] = [author["name"] for author in PROJECT["authors"]]


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_citation_licence_and_changes_say_what_the_package_says():
    citation = yaml.safe_load(text("CITATION.cff"))
    assert citation["version"] == PROJECT["version"]
    assert [author["name"] for author in citation["authors"]] == [AUTHORS]
    assert " AND ".join(citation["license"]) == PROJECT["license"]
    assert text("LICENSE").startswith("MIT License\n\nCopyright (c) ")
    assert f" {AUTHORS}\n" in text("LICENSE")
    newest = re.search(r"^## (\S+)", text("CHANGELOG.md"), flags=re.M)[1]
    assert newest in (PROJECT["version"], "Unreleased")


def test_the_workflow_runs_what_ci_runs_on_the_oldest_and_newest_python(tmp_path):
    tool = load(ROOT, "setup/ensure_venv")
    jobs = yaml.safe_load(text(".github/workflows/test.yml"))["jobs"]
    assert {job["runs-on"].partition("-")[0] for job in jobs.values()} == {"ubuntu", "macos", "windows"}
    for job in jobs.values():
        assert job["strategy"]["matrix"]["python"] == [tool.dotted(tool.OLDEST), tool.dotted(tool.NEWEST)]
    runs = {system: [step["run"] for step in job["steps"] if "run" in step] for system, job in jobs.items()}
    assert ".ci/run" in runs["linux"]
    assert ".ci/run" in runs["macos"]
    readme = [line for line in text("README.md").splitlines() if line.startswith(("py -3.12", r".venv\Scripts"))]
    for command in runs["windows"][:3]:
        assert command.replace("python tools", "py -3.12 tools") in readme


def test_the_devcontainer_is_set_up_by_the_courses_own_tools():
    container = json.loads(text(".devcontainer/devcontainer.json"))
    assert container["postCreateCommand"] == "python tools/setup/ensure_venv.py test"
    image = re.search(r"^FROM python:(\d+)\.(\d+)", text(".devcontainer/Dockerfile"), flags=re.M)
    tool = load(ROOT, "setup/ensure_venv")
    assert tool.OLDEST <= (int(image[1]), int(image[2])) <= tool.NEWEST
    assert container["remoteUser"] in text(".devcontainer/Dockerfile")  # JupyterLab refuses to run as root


def test_binder_installs_the_pins_under_a_python_that_has_them():
    tool = load(ROOT, "setup/ensure_venv")
    major, minor = re.fullmatch(r"python-(\d+)\.(\d+)\n", text(".binder/runtime.txt")).groups()
    assert tool.OLDEST <= (int(major), int(minor)) <= tool.NEWEST
    for line in text(".binder/requirements.txt").splitlines():
        assert line.startswith("#") or (ROOT / ".binder" / line.split()[1]).is_file(), line


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
    settings = json.loads((tmp_path / "its/share/jupyter/lab/settings/overrides.json").read_text())
    assert settings["@jupyterlab/apputils-extension:kernels-settings"]["commsOverSubshells"] == "disabled"


@pytest.mark.slow  # builds a wheel, and starts torch anew
def test_the_first_cell_for_colab_installs_a_course_that_works(tmp_path):
    build, cell = re.findall(r"```\w*\n(.*?)```", text("docs/other_doors.md").partition("## Colab")[2], flags=re.S)[:2]
    assert build.split()[0] == ".venv/bin/python"
    subprocess.run([sys.executable, *build.split()[1:-2], tmp_path, ROOT], check=True, cwd=tmp_path)
    asks = "from attention_helpers.explorers import WrapperExplorer\nfrom attention_helpers import load_sentence\n"
    asks += "WrapperExplorer(load_sentence('journey'))\nimport attention_helpers; print(attention_helpers.__file__)\n"
    (tmp_path / "cells.ipy").write_text(f"{cell}\n{asks}")
    elsewhere = {"PIP_TARGET": str(tmp_path / "its"), "PYTHONPATH": str(tmp_path / "its"), "PIP_NO_INDEX": "1"}
    (tmp_path / "its").mkdir()
    result = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "cells.ipy"],
        **{"cwd": tmp_path, "env": os.environ | elsewhere, "capture_output": True, "text": True},
    )
    assert str(tmp_path / "its") in result.stdout.splitlines()[-1], result.stdout + result.stderr

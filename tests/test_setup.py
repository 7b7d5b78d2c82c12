"""The pins, the Makefile and what CI runs."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from checkouts import ROOT, copy_of_checkout, load, program

RUNNING = "{}.{}".format(*sys.version_info)


@pytest.fixture
def checkout(tmp_path):
    return copy_of_checkout(tmp_path)


def requirement_lines(name):
    lines = [line.partition(" #")[0].strip() for line in (ROOT / name).read_text().splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def names(lines):
    return [re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines]


EXACT = re.compile(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*")  # no local version, no path, no marker


def test_requirements_are_exact():
    learner, developer = requirement_lines("requirements.txt"), requirement_lines("requirements-dev.txt")
    assert learner.pop() == "-e ."
    for line in learner + developer:
        assert EXACT.fullmatch(line), line
    assert len(set(names(learner + developer))) == len(learner + developer)


def test_constraints_pin_the_rest():
    first, *pins = requirement_lines("constraints.txt")
    # Some of the developer's direct pins are a learner's indirect ones: nbformat, nbclient.
    assert first == "-c requirements-dev.txt"
    for line in pins:
        assert EXACT.fullmatch(line), line
    assert names(pins) == sorted(set(names(pins)))
    direct = names(requirement_lines("requirements.txt") + requirement_lines("requirements-dev.txt"))
    assert not set(names(pins)) & {*direct, "attention-helpers", "pip"}
    assert {"tornado", "ipython", "appnope", "pywinpty"} <= set(names(pins)), "Linux, macOS and Windows"


def package(name, version, *requires):
    return {"metadata": {"name": name, "version": version, "requires_dist": list(requires)}}


@pytest.fixture
def upgrade(checkout, monkeypatch):
    tool = load(checkout, "setup/upgrade")
    monkeypatch.setattr(tool, "oldest_python", lambda: RUNNING)
    return tool


def test_upgrade_writes_indirect_packages_without_local_versions(upgrade, monkeypatch):
    requires = ['pywinpty>=2; os_name == "nt"', 'numpy>2; os_name == "nt"', 'docs; extra == "docs" and os_name == "nt"']
    installed = [
        package("torch", "2.13.0+cpu"),
        package("Zope_x.y", "1.0+local", *requires),
        package("attention_helpers", "0.1.0"),
        package("numpy", "2.4.6"),
        package("pip", "26"),
        package("anyio", "4.1"),
    ]
    monkeypatch.setattr(upgrade, "installed_packages", lambda folder: (Path("python"), installed))
    calls = []
    report = json.dumps({"install": [package("pywinpty", "3.1")]})
    monkeypatch.setattr(upgrade, "pip", lambda *arguments: calls.append(arguments) or report)
    upgrade.main()
    (call,) = calls
    assert call[call.index("--target") + 2 :] == ("pywinpty>=2",)
    assert (upgrade.ROOT / "constraints.txt").read_text() == (
        upgrade.HEADER + "anyio==4.1\npywinpty==3.1\nzope-x-y==1.0\n"
    )


def test_failed_upgrade_leaves_constraints_alone(upgrade, monkeypatch):
    before = (upgrade.ROOT / "constraints.txt").read_bytes()

    def fail(command, **_):
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(upgrade.subprocess, "run", fail)
    with pytest.raises(SystemExit, match=r"^constraints\.txt stays as it was: -m venv"):
        upgrade.main()
    assert (upgrade.ROOT / "constraints.txt").read_bytes() == before


def test_upgrade_wants_the_oldest_python(upgrade, monkeypatch):
    monkeypatch.setattr(upgrade, "oldest_python", lambda: "3.1")
    with pytest.raises(SystemExit, match=r"make upgrade PYTHON=python3\.1$"):
        upgrade.main()


def make(checkout, *arguments):
    # The tests themselves run under make, whose flags and variables a make started here would take over.
    own = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "ARGS", "PORT", "PYTHON", "NOTEBOOK"}
    env = {name: value for name, value in os.environ.items() if name not in own}
    return subprocess.run(["make", *arguments], cwd=checkout, env=env, capture_output=True, text=True)


def test_plain_make_lists_every_target(checkout):
    lines = (checkout / "Makefile").read_text().splitlines()
    targets = {line.partition(":")[0] for line in lines if re.match(r"[a-z][\w-]*:", line)}
    (phony,) = (line for line in lines if line.startswith(".PHONY:"))
    assert targets == set(phony.split()[1:])
    assert {line.split()[1] for line in make(checkout).stdout.splitlines()} == targets


def test_make_without_python_is_one_sentence(checkout):
    result = make(checkout, "lab", "PYTHON=no-such-python")
    assert result.returncode != 0
    first, *rest = result.stderr.splitlines()
    assert first.startswith("'no-such-python' does not run here: install Python 3.11 or newer")
    assert first.endswith("make lab PYTHON=/path/to/python3")
    assert [line.startswith("make: ***") for line in rest] == [True]


def test_lab_fills_workbook_and_passes_port_and_arguments(checkout):
    recipe = make(checkout, "-n", "lab", "PORT=9001", "ARGS=--no-browser").stdout
    assert "tools/setup/workbook.py fill" in recipe
    assert "--ip=127.0.0.1 --port=9001" in recipe
    assert recipe.rstrip().endswith("/lab/tree/00_start_here.ipynb --no-browser")


STAGES = ["test", "lint", "test-slow", "test-browser"]


def run_ci(tmp_path, make, *programs):
    """Run .ci/run with a `make` and other programs that say they were called; returns result and calls."""
    run = program(tmp_path / "course/.ci/run", (ROOT / ".ci/run").read_text())
    program(tmp_path / "bin/make", f'#!/bin/sh\necho "called make $*"\n{make}\n')
    for name in programs:
        program(tmp_path / "bin" / name, f'#!/bin/sh\necho "called {name} $*"\n')
    for name in ("bash", "dirname"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    result = subprocess.run([run], env={"PATH": str(tmp_path / "bin")}, capture_output=True, text=True)
    return result, re.findall(r"^called (.*)$", result.stdout, re.MULTILINE)


@pytest.mark.parametrize("failing", ["none", "test", "lint", "test-slow"])
def test_ci_runs_all_and_stops_at_the_first_failure(tmp_path, failing):
    result, called = run_ci(tmp_path, f'test "$1" != {failing}', "chromium")
    reached = STAGES if failing == "none" else STAGES[: STAGES.index(failing) + 1]
    assert called == [f"make {target}" for target in reached]
    assert (result.returncode == 0) == (failing == "none")


@pytest.mark.parametrize("second_time", ["passes", "fails"])
def test_ci_gives_the_browser_a_second_chance_and_no_third(tmp_path, second_time):
    make = f'case "$*" in test-browser) exit 1;; *last-failed) test {second_time} = passes;; esac'
    result, called = run_ci(tmp_path, make, "chromium")
    assert called == [*(f"make {target}" for target in STAGES), "make test-browser ARGS=--last-failed"]
    assert (result.returncode == 0) == (second_time == "passes")


def test_ci_installs_a_browser_where_there_is_none(tmp_path):
    result, called = run_ci(tmp_path, "true", "apt-get")
    assert called[:2] == ["apt-get update -qq", "apt-get install -y -qq chromium"]
    assert result.returncode == 0


@pytest.mark.parametrize("failures", [1, 2])
def test_a_kernel_that_dies_at_its_start_is_started_once_more(monkeypatch, failures):
    from tools.notebooks import second_start  # here, since it changes nbval

    outcomes = [RuntimeError("Kernel died before replying to kernel_info")] * failures + ["kernel"]

    def start(**options):
        assert options == {"cwd": "here"}
        outcome = outcomes.pop(0)
        if outcome != "kernel":
            raise outcome
        return outcome

    monkeypatch.setattr(second_start, "start", start)
    if failures == 1:
        assert second_start.start_new_kernel(cwd="here") == "kernel"
    else:
        with pytest.raises(RuntimeError, match="Kernel died"):
            second_start.start_new_kernel(cwd="here")

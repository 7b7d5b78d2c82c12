"""The pins, the Makefile and what CI runs."""

import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata

import pytest
from checkouts import REQUIREMENTS, ROOT, copy_of_checkout, program
from needs import needs_make, needs_posix_shell
from packaging.markers import default_environment
from packaging.requirements import Requirement

from tools.setup.lab_hook import drop_dead_views


@pytest.fixture
def checkout(tmp_path):
    return copy_of_checkout(tmp_path)


def requirement_lines(name):
    lines = [line.partition(" #")[0].strip() for line in (ROOT / name).read_text().splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def names(lines):
    return [re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines]


EXACT = re.compile(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*")  # no local version, no path, no marker
# Every supported system and Python, and the Python of Debian 12; what else a marker may ask follows from these.
SYSTEMS = {"Linux": ("linux", "posix"), "Darwin": ("darwin", "posix"), "Windows": ("win32", "nt")}
VERSIONS = ["3.11.2", "3.11.5", "3.12.0", "3.13.0", "3.14.0"]
ENVIRONMENTS = [
    {
        **default_environment(),
        **dict(zip(("platform_system", "sys_platform", "os_name"), (system, *names), strict=True)),
        **{"python_version": version.rpartition(".")[0], "python_full_version": version},
    }
    for system, names in SYSTEMS.items()
    for version in VERSIONS
]


def pinned():
    """The lines of all requirement files, but for the course's own package."""
    return [line for name in REQUIREMENTS for line in requirement_lines(name) if line != "-e ."]


def test_requirements_are_exact_and_name_no_package_twice():
    assert requirement_lines("requirements.txt")[-1] == "-e ."
    for line in pinned():
        assert EXACT.fullmatch(line), line
    assert len(set(names(pinned()))) == len(pinned())


def test_every_requirements_file_is_known_to_the_pins():
    found = {path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("req*.txt"), *ROOT.glob("[a-z]*/req*.txt")]}
    assert found == set(REQUIREMENTS)
    makefile = (ROOT / "Makefile").read_text()
    [known] = re.findall("^REQUIREMENTS = (.*)$", makefile, flags=re.M)
    assert known.split() == REQUIREMENTS
    assert "$(REQUIREMENTS)" in makefile.partition("\nupgrade:")[2]


def test_constraints_are_exact_and_pin_no_package_twice_in_one_place():
    lines = requirement_lines("constraints.txt")
    pins = [Requirement(line) for line in lines]
    for line in lines:
        assert EXACT.fullmatch(line.partition(";")[0].strip()), line
    for environment in ENVIRONMENTS:
        there = [pin.name for pin in pins if not pin.marker or pin.marker.evaluate(environment)]
        assert len(there) == len(set(there)), environment
    assert {"tornado", "appnope", "pywinpty", "triton"} <= {pin.name for pin in pins}, "macOS, Windows, torch on Linux"
    assert not {"attention-helpers", "pip"} & {pin.name for pin in pins}


def test_constraints_agree_with_the_requirement_files():
    assert {line.lower() for line in pinned()} <= set(requirement_lines("constraints.txt")), (
        "make upgrade brings them in"
    )


LEFT_OUT = {Requirement(line).name for line in requirement_lines("tools/setup/left_out.txt")}


def test_what_is_left_out_is_pinned_nowhere_and_asked_for_nowhere_else():
    assert LEFT_OUT.isdisjoint(names(requirement_lines("constraints.txt")))
    assert not any(Requirement(line).marker.evaluate() for line in requirement_lines("tools/setup/left_out.txt"))


@pytest.mark.parametrize("name", names(requirement_lines("requirements-model.txt")))
def test_what_comes_without_its_requirements_finds_all_but_what_is_left_out(name):
    """What pip check would say of it, read from what is installed."""
    asked = [Requirement(line) for line in metadata.requires(name) or ()]
    for requirement in (each for each in asked if not each.marker or each.marker.evaluate({"extra": ""})):
        if requirement.name not in LEFT_OUT:
            assert requirement.specifier.contains(metadata.version(requirement.name)), requirement


@pytest.mark.slow  # looks through all that is installed
def test_pip_check_misses_what_is_left_out_and_nothing_else():
    check = [sys.executable, "-m", "pip", "--disable-pip-version-check", "check"]
    complaints = subprocess.run(check, capture_output=True, text=True).stdout.splitlines()
    said = re.compile(r"\S+ \S+ requires ([\w-]+), which is not installed\.")
    assert {said.fullmatch(line)[1] for line in complaints} == LEFT_OUT


@pytest.mark.parametrize(("version", "release"), [("3.11.2", 2), ("3.11.4", 2), ("3.11.5", 4), ("3.14.0", 4)])
def test_soupsieve_suits_the_python_of_debian_12(version, release):
    pins = [Requirement(line) for line in requirement_lines("constraints.txt") if line.startswith("soupsieve==")]
    (pin,) = (pin for pin in pins if pin.marker.evaluate({"python_full_version": version}))
    assert str(pin.specifier).startswith(f"=={release}.")


def test_the_wheel_is_built_by_the_version_that_tests_use():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    assert set(build["requires"]) & set(requirement_lines("requirements-dev.txt")) == {build["requires"][0]}
    assert all(EXACT.fullmatch(line) for line in build["requires"])


def make(checkout, *arguments):
    # The tests themselves run under make, whose flags and variables a make started here would take over.
    own = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "ARGS", "PORT", "PYTHON", "NOTEBOOK"}
    env = {name: value for name, value in os.environ.items() if name not in own}
    return subprocess.run(["make", *arguments], cwd=checkout, env=env, capture_output=True, text=True)


@needs_make
def test_plain_make_lists_every_target(checkout):
    lines = (checkout / "Makefile").read_text().splitlines()
    targets = {line.partition(":")[0] for line in lines if re.match(r"[a-z][\w-]*:", line)}
    phony = re.search(r"^\.PHONY: (.*\\\n)*.*", (checkout / "Makefile").read_text(), flags=re.M)[0]
    assert targets == set(phony.replace("\\\n", "").split()[1:])
    assert {line.split()[1] for line in make(checkout).stdout.splitlines()} == targets


@needs_make
def test_make_without_python_is_one_sentence(checkout):
    result = make(checkout, "lab", "PYTHON=no-such-python")
    assert result.returncode != 0
    first, *rest = result.stderr.splitlines()
    assert first.startswith("'no-such-python' does not run here: install a Python from 3.11 to 3.14")
    assert first.endswith("make lab PYTHON=/path/to/python3")
    assert [line.startswith("make: ***") for line in rest] == [True]


@needs_make
def test_lab_fills_workbook_and_passes_port_and_arguments(checkout):
    recipe = make(checkout, "-n", "lab", "PORT=9001", "ARGS=--no-browser").stdout
    assert "tools/setup/workbook.py fill" in recipe
    assert "--ip=127.0.0.1 --port=9001" in recipe
    assert recipe.rstrip().endswith("/lab/tree/00_start_here.ipynb --no-browser")


@pytest.mark.parametrize("name", ["Makefile", "README.md", "tools/notebooks/lab.py"])
def test_lab_is_started_with_a_hook_that_there_is(name):
    hook = re.search(r"--ContentsManager\.pre_save_hook=([\w.]+)", (ROOT / name).read_text())[1]
    assert pkgutil.resolve_name(hook) is drop_dead_views


CHANNELS = ["shell", "iopub", "stdin", "hb", "control"]
STAGES = ["test", "lint", "test-slow", "test-browser", "test-site"]


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


@needs_posix_shell
@pytest.mark.parametrize("failing", ["none", *STAGES])
def test_ci_runs_all_and_stops_at_the_first_failure(tmp_path, failing):
    result, called = run_ci(tmp_path, f'test "$1" != {failing}', "chromium")  # each is called once
    reached = STAGES if failing == "none" else STAGES[: STAGES.index(failing) + 1]
    assert called == [f"make {target}" for target in reached]
    assert (result.returncode == 0) == (failing == "none")


@needs_posix_shell
def test_ci_installs_a_browser_where_there_is_none(tmp_path):
    result, called = run_ci(tmp_path, "true", "apt-get")
    assert called[:2] == ["apt-get update -qq", "apt-get install -y -qq chromium"]
    assert result.returncode == 0


def test_each_kernel_of_a_notebook_has_sockets_of_its_own(monkeypatch):
    """So that two that start at once never take a port from each other; see own_sockets."""
    from nbval import kernel

    from tools.notebooks import own_sockets

    monkeypatch.setattr(kernel, "KernelManager", None)
    assert f"-p {own_sockets.__name__} --nbval" in (ROOT / "Makefile").read_text()
    own_sockets.pytest_configure()
    managers = [kernel.KernelManager(kernel_name="python3"), own_sockets.AsyncKernelManager(), kernel.KernelManager()]
    for manager in managers:
        manager.write_connection_file()
    assert {manager.transport for manager in managers} == {"ipc" if own_sockets.NAMED else "tcp"}
    sockets = [manager._make_url(channel) for manager in managers for channel in CHANNELS]
    assert len(set(sockets)) == len(managers) * len(CHANNELS)
    assert max(map(len, sockets)) < len("ipc://") + 104
    for manager in managers:
        manager.cleanup_connection_file()

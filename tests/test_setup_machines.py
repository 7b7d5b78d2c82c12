"""On which Pythons and machines the course can be installed, and that the others are told so at once."""

import ast
import re
import tomllib

import pytest
from checkouts import ROOT, copy_of_checkout, load


@pytest.fixture(scope="module")
def tool(tmp_path_factory):
    return load(copy_of_checkout(tmp_path_factory.mktemp("machines")), "setup/ensure_venv")


@pytest.mark.parametrize("version", [(3, 6, 15), (3, 10, 13), (3, 15, 0), (4, 0, 0)])
def test_python_without_wheels_is_told_which_have_them(tool, version):
    with pytest.raises(SystemExit, match=rf"3\.11 to 3\.14.* is Python {version[0]}\.{version[1]}"):
        tool.check_python(version, "lab")


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 14, 9)])
def test_python_with_wheels_passes(tool, version):
    tool.check_python(version, "lab")


def test_every_file_names_the_same_pythons(tool):
    low, high = tool.OLDEST, (3, tool.NEWEST[1] + 1)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">={}.{},<{}.{}".format(*low, *high)
    assert f"{low} <= sys.version_info < {high}" in (ROOT / "Makefile").read_text(encoding="utf-8")
    for name in (".binder/runtime.txt", ".devcontainer/Dockerfile", "classroom/Dockerfile"):
        major, minor = re.search(r"python[-:](\d+)\.(\d+)", (ROOT / name).read_text(encoding="utf-8")).groups()
        assert low <= (int(major), int(minor)) < high, name


MACHINES = {
    "Linux": (True, "64-bit CPython", "Linux with glibc", "2.28", "x86_64"),
    "Linux on ARM": (True, "64-bit CPython", "Linux with glibc", "2.41", "aarch64"),
    "Mac": (True, "64-bit CPython", "macOS", "14.0.1", "arm64"),
    "Windows": (True, "64-bit CPython", "Windows", "", "amd64"),
    "Intel Mac": (False, "64-bit CPython", "macOS", "15.1", "x86_64"),
    "old macOS": (False, "64-bit CPython", "macOS", "13.7.2", "arm64"),
    "32-bit Windows": (False, "32-bit CPython", "Windows", "", "win32"),
    "Windows on ARM": (False, "64-bit CPython", "Windows", "", "arm64"),
    "old glibc": (False, "64-bit CPython", "Linux with glibc", "2.17", "x86_64"),
    "musl": (False, "64-bit CPython", "Linux with musl", "1.2.5", "x86_64"),
    "PyPy": (False, "64-bit PyPy", "Linux with glibc", "2.36", "x86_64"),
}


@pytest.mark.parametrize(("fits", "python", "system", "version", "processor"), MACHINES.values(), ids=MACHINES)
def test_machines_have_wheels_or_are_told_so(tool, monkeypatch, fits, python, system, version, processor):
    monkeypatch.setattr(tool, "this_machine", lambda: (python, system, version, processor))
    monkeypatch.setattr("venv.create", lambda *_, **__: pytest.fail("it began to make .venv"))
    if fits:
        tool.check_machine("lab")
    else:
        with pytest.raises(SystemExit, match=re.escape(f"{python} on {system} {version} ({processor})")):
            tool.main(["lab"])


def test_the_machine_that_these_tests_run_on_has_wheels(tool):
    assert tool.has_wheels(*tool.this_machine())


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, ("Linux with glibc", "2.36", "x86_64")),
        # One Python for both processors, run for Intel's.
        ({"sys.platform": "darwin", "made_for": "macosx-11.0-universal2"}, ("macOS", "14.5", "x86_64")),
        # A 32-bit Python on a 64-bit Windows.
        ({"WINDOWS": True, "made_for": "win32"}, ("Windows", "", "win32")),
    ],
)
def test_the_machine_is_what_this_python_is_made_for(tool, monkeypatch, facts, expected):
    monkeypatch.setattr(tool, "WINDOWS", facts.get("WINDOWS", False))
    monkeypatch.setattr(tool.sys, "platform", facts.get("sys.platform", "linux"))
    monkeypatch.setattr(tool.sysconfig, "get_platform", lambda: facts.get("made_for", "linux-x86_64"))
    monkeypatch.setattr(tool.platform, "system", lambda: "Linux")
    monkeypatch.setattr(tool.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(tool.platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.setattr(tool.platform, "mac_ver", lambda: ("14.5", ("", "", ""), ""))
    assert tool.this_machine()[1:] == expected


def test_an_old_python_can_read_the_file_that_tells_it_so():
    ast.parse((ROOT / "tools/setup/ensure_venv.py").read_text(encoding="utf-8"), feature_version=(3, 6))

"""On which Pythons and machines the course can be installed, and the one sentence that the others get."""

import ast
import re
import sys
import tomllib

import pytest
from checkouts import ROOT, copy_of_checkout, load


@pytest.fixture(scope="module")
def tool(tmp_path_factory):
    return load(copy_of_checkout(tmp_path_factory.mktemp("machines")), "setup/ensure_venv")


@pytest.mark.parametrize("version", [(3, 6, 15), (3, 10, 13), (3, 15, 0), (4, 0, 0)])
def test_python_without_wheels_gets_one_sentence(tool, version):
    with pytest.raises(SystemExit) as stop:
        tool.check_python(version, "lab")
    assert str(stop.value) == (
        f"The course needs a Python from 3.11 to 3.14, and {sys.executable} is Python {'.'.join(map(str, version))}: "
        f"install one of these, or name one that you have, as in: {tool.ANOTHER.format('lab')}"
    )


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 14, 9)])
def test_python_with_wheels_passes(tool, version):
    tool.check_python(version, "lab")


def test_every_file_names_the_same_pythons(tool):
    low, high = ((3, n) for n in (tool.OLDEST[1], tool.NEWEST[1] + 1))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">={}.{},<{}.{}".format(*low, *high)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"{low} <= sys.version_info < {high}" in makefile
    assert f"--python-version {tool.dotted(tool.OLDEST)} " in makefile
    in_words = f"Python from {tool.dotted(tool.OLDEST)} to {tool.dotted(tool.NEWEST)}"
    assert in_words in makefile
    assert in_words in (ROOT / "README.md").read_text(encoding="utf-8")


WITH_WHEELS = {
    "Linux": ("64-bit CPython", "Linux with glibc", "2.28", "x86_64"),
    "Linux on ARM": ("64-bit CPython", "Linux with glibc", "2.41", "aarch64"),
    "Mac": ("64-bit CPython", "macOS", "14.0.1", "arm64"),
    "Windows": ("64-bit CPython", "Windows", "", "amd64"),
}
WITHOUT_WHEELS = {
    "Intel Mac": ("64-bit CPython", "macOS", "15.1", "x86_64"),
    "old macOS": ("64-bit CPython", "macOS", "13.7.2", "arm64"),
    "32-bit Windows": ("32-bit CPython", "Windows", "", "win32"),
    "Windows on ARM": ("64-bit CPython", "Windows", "", "arm64"),
    "old glibc": ("64-bit CPython", "Linux with glibc", "2.17", "x86_64"),
    "musl": ("64-bit CPython", "Linux with musl", "1.2.5", "x86_64"),
    "32-bit Linux": ("32-bit CPython", "Linux with glibc", "2.36", "x86_64"),
    "PyPy": ("64-bit PyPy", "Linux with glibc", "2.36", "x86_64"),
    "another system": ("64-bit CPython", "FreeBSD with an unknown C library", "", "amd64"),
}


@pytest.mark.parametrize("machine", WITH_WHEELS.values(), ids=WITH_WHEELS)
def test_machine_with_wheels_passes(tool, machine, monkeypatch):
    monkeypatch.setattr(tool, "this_machine", lambda: machine)
    tool.check_machine("lab")


@pytest.mark.parametrize("machine", WITHOUT_WHEELS.values(), ids=WITHOUT_WHEELS)
def test_machine_without_wheels_gets_one_sentence_before_anything_is_made(tool, machine, monkeypatch):
    monkeypatch.setattr(tool, "this_machine", lambda: machine)
    monkeypatch.setattr(tool, "make_venv", lambda *_: pytest.fail("it began to make .venv"))
    with pytest.raises(SystemExit) as stop:
        tool.main(["lab"])
    python, system, version, processor = machine
    assert f"{sys.executable} is {python} on {system} {version}".rstrip() in str(stop.value)
    assert f"({processor}): take another machine" in str(stop.value)


def test_the_machine_that_these_tests_run_on_has_wheels(tool):
    assert tool.has_wheels(*tool.this_machine())


def disguise(monkeypatch, tool, **facts):
    """Give the tool another machine's answers."""
    monkeypatch.setattr(tool, "WINDOWS", facts.get("windows", False))
    monkeypatch.setattr(tool.sys, "platform", facts.get("platform", "linux"))
    monkeypatch.setattr(tool.sysconfig, "get_platform", lambda: facts.get("made_for", "linux-x86_64"))
    monkeypatch.setattr(tool.platform, "system", lambda: "Linux")
    monkeypatch.setattr(tool.platform, "machine", lambda: facts.get("machine", "x86_64"))
    monkeypatch.setattr(tool.platform, "libc_ver", lambda: facts.get("libc", ("glibc", "2.36")))
    monkeypatch.setattr(tool.platform, "mac_ver", lambda: ("14.5", ("", "", ""), ""))


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, ("Linux with glibc", "2.36", "x86_64")),
        ({"libc": ("", "")}, ("Linux with an unknown C library", "", "x86_64")),
        # One Python for both processors, run for Intel's.
        ({"platform": "darwin", "made_for": "macosx-11.0-universal2"}, ("macOS", "14.5", "x86_64")),
        # A 32-bit Python on a 64-bit Windows, and one for Intel on an ARM processor.
        ({"windows": True, "made_for": "win32", "machine": "AMD64"}, ("Windows", "", "win32")),
        ({"windows": True, "made_for": "win-amd64", "machine": "ARM64"}, ("Windows", "", "amd64")),
    ],
)
def test_the_machine_is_what_this_python_is_made_for(tool, monkeypatch, facts, expected):
    disguise(monkeypatch, tool, **facts)
    assert tool.this_machine()[1:] == expected


@pytest.mark.parametrize(("version", "fits"), [((3, 13, 1), False), ((3, 14, 0), True)])
def test_python_without_the_global_lock_has_wheels_from_3_14_on(tool, monkeypatch, version, fits):
    disguise(monkeypatch, tool)
    monkeypatch.setattr(tool.sysconfig, "get_config_var", lambda name: int(name == "Py_GIL_DISABLED"))
    monkeypatch.setattr(tool.sys, "version_info", version)
    assert tool.has_wheels(*tool.this_machine()) == fits


def test_ensure_venv_is_read_by_old_pythons():
    source = (ROOT / "tools/setup/ensure_venv.py").read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 6))
    # What is new in a signature is not grammar, and fails when the file is read: list[str].
    assert not [node for node in ast.walk(tree) if getattr(node, "annotation", None) or getattr(node, "returns", None)]
    assert not re.search("[^ -~\n]", source)

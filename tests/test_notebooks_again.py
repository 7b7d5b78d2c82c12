"""Cells that run again say the same, and `make refresh` keeps what belongs to a notebook and nothing else."""

import copy
import inspect
import json
import os
import shutil
import subprocess
import sys
import textwrap
from itertools import takewhile

import pytest
from course import FOLDER, FREE, LESSONS, PATHS, ROOT, at, code_cells, tags, text_of, without_measured
from jupyter_client.provisioning import local_provisioner

from attention_course import exercises
from tools.notebooks import refresh_notebooks as refreshing
from tools.notebooks.forked_kernels import fork_kernels

SOLUTIONS = [path for path in PATHS if path.parent != FOLDER]
each_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
new_cell, new_output = refreshing.nbformat.v4.new_code_cell, refreshing.nbformat.v4.new_output


@pytest.fixture(autouse=True)
def fast_kernels(monkeypatch):
    monkeypatch.setattr(local_provisioner, "launch_kernel", local_provisioner.launch_kernel)  # and back
    fork_kernels()


def toy(*cells):
    return refreshing.nbformat.v4.new_notebook(cells=list(cells))


@pytest.mark.slow
@each_lesson
def test_every_cell_run_twice_in_a_row_says_the_same(path):
    notebook = refreshing.nbformat.read(path, as_version=4)
    doubled = []
    for cell in notebook.cells:
        doubled.append(cell)
        if cell.cell_type == "code":
            doubled.append(copy.deepcopy(cell))
            doubled[-1].id += "-again"
    notebook.cells = doubled
    refreshing.execute(notebook, FOLDER)
    refreshing.normalise(notebook)
    cells, different = code_cells(notebook), []
    for once, again in zip(cells[::2], cells[1::2], strict=True):
        first, second = outputs_of(once), outputs_of(again)
        if FREE not in tags(once) and first != second:
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))
            begun, ended = max(0, same - 40), same + 80
            different.append(at(path, once, f"first {first[begun:ended]}, then {second[begun:ended]}"))
    assert not different, "\n".join(different)


@pytest.mark.slow
@each_lesson
def test_later_cells_say_the_same_once_a_learner_has_answered(path):
    notebook = refreshing.nbformat.read(path, as_version=4)
    practice = exercises.practice(path.name[:2])
    turns = [cell for cell in notebook.cells if cell.id.startswith("turn-") and cell.cell_type == "code"]
    if not turns:
        pytest.skip("this lesson has no Your turn")
    stored = {cell.id: outputs_of(cell, drawn=False) for cell in code_cells(notebook) if FREE not in tags(cell)}
    for cell in turns:  # the solution typed again, and the check
        exercise = getattr(practice, cell.id.removeprefix("turn-").removesuffix("-code"))
        source = textwrap.dedent(inspect.getsource(exercise.solution))
        cell.source = f"{exercise.imports}\n{source}\n{exercise.cell.splitlines()[-1]}"
    refreshing.execute(notebook, FOLDER)
    refreshing.normalise(notebook)
    for cell in turns:
        assert "✓ **Right.**" in "\n".join(map(text_of, cell.outputs)), at(path, cell)
    answers = {cell.id for cell in turns} | {cell.id for cell in notebook.cells if "practice.progress()" in cell.source}
    for cell in code_cells(notebook):
        if cell.id in stored and cell.id not in answers:
            assert outputs_of(cell, drawn=False) == stored[cell.id], at(path, cell)


def outputs_of(cell, drawn=True):
    """What a cell shows, as text: without counts and what was measured, nor pictures of what was measured.

    drawn: with explorers' pictures, whose fourth decimals can differ between CPUs.
    """
    measured = any("≈" in text_of(output) for output in cell.outputs)
    kept = copy.deepcopy(cell.outputs)
    for output in kept:
        output.pop("execution_count", None)
        if not drawn:
            output.get("data", {}).pop("image/svg+xml", None)
        if measured:
            output.get("data", {}).pop("image/png", None)
    return without_measured(json.dumps(kept, ensure_ascii=False, sort_keys=True))


@pytest.mark.slow
def test_all_lessons_pass_on_another_kind_of_cpu():
    command = ["make", "test-notebooks", "ARGS=-q -p no:cacheprovider"]
    environment = os.environ | {"ATEN_CPU_CAPABILITY": "default"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-500:]


@pytest.mark.slow
def test_an_output_that_differs_fails_and_is_told_with_notebook_and_cell(tmp_path):
    for name in ("conftest.py", "measured.cfg"):
        shutil.copy(FOLDER / name, tmp_path)
    cells = [
        new_cell("print('2 of 3, ≈ 0.5')", outputs=[new_output("stream", text=f"{text}\n")], execution_count=1)
        for text in ("2 of 3, ≈ 0.7", "1 of 3, ≈ 0.5")
    ]
    refreshing.nbformat.write(toy(*cells), tmp_path / "01_toy.ipynb")
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "01_toy.ipynb"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "01_toy.ipynb::Cell 1" in done.stdout

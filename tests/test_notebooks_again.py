"""Cells that run again say the same, and later ones do once a learner has answered."""

import copy
import inspect
import os
import subprocess
import textwrap

import pytest
from course import FOLDER, FREE, LESSONS, ROOT, SVG, at, code_cells, tags, text_of, without_measured
from jupyter_client.provisioning import local_provisioner

from attention_course import exercises
from tools.notebooks import refresh_notebooks as refreshing
from tools.notebooks.forked_kernels import fork_kernels

pytestmark = pytest.mark.slow
each_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)


@pytest.fixture(autouse=True)
def fast_kernels(monkeypatch):
    monkeypatch.setattr(local_provisioner, "launch_kernel", local_provisioner.launch_kernel)  # and back
    fork_kernels()


def execute_cells(notebook):
    """The notebook's code cells, after it was executed."""
    refreshing.execute(notebook, FOLDER)
    refreshing.normalise(notebook)
    return code_cells(notebook)


def outputs_of(cell, drawn=True):
    """What a cell shows, as text: without what was measured, nor pictures of what was measured.

    drawn: with explorers' pictures, whose fourth decimals can differ between CPUs.
    """
    left_out = {SVG} if not drawn else set()
    if any("≈" in text_of(output) for output in cell.outputs):
        left_out.add("image/png")
    shown = [output.get("data", {"text": output.get("text")}) for output in cell.outputs]
    return without_measured(str([sorted((kind, data[kind]) for kind in {*data} - left_out) for data in shown]))


@each_lesson
def test_every_cell_run_twice_in_a_row_says_the_same(path):
    notebook = refreshing.nbformat.read(path, as_version=4)
    notebook.cells = [copy.deepcopy(cell) for cell in notebook.cells for _ in range(2)]
    cells = execute_cells(notebook)
    for once, twice in zip(cells[::2], cells[1::2], strict=True):
        assert FREE in tags(once) or outputs_of(once) == outputs_of(twice), at(path, once)


@each_lesson
def test_later_cells_say_the_same_once_a_learner_has_answered(path):
    notebook = refreshing.nbformat.read(path, as_version=4)
    practice = exercises.practice(path.name[:2])
    turns = [cell for cell in notebook.cells if cell.id.startswith("turn-") and cell.cell_type == "code"]
    stored = {cell.id: outputs_of(cell, drawn=False) for cell in code_cells(notebook) if FREE not in tags(cell)}
    for cell in turns:  # the solution typed again, and the check
        exercise = getattr(practice, cell.id.removeprefix("turn-").removesuffix("-code"))
        source = textwrap.dedent(inspect.getsource(exercise.solution))
        cell.source = f"{exercise.imports}\n{source}\n{exercise.cell.splitlines()[-1]}"
    for cell in execute_cells(notebook):
        if cell in turns:
            assert "✓ **Right.**" in "\n".join(map(text_of, cell.outputs)), at(path, cell)
        elif cell.id in stored and "practice.progress()" not in cell.source:
            assert outputs_of(cell, drawn=False) == stored[cell.id], at(path, cell)


def test_all_lessons_pass_on_another_kind_of_cpu():
    command = ["make", "test-notebooks", "ARGS=-q -p no:cacheprovider"]
    environment = os.environ | {"ATEN_CPU_CAPABILITY": "default"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-500:]

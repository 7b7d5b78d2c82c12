"""What a learner does to a notebook: run a cell twice, on another machine. Slow: every cell is executed again."""

import copy
import json
import os
import re
import shutil
import subprocess

import pytest
from course import COURSE, FOLDER, FREE, LESSONS, PATHS, ROOT, code_cells, read, tags, without_measured

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def refreshing():
    """tools/notebooks/refresh_notebooks.py; its nbformat costs a second, which only the slow tests shall pay."""
    from tools.notebooks import refresh_notebooks

    return refresh_notebooks


each_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


@each_notebook
def test_every_cell_run_twice_in_a_row_says_the_same(path, refreshing):
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
    cells = code_cells(notebook)
    for once, again in zip(cells[::2], cells[1::2], strict=True):
        first, second = (json.dumps(said_by(cell, not measured(path)), ensure_ascii=False) for cell in (once, again))
        assert FREE in tags(once) or without_measured(first) == without_measured(second), once.source


@each_notebook
def test_two_refreshes_write_the_same_bytes_as_git_holds(path, tmp_path, refreshing):
    # pictures depend on the machine, so the first refresh is the measure for the second
    shutil.copytree(FOLDER, tmp_path / "notebooks", ignore=shutil.ignore_patterns(".*"))
    mine = tmp_path / "notebooks" / path.relative_to(FOLDER)
    assert refreshing.refresh(mine) is None
    first, bytes_of_first = comparable(mine), mine.read_bytes()
    assert refreshing.refresh(mine) is None
    assert comparable(mine) == first
    if not measured(path) and not any(FREE in tags(cell) for cell in code_cells(read(path))):
        assert mine.read_bytes() == bytes_of_first
    assert comparable(mine, pixels=False) == comparable(path, pixels=False), (
        f"{path.name} is not what `make refresh` writes"
    )


def test_a_refresh_keeps_tags_and_folded_inputs_and_nothing_else_of_a_cell(refreshing):
    new = refreshing.nbformat.v4.new_code_cell
    hidden, tags = {"jupyter": {"source_hidden": True}}, {"tags": ["a"]}
    of_a_session = {"collapsed": True, "scrolled": True, "jupyter": {"outputs_hidden": True, "source_hidden": False}}
    cells = [new(metadata=metadata) for metadata in (hidden | tags, hidden, tags, of_a_session, {"tags": []})]
    notebook = refreshing.nbformat.v4.new_notebook(cells=cells)
    refreshing.normalise(notebook)
    assert [cell.metadata for cell in notebook.cells] == [hidden | tags, hidden, tags, {}, {}]


def comparable(path, pixels=True):
    """A notebook's text but for what depends on the machine: outputs of free cells, numbers after ≈, their pictures."""
    notebook = read(path)
    drawn = pixels and not measured(path)
    for cell in code_cells(notebook):
        cell["outputs"] = [] if FREE in tags(cell) else said_by(cell, drawn)
    return without_measured(json.dumps(notebook, ensure_ascii=False))


def measured(path):
    """Whether the manifest gives a reason why numbers of this notebook depend on the machine."""
    return any(entry.measured for entry in COURSE if entry.path.name == path.name)


def said_by(cell, pixels=True):
    """A cell's outputs, with or without its pictures in pixels, and without their counts."""
    outputs = json.loads(json.dumps(cell.outputs))
    for output in outputs:
        output.pop("execution_count", None)
        if not pixels:
            output.get("data", {}).pop("image/png", None)
    return outputs


@pytest.mark.parametrize("cpu", [{"ATEN_CPU_CAPABILITY": "default"}, {"OMP_NUM_THREADS": "1"}], ids=str)
def test_all_notebooks_pass_on_another_kind_of_cpu(cpu):
    command = ["make", "test-notebooks", "ARGS=-q -p no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | cpu, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-500:]


def test_a_notebook_whose_cell_fails_is_left_as_it_was(tmp_path, refreshing):
    path = LESSONS[0]
    notebook = refreshing.nbformat.read(path, as_version=4)
    code_cells(notebook)[0].source = "1 / 0"
    broken = tmp_path / path.name
    refreshing.nbformat.write(notebook, broken)
    before = broken.read_bytes()
    assert "ZeroDivisionError" in refreshing.refresh(broken)
    assert broken.read_bytes() == before


def test_a_refresh_prints_which_outputs_changed(tmp_path, refreshing, capsys):
    cells = [refreshing.nbformat.v4.new_code_cell(f"print({n})", id=f"cell-{n}") for n in (1, 2)]
    notebook, path = refreshing.nbformat.v4.new_notebook(cells=cells), tmp_path / "03_toy.ipynb"
    refreshing.nbformat.write(notebook, path)
    refreshing.refresh(path)
    assert capsys.readouterr().out.count("/outputs/0:\n+  output:") == 2
    refreshing.refresh(path)
    assert capsys.readouterr().out == "03_toy.ipynb: no output changed\n"
    path.write_text(path.read_text().replace("print(2)", "print(300 * 'a picture is a long line')"))
    refreshing.refresh(path)
    printed = capsys.readouterr().out
    assert set(re.findall("/cells/./outputs", printed)) == {"/cells/1/outputs"}
    assert max(map(len, printed.splitlines())) == refreshing.WIDTH

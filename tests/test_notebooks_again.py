"""What a learner does to a notebook: run a cell twice, on another machine. Slow: every cell is executed again."""

import copy
import os
import re
import shutil
import subprocess

import pytest
from course import FOLDER, FREE, LESSONS, PATHS, ROOT, code_cells, read, tags

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
        for output in [*once.outputs, *again.outputs]:
            output.pop("execution_count", None)
        assert FREE in tags(once) or once.outputs == again.outputs, once.source


@each_notebook
def test_two_refreshes_write_the_same_bytes_as_git_holds(path, tmp_path, refreshing):
    # pictures depend on the machine, so the first refresh is the measure for the second
    shutil.copytree(FOLDER, tmp_path / "notebooks", ignore=shutil.ignore_patterns(".*"))
    mine = tmp_path / "notebooks" / path.relative_to(FOLDER)
    assert refreshing.refresh(mine) is None
    first = without_free_outputs(mine)
    assert refreshing.refresh(mine) is None
    assert without_free_outputs(mine) == first
    if not any(FREE in tags(cell) for cell in code_cells(read(path))):
        assert text_only(mine) == text_only(path), f"{path.name} is not what `make refresh` writes"


def without_free_outputs(path):
    """The file's bytes, or, where cells depend on the machine, all but what those put out."""
    notebook = read(path)
    free = [cell for cell in code_cells(notebook) if FREE in tags(cell)]
    for cell in free:
        cell["outputs"] = []
    return notebook if free else path.read_bytes()


def text_only(path):
    """A notebook without its pictures, whose pixels may differ between machines."""
    notebook = read(path)
    for cell in code_cells(notebook):
        for output in cell.outputs:
            output.get("data", {}).pop("image/png", None)
    return notebook


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
    path.write_text(path.read_text().replace("print(2)", "print(3)"))
    refreshing.refresh(path)
    assert set(re.findall("/cells/./outputs", capsys.readouterr().out)) == {"/cells/1/outputs"}

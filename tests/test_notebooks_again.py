"""What a learner does to a notebook: run a cell twice, on another machine. Slow: every cell is executed again."""

import copy
import os
import shutil
import subprocess
import sys

import pytest
import refresh_notebooks
from course import FOLDER, FREE, PATHS, ROOT, code_cells, read, tags

pytestmark = pytest.mark.slow
each_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


@each_notebook
def test_every_cell_run_twice_in_a_row_says_the_same(path):
    notebook = read(path)
    doubled = []
    for cell in notebook.cells:
        doubled.append(cell)
        if cell.cell_type == "code":
            doubled.append(copy.deepcopy(cell))
            doubled[-1].id += "-again"
    notebook.cells = doubled
    refresh_notebooks.execute(notebook, FOLDER)
    refresh_notebooks.normalise(notebook)
    cells = code_cells(notebook)
    for once, again in zip(cells[::2], cells[1::2], strict=True):
        for output in [*once.outputs, *again.outputs]:
            output.pop("execution_count", None)
        assert FREE in tags(once) or once.outputs == again.outputs, once.source


@each_notebook
def test_two_refreshes_write_the_same_bytes_as_git_holds(path, tmp_path):
    # the free cells hang on the machine, so the first refresh is the measure for the second
    shutil.copytree(FOLDER, tmp_path / "notebooks", ignore=shutil.ignore_patterns(".*"))
    mine = tmp_path / "notebooks" / path.relative_to(FOLDER)
    assert refresh_notebooks.refresh(mine) is None
    first = mine.read_bytes()
    assert refresh_notebooks.refresh(mine) is None
    assert mine.read_bytes() == first
    if not any(FREE in tags(cell) for cell in code_cells(read(path))):
        assert text_only(mine) == text_only(path), f"{path.name} is not what `make refresh` writes"


def text_only(path):
    """A notebook without its pictures, whose pixels may differ between machines."""
    notebook = read(path)
    for cell in code_cells(notebook):
        for output in cell.outputs:
            output.get("data", {}).pop("image/png", None)
    return notebook


@pytest.mark.parametrize("cpu", [{"ATEN_CPU_CAPABILITY": "default"}, {"OMP_NUM_THREADS": "1"}], ids=str)
def test_all_notebooks_pass_on_another_kind_of_cpu(cpu):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(FOLDER)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | cpu, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]


def test_a_notebook_whose_cell_fails_is_left_as_it_was(tmp_path):
    [path] = [p for p in PATHS if p.name.startswith("01")]
    notebook = read(path)
    code_cells(notebook)[0].source = "1 / 0"
    broken = tmp_path / path.name
    refresh_notebooks.nbformat.write(notebook, broken)
    before = broken.read_bytes()
    assert "ZeroDivisionError" in refresh_notebooks.refresh(broken)
    assert broken.read_bytes() == before

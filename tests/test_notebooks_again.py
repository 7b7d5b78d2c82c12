"""Cells that run again say the same, and `make refresh` keeps what belongs to a notebook and nothing else."""

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from itertools import takewhile

import pytest
from course import FOLDER, FREE, LESSONS, PATHS, ROOT, at, code_cells, tags, text_of, without_measured

from tools.notebooks import refresh_notebooks as refreshing

each_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
new_cell, new_output = refreshing.nbformat.v4.new_code_cell, refreshing.nbformat.v4.new_output


def toy(*cells):
    return refreshing.nbformat.v4.new_notebook(cells=list(cells))


def test_a_refresh_keeps_tags_and_folded_inputs_and_nothing_else_of_a_session():
    hidden, tagged = {"jupyter": {"source_hidden": True}}, {"tags": ["a"]}
    of_a_session = {"collapsed": True, "scrolled": True, "jupyter": {"outputs_hidden": True, "source_hidden": False}}
    view = {refreshing.WIDGET_VIEW: {"model_id": "1"}, "image/svg+xml": "<svg/>"}
    cells = [new_cell(metadata=metadata) for metadata in (hidden | tagged, hidden, tagged, of_a_session, {"tags": []})]
    notebook = toy(*cells, new_cell(outputs=[new_output("display_data", view)]))
    notebook.metadata["widgets"] = {"state": {}}
    refreshing.normalise(notebook)
    assert [cell.metadata for cell in notebook.cells] == [hidden | tagged, hidden, tagged, {}, {}, {}]
    assert notebook.cells[-1].outputs[0].data == {"image/svg+xml": "<svg/>"}
    assert "widgets" not in notebook.metadata


def test_a_refresh_takes_the_notebooks_that_are_named_and_no_copies_that_jupyter_keeps(tmp_path):
    names = ["01_a.ipynb", "02_b.ipynb", "solutions/02_solutions.ipynb"]
    for name in [*names, ".ipynb_checkpoints/01_a-checkpoint.ipynb", "solutions/.ipynb_checkpoints/02_b.ipynb"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert refreshing.chosen([], tmp_path) == [tmp_path / name for name in names]
    assert refreshing.chosen(["02"], tmp_path) == [tmp_path / name for name in names[1:]]
    with pytest.raises(SystemExit, match="no notebook begins with 07"):
        refreshing.chosen(["01", "07"], tmp_path)


@pytest.mark.slow
@each_notebook
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


def outputs_of(cell):
    """What a cell shows, as text: without counts and what was measured, nor pictures of what was measured."""
    measured = any("≈" in text_of(output) for output in cell.outputs)
    kept = copy.deepcopy(cell.outputs)
    for output in kept:
        output.pop("execution_count", None)
        if measured:
            output.get("data", {}).pop("image/png", None)
    return without_measured(json.dumps(kept, ensure_ascii=False))


@pytest.mark.slow
def test_all_notebooks_pass_on_another_kind_of_cpu():
    command = ["make", "test-notebooks", "NOTEBOOKS=notebooks", "ARGS=-q -p no:cacheprovider"]
    environment = os.environ | {"ATEN_CPU_CAPABILITY": "default"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-500:]


@pytest.mark.slow
def test_an_output_that_differs_is_told_with_notebook_and_cell_and_in_short_lines(tmp_path):
    for name in ("conftest.py", "measured.cfg"):
        shutil.copy(FOLDER / name, tmp_path)
    long = '50_000 * "a" + "{}" + 50_000 * "c"'
    stored = new_output("display_data", {"text/plain": repr(eval(long.format("b")))})
    sources = [f"display({long.format('bcd')})", 2 * f"display({long.format('b')})\n"]
    cells = [new_cell(source, execution_count=n, outputs=[stored]) for n, source in enumerate(sources, 1)]
    refreshing.nbformat.write(toy(*cells), tmp_path / "01_toy.ipynb")
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-vv", "01_toy.ipynb"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "2 failed" in done.stdout, done.stdout
    for cell in (0, 1):
        assert f"01_toy.ipynb::Cell {cell}" in done.stdout
    assert "abccc" in done.stdout
    assert "abcdccc" in done.stdout
    assert max(map(len, done.stdout.splitlines())) < 1000


@pytest.mark.slow
def test_a_notebook_whose_cell_fails_is_left_as_it_was(tmp_path):
    broken = tmp_path / "01_toy.ipynb"
    refreshing.nbformat.write(toy(new_cell("1 / 0")), broken)
    before = broken.read_bytes()
    assert "ZeroDivisionError" in refreshing.refresh(broken)
    assert broken.read_bytes() == before


@pytest.mark.slow
def test_a_refresh_prints_which_outputs_changed(tmp_path, capsys):
    path = tmp_path / "03_toy.ipynb"
    refreshing.nbformat.write(toy(*(new_cell(f"print({n})", id=f"cell-{n}") for n in (1, 2))), path)
    refreshing.refresh(path)
    assert capsys.readouterr().out.count("/outputs/0:\n+  output:") == 2
    refreshing.refresh(path)
    assert capsys.readouterr().out == "03_toy.ipynb: no output changed\n"
    path.write_text(path.read_text().replace("print(2)", "print(300 * 'a picture is a long line')"))
    refreshing.refresh(path)
    printed = capsys.readouterr().out
    assert set(re.findall("/cells/./outputs", printed)) == {"/cells/1/outputs"}
    assert max(map(len, printed.splitlines())) == refreshing.WIDTH


@pytest.mark.slow
def test_two_refreshes_write_the_same_bytes(tmp_path):
    path, written = tmp_path / LESSONS[1].name, []
    shutil.copy(LESSONS[1], path)
    for _ in range(2):
        assert refreshing.refresh(path) is None
        written.append(path.read_bytes())
    assert b"image/png" in written[0]
    same = written[0] == written[1]
    assert same

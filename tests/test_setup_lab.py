"""What the set-up does in Lab: its server stores an explorer as its picture, its kernels load torch as they start."""

import copy
import shutil

import nbformat
from checkouts import ROOT
from made import make

from tools.notebooks.refresh_notebooks import execute
from tools.setup.lab_hook import SVG, VIEW, drop_dead_views


def output(**data):
    return {"output_type": "display_data", "metadata": {}, "data": {VIEW: {"model_id": "1"}} | data}


def test_an_explorer_is_stored_as_its_first_picture_a_progress_bar_not_at_all_and_others_stay():
    bundle, bar = make("Playground")._repr_mimebundle_(), output(**{"text/plain": ["train:   0%|          | 0/8"]})
    others = [output(**{"text/plain": "VBox()"}), {"output_type": "stream", "name": "stdout", "text": "a 5%| b"}]
    text, code = {"cell_type": "markdown"}, {"outputs": [output(**bundle), bar, *copy.deepcopy(others)]}
    drop_dead_views(model={"type": "notebook", "content": {"cells": [text, code]}}, path="01.ipynb")
    shown, *rest = code["outputs"]
    assert shown["data"] == {kind: bundle[kind] for kind in (SVG, "text/plain")}
    assert rest == others
    drop_dead_views(model={"type": "file", "content": "text"})


def test_the_first_cell_finds_torch_and_what_figures_are_drawn_with(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    (tmp_path / "profile_default").mkdir()
    shutil.copy(ROOT / "tools/setup/venv_files/etc/ipython/ipython_kernel_config.py", tmp_path / "profile_default")
    at_once = nbformat.v4.new_code_cell("import torch.nn.functional")  # on two threads at once it would break torch
    loaded = nbformat.v4.new_code_cell(
        "print('matplotlib.backends.backend_agg' in __import__('sys').modules, [n for n in dir() if n[0] != '_'])"
    )
    execute(nbformat.v4.new_notebook(cells=[at_once, loaded]), tmp_path)
    assert loaded.outputs[0].text == "True ['In', 'Out', 'exit', 'get_ipython', 'open', 'quit', 'torch']\n"

"""What the set-up does in Lab: its server stores an explorer as its picture, its kernels load torch as they start."""

import copy
import shutil

import pytest
from checkouts import ROOT
from made import make

from tools.notebooks.own_sockets import KernelManager
from tools.setup.lab_hook import SVG, VIEW, drop_dead_views


def stored(*outputs):
    """What's stored of a notebook's outputs."""
    cells = [{"cell_type": "markdown", "source": "text"}, {"cell_type": "code", "outputs": list(outputs)}]
    model = {"type": "notebook", "content": {"cells": cells, "metadata": {}, "nbformat": 4}}
    drop_dead_views(model=model, path="01.ipynb", contents_manager=None)
    return model["content"]["cells"][1]["outputs"]


def output(**data):
    return {"output_type": "display_data", "metadata": {}, "data": {VIEW: {"model_id": "1"}} | data}


@pytest.mark.parametrize("name", ["ScoresExplorer", "Playground"])
def test_an_explorer_is_stored_as_its_first_picture(name):
    bundle = make(name)._repr_mimebundle_()
    assert VIEW in bundle
    [shown] = stored(output(**bundle))
    assert shown["data"] == {kind: bundle[kind] for kind in (SVG, "text/plain")}


def test_a_progress_bar_is_not_stored():
    assert stored(output(**{"text/plain": ["train:   0%|          | 0/8"]})) == []


def test_other_widgets_and_outputs_stay():
    others = [output(**{"text/plain": "VBox()"}), {"output_type": "stream", "name": "stdout", "text": "a 5%| b"}]
    assert stored(*copy.deepcopy(others)) == others


def test_a_file_that_is_no_notebook_stays():
    drop_dead_views(model={"type": "file", "content": "text"})


CONFIG = ROOT / "tools/setup/venv_files/etc/ipython/ipython_kernel_config.py"
AT_ONCE = "import torch.nn.functional"  # on two threads at once it would break torch
MODULES = "'matplotlib.backends.backend_agg' in __import__('sys').modules"
LOADED = f"print({MODULES}, [name for name in dir() if not name.startswith('_')])"


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A kernel with these settings and no others: its manager, and what talks to it."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    (tmp_path / "profile_default").mkdir()
    shutil.copy(CONFIG, tmp_path / "profile_default")
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=100)  # what a kernel says before it is heard would be lost
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_the_first_cell_finds_torch_and_what_figures_are_drawn_with(kernel):
    (_, client), heard = kernel, []
    for cell in (AT_ONCE, LOADED):
        client.execute_interactive(cell, timeout=100, output_hook=lambda message: heard.append(message["content"]))
    said = "".join(content.get("text", content.get("ename", "")) for content in heard)  # one print may be several
    assert said == "True ['In', 'Out', 'exit', 'get_ipython', 'open', 'quit', 'torch']\n"


@pytest.mark.slow
def test_a_kernel_can_end_while_it_loads(kernel):
    manager, client = kernel
    process = manager.provisioner.process
    client.shutdown()
    assert process.wait(timeout=100) == 0

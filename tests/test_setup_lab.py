"""What the set-up does in Lab: its server stores an explorer as its picture, its kernels load torch as they start."""

import copy
import shutil

from checkouts import ROOT
from made import make

from tools.notebooks.own_sockets import KernelManager
from tools.setup.lab_hook import SVG, VIEW, drop_dead_views


def stored(*outputs):
    """What's stored of a notebook's outputs."""
    cells = [{"cell_type": "markdown", "source": "text"}, {"cell_type": "code", "outputs": list(outputs)}]
    drop_dead_views(model={"type": "notebook", "content": {"cells": cells}}, path="01.ipynb", contents_manager=None)
    return cells[1]["outputs"]


def output(**data):
    return {"output_type": "display_data", "metadata": {}, "data": {VIEW: {"model_id": "1"}} | data}


def test_an_explorer_is_stored_as_its_first_picture_a_progress_bar_not_at_all_and_others_stay():
    bundle, bar = make("Playground")._repr_mimebundle_(), output(**{"text/plain": ["train:   0%|          | 0/8"]})
    others = [output(**{"text/plain": "VBox()"}), {"output_type": "stream", "name": "stdout", "text": "a 5%| b"}]
    assert VIEW in bundle
    shown, *rest = stored(output(**bundle), bar, *copy.deepcopy(others))
    assert shown["data"] == {kind: bundle[kind] for kind in (SVG, "text/plain")}
    assert rest == others
    drop_dead_views(model={"type": "file", "content": "text"})


AT_ONCE = "import torch.nn.functional"  # on two threads at once it would break torch
LOADED = "print('matplotlib.backends.backend_agg' in __import__('sys').modules, [n for n in dir() if n[0] != '_'])"


def test_the_first_cell_finds_torch_and_what_figures_are_drawn_with(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    (tmp_path / "profile_default").mkdir()
    shutil.copy(ROOT / "tools/setup/venv_files/etc/ipython/ipython_kernel_config.py", tmp_path / "profile_default")
    manager, heard = KernelManager(kernel_name="python3"), []
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=100)  # what a kernel says before it is heard would be lost
        for cell in (AT_ONCE, LOADED):
            client.execute_interactive(cell, timeout=100, output_hook=lambda message: heard.append(message["content"]))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    said = "".join(content.get("text", content.get("ename", "")) for content in heard)  # one print may be several
    assert said == "True ['In', 'Out', 'exit', 'get_ipython', 'open', 'quit', 'torch']\n"

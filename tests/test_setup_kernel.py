"""A kernel of .venv imports torch as it starts, and otherwise nobody notices."""

import os
import shutil

import pytest
from checkouts import ROOT

from tools.notebooks.own_sockets import KernelManager

CONFIG = ROOT / "tools/setup/venv_files/etc/ipython/ipython_kernel_config.py"
WAIT = "[thread.join() for thread in __import__('threading').enumerate() if thread.name == 'preload'] and None"
LOADED = "print('torch' in __import__('sys').modules, [name for name in dir() if not name.startswith('_')])"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a cell in a kernel with these settings and no others, and returns what it printed or its error's message."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    (tmp_path / "ipython/profile_default").mkdir(parents=True)
    shutil.copy(CONFIG, tmp_path / "ipython/profile_default")
    manager, heard = KernelManager(kernel_name="python3"), []
    manager.start_kernel(env=os.environ | {"PYTHONPATH": str(tmp_path)})
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=100)  # what a kernel says before it is heard would be lost

    def run(cell):
        heard.clear()
        client.execute_interactive(cell, timeout=100, output_hook=lambda message: heard.append(message["content"]))
        # A kernel may send one print as several messages.
        return "".join(content.get("text") or content.get("evalue") or "" for content in heard)

    yield run
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.fixture
def broken(tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('no such library')")


NAMES = "['In', 'Out', 'exit', 'get_ipython', 'open', 'quit']"


def test_torch_is_there_before_it_is_asked_for(run):
    assert [run(cell) for cell in ("print(1 + 1)", WAIT, LOADED)] == ["2\n", "", f"True {NAMES}\n"]


def test_a_broken_torch_is_reported_by_the_cell_that_needs_it(broken, run):
    assert [run(cell) for cell in (WAIT, LOADED, "import torch")] == ["", f"False {NAMES}\n", "no such library"]

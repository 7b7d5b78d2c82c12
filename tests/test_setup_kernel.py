"""A kernel of .venv imports torch as it starts, and otherwise nobody notices."""

import shutil

import pytest
from checkouts import ROOT

from tools.notebooks.own_sockets import KernelManager

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

"""A kernel of .venv imports torch as it starts, and otherwise nobody notices."""

import shutil

import pytest
from checkouts import ROOT

from tools.notebooks.own_sockets import KernelManager

CONFIG = ROOT / "tools/setup/venv_files/etc/ipython/ipython_kernel_config.py"
WAIT = "[thread.join() for thread in __import__('threading').enumerate() if thread.name == 'preload'] and None"
LOADED = "print('torch' in __import__('sys').modules, [name for name in dir() if not name.startswith('_')])"


@pytest.fixture
def client(tmp_path, monkeypatch):
    """What talks to a kernel with these settings and no others."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    (tmp_path / "profile_default").mkdir()
    shutil.copy(CONFIG, tmp_path / "profile_default")
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=100)  # what a kernel says before it is heard would be lost
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_torch_is_there_before_it_is_asked_for(client):
    heard = []
    for cell in (WAIT, LOADED):
        client.execute_interactive(cell, timeout=100, output_hook=lambda message: heard.append(message["content"]))
    said = "".join(content["text"] for content in heard if "text" in content)  # one print may be several messages
    assert said == "True ['In', 'Out', 'exit', 'get_ipython', 'open', 'quit']\n"

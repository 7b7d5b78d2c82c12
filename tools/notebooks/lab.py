"""A real JupyterLab in a real Chromium, as a learner meets it: started, opened, run, looked at."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

TOKEN = "browser-test"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PRIVATE = [
    *("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"),
    *("JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR"),
]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def server(root, scratch, overrides=True):
    """JupyterLab over the folder `root`, with settings of its own in `scratch`; yields its address.

    overrides: whether it starts with the course's Lab settings, or as a Lab that knows nothing of them.
    """
    port = free_port()
    private = {name: str(Path(scratch) / name.lower()) for name in PRIVATE}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
    command += [f"--port={port}", f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={root}"]
    if not overrides:
        (Path(scratch) / "no-settings").mkdir(exist_ok=True)
        command.append(f"--LabApp.app_settings_dir={Path(scratch) / 'no-settings'}")
    log = open(Path(scratch) / "server.log", "w")  # noqa: SIM115 - the server writes to it as long as it lives
    process = subprocess.Popen(command, env=os.environ | private | {"OMP_NUM_THREADS": "1"}, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until_up(address, process)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=20)
        log.close()


def wait_until_up(address, process, seconds=60):
    for _ in range(seconds * 5):
        if process.poll() is not None:
            raise RuntimeError(f"JupyterLab stopped with exit status {process.returncode}")
        try:
            urllib.request.urlopen(f"{address}/api/status?token={TOKEN}", timeout=5)
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not answer within {seconds} s")


class Lab:
    """One notebook, open in one browser page."""

    def __init__(self, page, address):
        self.page, self.address, self.errors = page, address, []
        self.kernel_answers, self.executed = False, 0
        page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("websocket", lambda socket: socket.on("framereceived", self._received))

    def _received(self, frame):
        content = frame.encode() if isinstance(frame, str) else frame
        self.kernel_answers |= b"comm_info_reply" in content  # before that, Run All can be lost
        self.executed += b'"execute_reply"' in content

    def _wait_until(self, done, what, seconds):
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} within {seconds} s")
            self.page.wait_for_timeout(50)

    def open(self, name):
        """Open a notebook and wait until its kernel answers."""
        self.kernel_answers = False
        self.page.goto(f"{self.address}/lab/tree/{name}?reset&token={TOKEN}")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached", timeout=60_000)
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)
        self._wait_until(lambda: self.kernel_answers, f"the kernel of {name} did not answer", 60)

    def run_all(self, cells, seconds=120):
        """Menu Run, Run All Cells; wait until the kernel has answered so many cells."""
        self.executed = 0
        self.page.locator(".lm-MenuBar-itemLabel", has_text="Run").first.click()
        self.page.locator(".lm-Menu-item[data-command='runmenu:run-all']").click()
        self._wait_until(lambda: self.executed >= cells, f"{cells} cells were not run", seconds)
        self.page.wait_for_timeout(500)  # the last outputs are painted after the last reply

"""A real JupyterLab in a real Chromium, as a learner meets it: started, opened, run, looked at."""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

from tools.notebooks.own_sockets import NAMED, SHORT

TOKEN = "browser-test"
PATIENCE = 120  # seconds, of which a quiet machine needs few: a wait ends when its condition holds
# Below the ports that systems give to connections. One that is taken Jupyter leaves, and writes down which it took.
PORTS = range(10_000, 30_000)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--disable-gpu", "--disable-quic"]  # beside those that playwright always gives
# Lab renders cells while the browser has nothing to do: on a busy machine a few every 3 s, in all more than a minute.
# Where a browser cannot say that it is idle (Safari), Lab renders them one after the other, and so it does here.
NEVER_IDLE = "delete window.requestIdleCallback"
SAVING = "--ContentsManager.pre_save_hook=tools.setup.lab_hook.drop_dead_views"  # as make lab has it
PRIVATE = ["JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"]
PRIVATE += ["JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR"]


@contextmanager
def server(root, scratch, app="jupyterlab"):
    """JupyterLab, or another app such as notebook, over the folder `root`, with settings of its own in `scratch`.

    Yields its address, and the folder in which it writes how its kernels are reached.
    """
    private = {name: str(Path(scratch) / name.lower()) for name in PRIVATE}
    command = [sys.executable, "-m", app, "--no-browser", "--allow-root", "--ip=127.0.0.1"]
    command += [f"--port={random.choice(PORTS)}", f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={root}"]
    command += [SAVING, "--KernelManager.transport=ipc"] if NAMED else [SAVING]
    with (
        tempfile.TemporaryDirectory(dir=SHORT, ignore_cleanup_errors=True) as runtime,
        open(Path(scratch) / "server.log", "w") as log,
    ):
        environment = os.environ | private | {"JUPYTER_RUNTIME_DIR": runtime, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield address_of(process, Path(runtime)), Path(runtime)
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)


def address_of(process, runtime):
    """The address that a JupyterLab has written down, as soon as it answers there."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"JupyterLab stopped with exit status {process.returncode}")
        with suppress(OSError, ValueError):  # nothing is written yet, or half of it; or nobody listens yet
            [file] = runtime.glob("jpserver-*.json")
            address = f"http://127.0.0.1:{json.loads(file.read_text())['port']}"
            urllib.request.urlopen(f"{address}/api/status?token={TOKEN}", timeout=PATIENCE)
            return address
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not answer within {PATIENCE} s")


class Lab:
    """One notebook, open in one browser page."""

    def __init__(self, page, address):
        self.page, self.address, self.errors = page, address, []
        self.kernel_answers, self.executed, self.failed = False, 0, False
        page.set_default_timeout(1000 * PATIENCE)
        page.add_init_script(NEVER_IDLE)
        page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("websocket", lambda socket: socket.on("framereceived", self._received))

    def _received(self, frame):
        content = frame.encode() if isinstance(frame, str) else frame
        self.kernel_answers |= b"comm_info_reply" in content  # before that, Run All can be lost
        if b'"execute_reply"' in content:
            self.executed += 1
            self.failed |= b'"status": "error"' in content

    def wait_until(self, done, what, seconds=PATIENCE):
        """Wait until `done()`; messages of the page are heard meanwhile."""
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} within {seconds} s")
            self.page.wait_for_timeout(30)

    def open(self, name):
        """Open a notebook and wait until its kernel answers."""
        self.kernel_answers = False
        self.page.goto(f"{self.address}/lab/tree/{name}?reset&token={TOKEN}")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        self.wait_until(lambda: self.kernel_answers, f"the kernel of {name} did not answer")

    def run_all(self, cells, seconds=5 * PATIENCE):
        """Menu Run, Run All Cells; wait until the kernel has answered so many cells, or one of them fails."""
        self.executed, self.failed = 0, False
        self.page.locator(".lm-MenuBar-itemLabel", has_text="Run").first.click()
        self.page.locator(".lm-Menu-item[data-command='runmenu:run-all']").click()
        self.wait_until(lambda: self.failed or self.executed >= cells, f"{cells} cells were not run", seconds)

"""A real JupyterLab in a real Chromium, as a learner meets it: started, opened, run, looked at."""

import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import namedtuple
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from jupyter_client import BlockingKernelClient
from xdist.scheduler import LoadScopeScheduling

from tools.notebooks.own_sockets import NAMED, SHORT

TOKEN = "browser-test"
PATIENCE = 120  # seconds, of which a quiet machine needs few: a wait ends when its condition holds
# Below the ports that systems give to connections. One that is taken Jupyter leaves, and writes down which it took.
PORTS = range(10_000, 30_000)
SIZE, TALL = {"width": 1400, "height": 900}, {"width": 1400, "height": 24_000}  # higher than any notebook
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--disable-gpu", "--disable-quic"]  # beside those that playwright always gives
# Lab renders cells while the browser has nothing to do: on a busy machine a few every 3 s, in all more than a minute.
# Where a browser cannot say that it is idle (Safari), Lab renders them one after the other, and so it does here.
NEVER_IDLE = "delete window.requestIdleCallback"
# A running Lab: its address, and the folders of its notebooks, of its settings, and of how to reach its kernels.
Served = namedtuple("Served", "address folder scratch runtime")
SAVING = "--ContentsManager.pre_save_hook=tools.setup.lab_hook.drop_dead_views"  # as make lab has it
PRIVATE = ["JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"]
PRIVATE += ["JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR"]


class InTurn(LoadScopeScheduling):
    """All tests of one notebook or page run in one process, in a row, so that it's opened once."""

    def _split_scope(self, nodeid):
        # A test's other parameters come before its notebook. Tests without one are kept together by file.
        return nodeid.rpartition("[")[2].rpartition("-")[2] if "[" in nodeid else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return InTurn(config, log)


def wait_until(done, what, seconds=PATIENCE, pause=time.sleep):
    """What `done()` returns, as soon as that is true; else a TimeoutError that says what did not come about."""
    deadline = time.monotonic() + seconds
    while not (found := done()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what() if callable(what) else what} within {seconds} s")
        pause(0.05)
    return found


@contextmanager
def server(root, scratch):
    """JupyterLab, and beside it Notebook 7, over the folder `root`, with settings of its own in `scratch`."""
    private = {name: str(Path(scratch) / name.lower()) for name in PRIVATE}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
    command += [f"--port={random.choice(PORTS)}", f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={root}"]
    command += [SAVING, "--KernelManager.transport=ipc"] if NAMED else [SAVING]
    with (
        tempfile.TemporaryDirectory(dir=SHORT, ignore_cleanup_errors=True) as runtime,
        open(Path(scratch) / "server.log", "w") as log,
    ):
        environment = os.environ | private | {"JUPYTER_RUNTIME_DIR": runtime}
        environment.pop("OMP_NUM_THREADS", None)  # kernels set it, as a learner's do
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield Served(address_of(process, Path(runtime)), root, scratch, Path(runtime))
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)


def address_of(process, runtime):
    """The address that a JupyterLab has written down, as soon as it answers there."""

    def answering():
        if process.poll() is not None:
            raise RuntimeError(f"JupyterLab stopped with exit status {process.returncode}")
        with suppress(OSError, ValueError):  # nothing is written yet, or half of it; or nobody listens yet
            [file] = runtime.glob("jpserver-*.json")
            address = f"http://127.0.0.1:{json.loads(file.read_text())['port']}"
            urllib.request.urlopen(f"{address}/api/status?token={TOKEN}", timeout=PATIENCE)
            return address

    return wait_until(answering, "JupyterLab did not answer")


class Kernel:
    """The kernel behind an open notebook: `ask` evaluates a Python expression there, unseen by the notebook."""

    def __init__(self, served, name):
        with urllib.request.urlopen(f"{served.address}/api/sessions?token={TOKEN}") as answer:
            [number] = [session["kernel"]["id"] for session in json.load(answer) if session["path"] == name]
        self.address, self.client = f"{served.address}/api/kernels/{number}?token={TOKEN}", BlockingKernelClient()
        self.client.load_connection_file(str(served.runtime / f"kernel-{number}.json"))
        self.client.start_channels()

    def ask(self, expression):
        """The value of an expression, which must be made of Python literals."""
        question = {"answer": f"repr({expression})"}  # twice repr: IPython shortens long lists, but no string
        reply = self.client.execute("", silent=True, user_expressions=question, reply=True, timeout=PATIENCE)
        answer = reply["content"]["user_expressions"]["answer"]
        assert answer["status"] == "ok", answer
        return ast.literal_eval(ast.literal_eval(answer["data"]["text/plain"]))

    def do(self, *calls):
        self.ask(f"[{', '.join(calls)}] and None")

    def wait_for(self, expression, value=True):
        said = "{} is {}, not {}".format
        wait_until(lambda: self.ask(expression) == value, lambda: said(expression, self.ask(expression), value))

    def stop(self):
        """End it, so that the kernels of many notebooks do not fill the memory."""
        self.client.stop_channels()
        urllib.request.urlopen(urllib.request.Request(self.address, method="DELETE"))


class Lab:
    """One notebook, open in one browser page."""

    def __init__(self, browser, served, viewport=SIZE):
        self.page, self.served, self.errors = browser.new_page(viewport=viewport), served, []
        self.kernel, self.kernel_answers, self.executed, self.failed = None, False, 0, False
        self.page.set_default_timeout(1000 * PATIENCE)
        self.page.add_init_script(NEVER_IDLE)
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("websocket", lambda socket: socket.on("framereceived", self._received))

    def _received(self, frame):
        content = frame.encode() if isinstance(frame, str) else frame
        self.kernel_answers |= b"comm_info_reply" in content  # before that, Run All can be lost
        if b'"execute_reply"' in content:
            self.executed += 1
            self.failed |= b'"status": "error"' in content

    def wait_until(self, done, what, seconds=PATIENCE):
        """Wait until `done()`; messages of the page are heard meanwhile."""
        return wait_until(done, what, seconds, lambda pause: self.page.wait_for_timeout(1000 * pause))

    def open(self, name):
        """Open a notebook and wait until its kernel answers."""
        self.kernel_answers = False
        self.page.goto(f"{self.served.address}/lab/tree/{name}?reset&token={TOKEN}")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        self.wait_for_kernel()

    def wait_for_kernel(self):
        self.wait_until(lambda: self.kernel_answers, "the kernel did not answer")

    def choose(self, menu, command):
        """Choose a command from one of Lab's menus."""
        self.page.locator(".lm-MenuBar-itemLabel", has_text=menu).first.click()
        self.page.locator(f".lm-Menu-item[data-command='{command}']").click()

    def restart(self):
        self.kernel_answers = False
        self.choose("Kernel", "kernelmenu:restart")
        self.page.locator(".jp-Dialog .jp-mod-accept").click()
        self.wait_for_kernel()

    def run_all(self, cells, seconds=5 * PATIENCE):
        """Menu Run, Run All Cells; wait until the kernel has answered so many cells, or one of them fails."""
        self.executed, self.failed = 0, False
        self.choose("Run", "runmenu:run-all")
        self.wait_until(lambda: self.failed or self.executed >= cells, f"{cells} cells were not run", seconds)

    def nudge(self, handle):
        """Move a slider to a value beside its own, by a key."""
        at_end = handle.get_attribute("aria-valuenow") == handle.get_attribute("aria-valuemax")
        handle.press("ArrowLeft" if at_end else "ArrowRight")

    def rest(self):
        """Pause what plays, all at once: a training may end by itself between two clicks."""
        playing = self.page.locator(".attention-explorer button:has-text('Pause')")
        playing.evaluate_all("buttons => buttons.forEach(button => button.click())")

    def save(self):
        """Press the keys that save, and wait until nothing is unsaved."""
        self.page.keyboard.press("Control+s")
        self.page.locator(".jp-mod-dirty").first.wait_for(state="detached")

"""A real hub on this machine alone, accounts that are made for it and removed after it, and learners who log in."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
import requests
import websocket
from jupyter_client import BlockingKernelClient
from lab import wait_until
from nbformat.v4 import output_from_msg

CONFIG = Path(__file__).resolve().parents[2] / "classroom" / "jupyterhub_config.py"
GROUP = "attention-test"
PUPILS = [f"attention-test-{number}" for number in range(1, 6)]
OUTSIDER = "attention-test-0"  # an account of the machine's that is in no class
PASSWORD = secrets.token_urlsafe()  # others on this machine must not know it
PATIENCE = 240  # seconds, of which a quiet machine needs few
TRIAL = """
load_subconfig({config!r})
c.LocalAuthenticator.allowed_groups = {{{group!r}}}
c.JupyterHub.bind_url, c.JupyterHub.hub_bind_url, c.ConfigurableHTTPProxy.api_url = {urls}
"""
OUTPUTS = ("stream", "display_data", "execute_result", "error")
os.environ["no_proxy"] = "127.0.0.1"


def skip_or_fail(lacking):
    """Skip a test for what this machine lacks; where the classroom is required, as CI has it, that's a failure."""
    (pytest.fail if os.environ.get("CLASSROOM") == "required" else pytest.skip)(lacking)


def processes_of(pupil):
    return [process for process in psutil.process_iter(["username"]) if process.info["username"] == pupil]


def killed(processes):
    """Kill processes, and return them: one may just have started another."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    return processes


def remove_accounts():
    """Remove what is there of them; a run that was killed has left all."""
    for pupil in [OUTSIDER, *PUPILS]:
        wait_until(lambda pupil=pupil: not killed(processes_of(pupil)), f"processes of {pupil} do not end")
        subprocess.run(["userdel", pupil], stderr=subprocess.DEVNULL)
    subprocess.run(["groupdel", GROUP], stderr=subprocess.DEVNULL)


@contextmanager
def accounts():
    """The pupils' accounts, all in one group, made as the classroom's page says; yields the folder of their homes."""
    remove_accounts()
    homes = Path(tempfile.mkdtemp(prefix="class-", dir="/tmp"))
    homes.chmod(0o755)
    try:
        subprocess.run(["groupadd", GROUP], check=True)
        for pupil in [OUTSIDER, *PUPILS]:
            own = ["--create-home", "--home-dir", homes / pupil, "--shell", "/bin/bash"]
            own += ["--gid", "nogroup" if pupil == OUTSIDER else GROUP]
            subprocess.run(["useradd", *own, pupil], check=True)
            subprocess.run(["chpasswd"], input=f"{pupil}:{PASSWORD}\n", text=True, check=True)
        yield homes
    finally:
        remove_accounts()
        shutil.rmtree(homes)


def free_address(_):
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def answers(process, address):
    if process.poll() is not None:
        raise RuntimeError(f"the hub stopped with exit status {process.returncode}")
    with suppress(requests.ConnectionError):
        return requests.get(f"{address}/hub/health", timeout=PATIENCE).ok


@contextmanager
def hub(homes):
    """JupyterHub with the classroom's own settings, but for ports and the group; it writes to homes/hub."""
    folder, urls = homes / "hub", [*map(free_address, range(3))]
    folder.mkdir(mode=0o700)
    (folder / "config.py").write_text(TRIAL.format(config=str(CONFIG), group=GROUP, urls=urls))
    with open(folder / "log", "w") as log:
        command = [sys.executable, "-m", "jupyterhub", "--config", "config.py"]
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until(lambda: answers(process, urls[0]), "the hub does not answer", PATIENCE)
        yield urls[0]
    except BaseException:
        for log in [folder / "log", *homes.glob("*/.*-server.log")]:  # the hub's, and those of the servers so far
            print(log.read_text()[-6000:])
        raise
    finally:
        helpers = psutil.Process(process.pid).children(recursive=True)  # the proxy and the culler among them
        process.terminate()
        process.wait(60)
        killed(helpers)


class Pupil:
    """Somebody with a browser."""

    def __init__(self, address, name):
        self.address, self.name, self.browser = address, name, requests.Session()
        self.home = f"{address}/user/{name}"

    def get(self, url):
        return self.browser.get(url, timeout=PATIENCE)

    def request(self, method, url, **more):
        """As a page of one's own server does: with the token that its cookie holds."""
        token = self.browser.cookies.get("_xsrf", path=f"/user/{self.name}/")
        return self.browser.request(method, url, headers={"X-XSRFToken": token}, timeout=PATIENCE, **more)

    def log_in(self, password=PASSWORD):
        page = self.get(f"{self.address}/hub/login")
        form = {"username": self.name, "password": password, "_xsrf": self.browser.cookies["_xsrf"]}
        return self.browser.post(page.url, data=form, allow_redirects=False, timeout=PATIENCE)

    def start(self):
        """Ask for a server, and wait as its page does: for an answer that ends once the server is ready."""
        self.get(f"{self.address}/hub/spawn")
        token = self.browser.cookies.get("_xsrf", path="/hub/")
        progress = self.get(f"{self.address}/hub/api/users/{self.name}/server/progress?_xsrf={token}")
        assert '"ready": true' in progress.text, progress.text
        assert self.get(f"{self.home}/lab").url.startswith(self.home)

    @contextmanager
    def kernel_of(self, path):
        """The kernel of a notebook that this pupil opens, in a session that ends with it."""
        asked = {"path": path, "name": path, "type": "notebook", "kernel": {"name": "python3"}}
        answer = self.request("POST", f"{self.home}/api/sessions", json=asked)
        assert answer.status_code == 201, answer.text
        session, client = answer.json(), BlockingKernelClient()
        number = session["kernel"]["id"]
        client.load_connection_file(str(Path(f"~{self.name}/.jupyter/run/kernel-{number}.json").expanduser()))
        client.start_channels()
        page = requests.Request("GET", f"{self.home}/api/kernels/{number}/channels")
        own = {"timeout": PATIENCE, "cookie": self.browser.prepare_request(page).headers["Cookie"]}
        heard = websocket.create_connection(page.url.replace("http", "ws", 1), **own)
        try:
            client.wait_for_ready(PATIENCE)
            assert heard.recv(), "a page hears what the kernel says"
            yield client
        finally:
            heard.close()
            client.stop_channels()
            self.request("DELETE", f"{self.home}/api/sessions/{session['id']}")


def run(kernel, source):
    """Execute a cell; return the status, and the outputs as a notebook keeps them."""
    said = []
    reply = kernel.execute_interactive(source, allow_stdin=False, output_hook=said.append, timeout=PATIENCE)
    outputs = [output_from_msg(message) for message in said if message["msg_type"] in OUTPUTS]
    return reply["content"]["status"], outputs

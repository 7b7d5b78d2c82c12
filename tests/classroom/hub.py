"""A real hub on this machine alone, accounts that are made for it and removed after it, and learners who log in."""

import pwd
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import requests

COURSE = Path(__file__).resolve().parents[2]
CONFIG = COURSE / "classroom" / "jupyterhub_config.py"
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


def wait_until(done, what, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while not (found := done()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.3)
    return found


def processes_of(pupil):
    uid = pwd.getpwnam(pupil).pw_uid
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):
            found += [process] if process.uids().real == uid else []
    return found


def killed(processes):
    """Kill processes, and return them: one may just have started another."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    return processes


def remove_accounts():
    for pupil in {OUTSIDER, *PUPILS} & {account.pw_name for account in pwd.getpwall()}:
        wait_until(lambda pupil=pupil: not killed(processes_of(pupil)), f"processes of {pupil} end")
        subprocess.run(["userdel", pupil], check=True)
    subprocess.run(["groupdel", GROUP], stderr=subprocess.DEVNULL)  # it is not there at the first run


@contextmanager
def accounts():
    """The pupils' accounts, all in one group, made as the classroom's page says; yields the folder of their homes."""
    remove_accounts()  # those that a run that was killed has left
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


def free_addresses(count):
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [f"http://127.0.0.1:{each.getsockname()[1]}" for each in sockets]


def answers(process, address):
    if process.poll() is not None:
        raise RuntimeError(f"the hub stopped with exit status {process.returncode}")
    with suppress(requests.ConnectionError), requests.Session() as browser:
        browser.trust_env = False  # no proxy of the machine's
        return browser.get(f"{address}/hub/health", timeout=PATIENCE).ok


@contextmanager
def hub(homes):
    """JupyterHub with the classroom's own settings, but for ports and the group: its address, and where it writes."""
    folder = homes / "hub"
    folder.mkdir(mode=0o700)
    urls = free_addresses(3)
    settings = {"config": str(CONFIG), "group": GROUP, "urls": urls}
    (folder / "config.py").write_text(TRIAL.format(**settings))
    with open(folder / "log", "w") as log:
        command = [sys.executable, "-m", "jupyterhub", "--config", "config.py"]
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until(lambda: answers(process, urls[0]), "the hub answers")
        yield urls[0], folder
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
        self.browser.trust_env = False  # no proxy of the machine's
        self.home = f"{address}/user/{name}"

    def cookies_of(self, place):
        return [cookie for cookie in self.browser.cookies if cookie.path in (place, "/")]

    def request(self, method, url, **more):
        """As a page of one's own server does: with the token that its cookie holds."""
        [token] = [cookie.value for cookie in self.cookies_of(f"/user/{self.name}/") if cookie.name == "_xsrf"]
        return self.browser.request(method, url, headers={"X-XSRFToken": token}, timeout=PATIENCE, **more)

    def log_in(self, password=PASSWORD):
        page = self.browser.get(f"{self.address}/hub/login", timeout=PATIENCE)
        form = {"username": self.name, "password": password, "_xsrf": self.browser.cookies["_xsrf"]}
        return self.browser.post(page.url, data=form, allow_redirects=False, timeout=PATIENCE)

    def log_out(self):
        return self.browser.get(f"{self.address}/hub/logout", timeout=PATIENCE)

    def start(self):
        """Ask for a server and wait until it answers this browser."""
        self.browser.get(f"{self.address}/hub/spawn", timeout=PATIENCE)
        wait_until(self.is_ready, f"the server of {self.name} is ready")

    def is_ready(self):
        """Whether the page that tells somebody to wait has led on to the server."""
        answer = self.browser.get(f"{self.address}/hub/spawn-pending/{self.name}", timeout=PATIENCE)
        return answer.ok and answer.url.startswith(f"{self.home}/")

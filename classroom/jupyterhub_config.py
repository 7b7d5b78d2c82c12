"""A hub for a class: a login, and behind it a JupyterLab of one's own with the course in it.

`sudo make classroom` starts it; README.md in this folder says what a teacher does before and after.
"""

import os
import pwd
import subprocess
import sys
from pathlib import Path

from jupyterhub.spawner import LocalProcessSpawner

COURSE = Path(__file__).resolve().parents[1]
BUILD = COURSE / "build" / "classroom"
GROUP = "course"  # of the machine: who is in it may log in
IDLE = 3600  # seconds in which no page is in view and nothing runs or prints, after which a server is stopped
LOGIN = 12 * 3600  # seconds after which a browser must log in again
LOG = ".attention-server.log"  # in each learner's home: what the server and its kernels write about themselves

os.umask(0o077)  # what the hub and the servers write, its database among it, is their own


class CourseSpawner(LocalProcessSpawner):
    """Start a learner's server under the learner's own account, in a home that no other account may enter.

    Errors: RuntimeError for an account in whose home the course lies, because the others would then not find it.
    """

    async def start(self):
        account = pwd.getpwnam(self.user.name)
        if COURSE.is_relative_to(Path(account.pw_dir).resolve()):
            raise RuntimeError(f"the course lies in the home of {self.user.name}: move it, or take another account")
        os.chmod(account.pw_dir, 0o700)
        return await super().start()


c = get_config()  # noqa: F821 (what reads this file defines it)

# Who: the machine's own accounts and passwords (PAM).
c.JupyterHub.authenticator_class = "pam"
c.LocalAuthenticator.allowed_groups = {GROUP}

# For how long: on a shared computer, whoever comes next to a browser that was left open is taken for the one before.
# By default a login lasts 14 days, and logging out leaves the server and its kernels running.
c.JupyterHub.cookie_max_age_days = LOGIN / (24 * 3600)
c.JupyterHub.shutdown_on_logout = True

# Where: this machine alone, until you name an address and a certificate.
c.JupyterHub.bind_url = "http://127.0.0.1:8000"
c.ConfigurableHTTPProxy.command = [str(BUILD / "node_modules" / ".bin" / "configurable-http-proxy")]

# What.
c.JupyterHub.spawner_class = CourseSpawner
# Kernels inherit what their server holds open, so the hub gives them no file of its own: nothing from the terminal in
# which it was started, and no log of root's, which a learner could erase. The shell runs under the learner's account.
c.LocalProcessSpawner.popen_kwargs = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
WITH_LOG = f'exec "$0" "$@" >>"$HOME/{LOG}" 2>&1'
c.Spawner.cmd = ["/bin/sh", "-c", WITH_LOG, sys.executable, str(COURSE / "classroom" / "learner.py")]
c.Spawner.environment = {
    "ATTENTION_HELPERS_CACHE": str(BUILD / "model"),  # the language model, decoded once for all
}
c.Spawner.start_timeout = c.Spawner.http_timeout = 300  # seconds: when a class starts at once, each waits for all

# Until when: the culler stops idle servers, and may do nothing else. Files stay; kernels end.
CULLER = [sys.executable, "-m", "jupyterhub_idle_culler", f"--timeout={IDLE}"]
MAY = ["list:users", "read:users:activity", "read:servers", "delete:servers"]
c.JupyterHub.services = [{"name": "culler", "command": CULLER}]
c.JupyterHub.load_roles = [{"name": "culler", "services": ["culler"], "scopes": MAY}]

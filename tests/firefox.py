"""A Firefox, steered by WebDriver BiDi, which it speaks itself: no more is needed than a socket."""

import itertools
import json
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import websocket
from lab import PATIENCE, wait_until

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
RIGHT = "\ue014"  # the arrow key, as WebDriver names it
# What would ask the network for news.
QUIET = """user_pref("services.settings.server", "data:,");
user_pref("app.normandy.enabled", false);
"""


@contextmanager
def firefox():
    """A page in a new Firefox, without window and history."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        Path(profile, "user.js").write_text(QUIET)
        command = [FIREFOX, "--headless", "--no-remote", "--remote-debugging-port=0", "--profile", profile]
        with open(Path(profile, "log"), "w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield Page(wait_until(lambda: address_in(Path(profile, "log")), "Firefox did not answer"))
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)


def address_in(log):
    found = re.search(r"WebDriver BiDi listening on (\S+)", log.read_text(errors="replace"))
    return found and f"{found[1]}/session"


class Page:
    """One page: commands are those of WebDriver BiDi."""

    def __init__(self, address):
        self.socket = websocket.create_connection(address, timeout=PATIENCE, suppress_origin=True)
        self.numbers = itertools.count(1)
        self.ask("session.new", capabilities={})
        self.context = self.ask("browsingContext.getTree")["contexts"][0]["context"]

    def ask(self, method, **params):
        """Send a command and return its result; events that come meanwhile are dropped."""
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while (answer := json.loads(self.socket.recv())).get("id") != number:
            pass
        assert answer["type"] == "success", answer
        return answer["result"]

    def open(self, address):
        self.ask("browsingContext.navigate", context=self.context, url=address, wait="complete")

    def evaluate(self, expression):
        """The value of a JavaScript expression: a string, a number, a boolean or None."""
        target = {"context": self.context}
        answer = self.ask("script.evaluate", expression=expression, target=target, awaitPromise=True)
        assert answer["type"] == "success", answer
        return answer["result"].get("value")

    def wait_for(self, expression):
        return wait_until(lambda: self.evaluate(expression), f"{expression} was not true")

    def press(self, key):
        actions = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        self.act({"type": "key", "id": "keyboard", "actions": actions})

    def drag(self, selector, right=0):
        """Press the mouse on the middle of what's found, and let it go so many pixels to the right."""
        found = f"document.querySelector({json.dumps(selector)}).getBoundingClientRect()"
        middle = "({x, y, width, height}) => `${x + width / 2} ${y + height / 2}`"
        x, y = (round(float(place)) for place in self.evaluate(f"({middle})({found})").split())
        start = {"type": "pointerMove", "x": x, "y": y}
        end = {"type": "pointerMove", "x": x + right, "y": y}
        actions = [start, {"type": "pointerDown", "button": 0}, end, {"type": "pointerUp", "button": 0}]
        self.act({"type": "pointer", "id": "mouse", "actions": actions})

    def act(self, actions):
        self.ask("input.performActions", context=self.context, actions=[actions])

"""A second connection to the kernel of a notebook that is open in Lab: what does it say itself?"""

import ast
import json
import urllib.request

from jupyter_client import BlockingKernelClient
from lab import PATIENCE, TOKEN


class Kernel:
    """The kernel behind an open notebook: `ask` evaluates a Python expression there, unseen by the notebook."""

    def __init__(self, served, name):
        self.address = served.address
        with urllib.request.urlopen(f"{self.address}/api/sessions?token={TOKEN}") as answer:
            [self.id] = [session["kernel"]["id"] for session in json.load(answer) if session["path"] == name]
        self.client = BlockingKernelClient()
        self.client.load_connection_file(str(served.runtime / f"kernel-{self.id}.json"))
        self.client.start_channels()

    def ask(self, expression, seconds=PATIENCE):
        """The value of an expression, which must be made of Python literals."""
        question = {"answer": f"repr({expression})"}  # twice repr: IPython shortens long lists, but no string
        reply = self.client.execute("", silent=True, user_expressions=question, reply=True, timeout=seconds)
        answer = reply["content"]["user_expressions"]["answer"]
        assert answer["status"] == "ok", answer
        return ast.literal_eval(ast.literal_eval(answer["data"]["text/plain"]))

    def stop(self):
        """End it, so that the kernels of many notebooks do not fill the memory."""
        self.client.stop_channels()
        request = urllib.request.Request(f"{self.address}/api/kernels/{self.id}?token={TOKEN}", method="DELETE")
        urllib.request.urlopen(request)

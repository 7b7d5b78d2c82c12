"""A kernel as JupyterLab talks to it: a session asked for by REST, messages by a websocket."""

import json
from contextlib import contextmanager, suppress

import websocket
from hub import PATIENCE
from jupyter_client.jsonutil import json_default
from jupyter_client.session import Session

OUTPUTS = ("stream", "display_data", "execute_result", "error")


class Kernel:
    """The kernel of one open notebook."""

    def __init__(self, socket):
        self.socket, self.session = socket, Session()

    def send(self, kind, content):
        message = self.session.msg(kind, content) | {"channel": "shell", "buffers": []}
        self.socket.send(json.dumps(message, default=json_default))
        return message["msg_id"]

    def answers_to(self, request):
        """What a request brings, as pairs of a kind and a content, until the kernel is done with it."""
        replied = idle = False
        while not (replied and idle):
            message = json.loads(self.socket.recv())
            kind, content = message["msg_type"], message["content"]
            if message["parent_header"].get("msg_id") == request:
                replied |= kind.endswith("_reply")
                idle |= kind == "status" and content["execution_state"] == "idle"
                yield kind, content

    def run(self, source):
        """Execute a cell; return the status, and the outputs as a notebook keeps them."""
        ask = {"code": source, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        answers = list(self.answers_to(self.send("execute_request", ask)))
        [status] = [content["status"] for kind, content in answers if kind == "execute_reply"]
        for _, content in answers:
            content.pop("transient", None)
        return status, [{"output_type": kind, **content} for kind, content in answers if kind in OUTPUTS]

    def say(self, source):
        """What a cell prints, as JSON."""
        status, outputs = self.run(source)
        assert status == "ok", outputs
        return json.loads("".join(output["text"] for output in outputs if output["output_type"] == "stream"))


@contextmanager
def opened(pupil, path):
    """The kernel of a notebook that a pupil opens, in a session that ends with it."""
    asked = {"path": path, "name": path, "type": "notebook", "kernel": {"name": "python3"}}
    answer = pupil.request("POST", f"{pupil.home}/api/sessions", json=asked)
    assert answer.status_code == 201, answer.text
    session = answer.json()
    url = f"{pupil.home}/api/kernels/{session['kernel']['id']}/channels".replace("http", "ws", 1)
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in pupil.cookies_of(f"/user/{pupil.name}/"))
    socket = websocket.create_connection(url, timeout=PATIENCE, cookie=cookies, http_no_proxy=["*"])
    try:
        kernel = Kernel(socket)
        list(kernel.answers_to(kernel.send("kernel_info_request", {})))  # what is sent before may be lost
        yield kernel
    finally:
        with suppress(OSError, websocket.WebSocketException):
            socket.close()
        pupil.request("DELETE", f"{pupil.home}/api/sessions/{session['id']}")

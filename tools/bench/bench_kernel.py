"""The kernel's share of a move, in a real kernel that sends its messages; no browser."""

import ast
import json
import sys
from collections import Counter
from pathlib import Path

from jupyter_client.manager import start_new_kernel

CODE = "import json, sys; sys.path.append({folder!r}); import bench_moves; times = bench_moves.measure({moves})"
TIMEOUT = 300  # seconds


def kernel_times(moves):
    """Milliseconds of each move, by way and size: explorer_6x6_kernel, interact_6x6_kernel and so on."""
    manager, client = start_new_kernel(extra_arguments=["--log-level=ERROR"])
    pictures = Counter()  # messages that carry one: an explorer's are in its widget's state, pyplot's are outputs

    def count(message):
        if message["msg_type"] in ("comm_msg", "display_data"):
            pictures[message["msg_type"]] += "image/png" in json.dumps(message["content"])

    try:
        code = CODE.format(folder=str(Path(__file__).parent), moves=moves)
        asked = {"times": "json.dumps(times)"}
        reply = client.execute_interactive(code, user_expressions=asked, output_hook=count, timeout=TIMEOUT)["content"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    if reply["status"] != "ok":
        sys.exit("\n".join(reply["traceback"]))
    if min(pictures.values()) < 2 * moves:  # interact hides what fails, and would then be very fast
        sys.exit(f"two sliders a way, moved {moves} times, sent too few pictures: {dict(pictures)}")
    times = json.loads(ast.literal_eval(reply["user_expressions"]["times"]["data"]["text/plain"]))
    return {f"{name}_kernel": taken for name, taken in times.items()}

"""The kernel's share of a move, in a real kernel that sends its messages; no browser."""

import ast
import json
import sys
from collections import Counter
from pathlib import Path

from jupyter_client.manager import start_new_kernel

ROOT = Path(__file__).parents[2]
CODE = "import sys; sys.path.insert(0, {root!r}); from tools.bench import {module}; "  # any folder, any kernel
RETURN = "import json; found = json.dumps({module}.{call})"
TIMEOUT = 300  # seconds
PICTURES = {"comm_msg": "<svg", "display_data": "image/png"}  # an explorer's is its widget's state, pyplot's an output


def imported(module):
    """Code that imports one of this folder's modules in a kernel."""
    return CODE.format(root=str(ROOT), module=module)


def from_kernel(module, call, hook):
    """What a call of one of this folder's modules returns in a kernel of its own; hook: called with each message."""
    manager, client = start_new_kernel(extra_arguments=["--log-level=ERROR"])
    try:
        code, asked = imported(module) + RETURN.format(module=module, call=call), {"found": "found"}
        reply = client.execute_interactive(code, user_expressions=asked, output_hook=hook, timeout=TIMEOUT)["content"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    if reply["status"] != "ok":
        sys.exit("\n".join(reply["traceback"]))
    return json.loads(ast.literal_eval(reply["user_expressions"]["found"]["data"]["text/plain"]))


def kernel_times(moves):
    """Milliseconds of each move, by way and size: explorer_6x6_kernel, interact_6x6_kernel and so on."""
    pictures = Counter(dict.fromkeys(PICTURES, 0))

    def count(message):
        kind = message["msg_type"]
        pictures[kind] += kind in PICTURES and PICTURES[kind] in json.dumps(message["content"])

    times = from_kernel("bench_moves", f"measure({moves})", count)
    if min(pictures[kind] for kind in PICTURES) < 2 * moves:  # interact hides what fails, and would then be very fast
        sys.exit(f"two sliders a way, moved {moves} times, sent too few pictures: {dict(pictures)}")
    return {f"{name}_kernel": taken for name, taken in times.items()}


def visit_times():
    """See bench_visits: pairs of milliseconds by name."""
    return from_kernel("bench_visits", "visit_times()", lambda message: None)

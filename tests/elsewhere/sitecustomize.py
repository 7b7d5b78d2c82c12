"""What other systems than Linux lack, hidden from every Python that has this folder on PYTHONPATH.

There's no fork and no group of processes, no count of the bytes that a process wrote, no socket that is a file, and no
interface called lo. A text file whose encoding nobody names is in cp1252, as on Windows.
"""

import builtins
import io
import os
import socket
import sys
from contextlib import suppress


def hide_counters(event, arguments):
    if event == "open" and str(arguments[0]).startswith("/proc/self/io"):
        raise FileNotFoundError(arguments[0])


class Open:
    """An object, because a class that keeps a function would make it a method."""

    def __call__(self, file, mode="r", buffering=-1, encoding=None, *rest, **more):
        if "b" not in mode and encoding in (None, "locale"):
            encoding = "cp1252"
        return opened(file, mode, buffering, encoding, *rest, **more)


opened = io.open
builtins.open = io.open = Open()
sys.addaudithook(hide_counters)
for name in ("fork", "forkpty", "setpgrp"):
    delattr(os, name)
socket.if_nameindex = lambda: [(1, "ethernet_32769")]
with suppress(ImportError):
    import zmq

    has = zmq.has
    zmq.has = lambda capability: capability != "ipc" and has(capability)

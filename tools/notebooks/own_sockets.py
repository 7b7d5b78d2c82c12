"""Kernels that are reached by sockets of their own: files in a folder that nobody else writes to, not ports.

For ports, jupyter_client looks which are free, lets go of them, and hands their numbers to the kernel. Whatever opens
a connection at that moment may take one; the kernel then dies at its start, or is never heard of. (Windows has only
ports.)

As a plugin of pytest (-p tools.notebooks.own_sockets) this gives nbval such kernels.
"""

import itertools
import tempfile

import jupyter_client
import zmq

NAMED = zmq.has("ipc")
SHORT = "/tmp" if NAMED else None  # where folders for sockets are made: their names may have 103 characters (macOS)
FOLDER = tempfile.TemporaryDirectory(dir=SHORT)  # this process's own; it goes when the process ends
numbers = itertools.count()


class OwnSockets:
    """For a class of kernel managers: each has a connection file of its own, and its kernel's sockets beside that."""

    def __init__(self, **options):
        own = {"transport": "ipc", "connection_file": f"{FOLDER.name}/{next(numbers)}.json"} if NAMED else {}
        super().__init__(**own | options)


class KernelManager(OwnSockets, jupyter_client.KernelManager):
    """As nbval needs it."""


class AsyncKernelManager(OwnSockets, jupyter_client.AsyncKernelManager):
    """As nbclient needs it."""


def pytest_configure():
    import nbval.kernel  # here: refresh needs none of it

    from .forked_kernels import fork_kernels

    nbval.kernel.KernelManager = KernelManager
    fork_kernels()

"""What each process of a crew runs. Torch is imported late, because a process must be able to end by itself first."""

import os
import pickle
import shutil
import signal
import socket
import threading
import traceback
from multiprocessing import connection, parent_process

import cloudpickle

MAKING = threading.Lock()  # of the folder in which the processes meet


def serve(rank, processes, meeting, link):
    """Meet the others, then run jobs until somebody ends the process.

    meeting: the path of the file by which the processes find each other, in a folder of its own. link: where jobs come
    from, pickled functions with their arguments, and where answers go.
    """
    stay_apart()
    threading.Thread(target=end_with_parent, args=(meeting,), daemon=True).start()
    link.send_bytes(answer(meet, rank, processes, meeting))
    while True:
        link.send_bytes(answer(run, link.recv_bytes()))


def stay_apart():
    """Print nothing, and leave the kernel's group, all of which Jupyter interrupts or, as a last resort, kills."""
    if hasattr(os, "setpgrp"):
        os.setpgrp()  # so that somebody is left to remove the file
    else:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Windows has no groups
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # gloo doesn't use Python's sys.stdout
        os.dup2(nowhere, stream)


def end_with_parent(meeting):
    """Wait until the process that started this one is gone, for whatever reason, and end too."""
    connection.wait([parent_process().sentinel])
    MAKING.acquire()  # for good: nothing is made after what follows
    remove(meeting)
    os._exit(1)


def remove(meeting):
    """Remove the file and its folder, so that no process that's about to open it makes it again.

    If one does so before the folder is gone, we try again. Windows minds if somebody has the file open.
    """
    for _ in range(100):
        shutil.rmtree(meeting.parent, ignore_errors=True)
        if not meeting.parent.exists():
            break


def meet(rank, processes, meeting):
    """Join torch's process group, with one thread, on the loopback interface only.

    On Windows that has no usual name, and gloo takes the address that belongs to the machine's own name.
    """
    loopback = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]  # Linux, macOS
    os.environ.update({"OMP_NUM_THREADS": "1"} | ({"GLOO_SOCKET_IFNAME": loopback[0]} if loopback else {}))
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    with MAKING:
        meeting.parent.mkdir(exist_ok=True)
    # By an address, file://..., torch wouldn't find a folder with a space in its name.
    store = distributed.FileStore(str(meeting), processes)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=processes)


def run(job):
    function, args = pickle.loads(job)
    return function(*args)


def answer(function, *args):
    """Pickled: whether function(*args) went well, and what it returned, or the error as text."""
    try:
        return cloudpickle.dumps((True, function(*args)))  # perhaps of a class typed in a cell
    except Exception as error:
        return pickle.dumps((False, f"{type(error).__name__}: {error}\n\n{traceback.format_exc()}"))

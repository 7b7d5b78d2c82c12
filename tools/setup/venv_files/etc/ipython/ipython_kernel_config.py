"""How every kernel of .venv starts: with one thread for torch, and with what cells need.

Models as small as the course's gain nothing from a second thread, and where other programs keep the cores busy, its
threads wait for each other: 04's training then takes 50 times as long. torch reads OMP_NUM_THREADS as it's imported.

Every kernel imports what cells need, on a thread as it starts; a cell that's run sooner waits for it.

First torch, then what figures and explorers draw with. (Not torch's compiler, which every optimizer needs: it takes
as long as torch, and a first picture would wait for it.) If a cell ran meanwhile, `import torch.nn` in it could leave
torch broken: of two threads that import parts of it, each holds what the other one needs. The thread starts after the
kernel's own imports, which it would delay. It isn't a daemon, because torch mustn't be half imported when the kernel
ends. If torch is missing or broken, the cell that needs it says so.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

PRELOAD = """
def preload():
    from contextlib import suppress
    from threading import Thread
    def load():
        with suppress(Exception):
            import torch
            import matplotlib.backends.backend_agg
    thread = Thread(target=load, name="preload")
    thread.start()
    get_ipython().events.register("pre_run_cell", lambda info: thread.join())
preload()
del preload
"""
c = get_config()  # noqa: F821, IPython defines it
c.IPKernelApp.exec_lines = [PRELOAD]

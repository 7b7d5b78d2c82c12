"""Every kernel of .venv imports torch on a thread as it starts, so that a learner's first cell needn't wait for it.

Then it imports what figures and explorers draw with. The thread starts after the kernel's own imports, which it would
delay. It isn't a daemon, because torch mustn't be half imported when the kernel ends. If torch is missing or broken,
the cell that needs it says so.
"""

PRELOAD = """
def preload():
    from contextlib import suppress
    with suppress(Exception):
        import torch
        import matplotlib.backends.backend_agg
__import__("threading").Thread(target=preload, name="preload").start()
del preload
"""
c = get_config()  # noqa: F821, IPython defines it
c.IPKernelApp.exec_lines = [PRELOAD]

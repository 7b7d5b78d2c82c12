"""Every kernel of .venv imports torch and the explorers as it starts, on a thread, for which the first cell waits.

If that cell ran meanwhile, `import torch.nn` in it would break torch: each thread would hold what the other one needs.
When the cell runs, the thread goes on and makes an optimizer, for which torch imports its compiler: that takes as long
again, and no first picture needs it. The thread starts after the kernel's own imports, which it would delay. It isn't a
daemon, because torch mustn't be half imported when the kernel ends. If torch is missing or broken, the cell that needs
it says so.
"""

PRELOAD = """
def preload():
    from contextlib import suppress
    from threading import Event, Thread
    loaded = Event()
    def load():
        with suppress(Exception):
            import torch
            import attention_course.explorers
        loaded.set()
        with suppress(Exception):
            torch.optim.AdamW([torch.zeros(1)])
    Thread(target=load, name="preload").start()
    get_ipython().events.register("pre_run_cell", lambda info: loaded.wait())
preload()
del preload
"""
c = get_config()  # noqa: F821, IPython defines it
c.IPKernelApp.exec_lines = [PRELOAD]

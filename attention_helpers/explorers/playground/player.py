"""A thread that draws picture after picture, and stops when it is told to, at an interrupt, and with its process."""

import atexit
import signal
import threading
import time

from IPython import get_ipython

FRAME, REST = 0.05, 0.01  # seconds from one picture to the next, and of them at least so many for everybody else


class Player:
    """Calls `draw` again and again on one thread of its own, holding `lock`, from start() to stop().

    stopped: called after each end. Nothing is drawn once stop() has returned. An interrupt of the kernel stops it too,
    while a cell runs or none does.
    """

    def __init__(self, lock, draw, stopped):
        self.lock, self.draw, self.stopped = lock, draw, stopped
        self.wanted, self.thread, self.deaf = False, None, lambda: None

    def start(self):
        with self.lock:
            if not self.wanted:
                self.wanted, self.deaf = True, hear_interrupts(self.stop)
            if self.thread is None:
                atexit.register(self.end)
                self.thread = threading.Thread(target=self._run, name="playground", daemon=True)
                self.thread.start()

    def stop(self):
        """Draw no more; the picture under way is drawn to its end."""
        self.wanted = False  # before the lock: so the thread hears it, however long others wait
        with self.lock:
            self.deaf()
            self.deaf = lambda: None
        self.stopped()

    def end(self):
        """Stop, and wait for the thread: torch must not be at work when its process ends."""
        self.stop()
        if thread := self.thread:
            thread.join()

    def _run(self):
        while True:
            started = time.perf_counter()
            with self.lock:
                if not self.wanted:
                    self.thread = None  # under the lock: whoever starts from here on needs a new one
                    atexit.unregister(self.end)
                    return
                try:
                    self.draw()
                except BaseException:
                    self.stop()
                    self.thread = None
                    raise
            time.sleep(max(REST, FRAME - (time.perf_counter() - started)))


def hear_interrupts(stop):
    """Call `stop` when the kernel is interrupted; returns a function that ends this. Without a kernel, do nothing.

    In a cell an interrupt is a KeyboardInterrupt of the main thread. Between cells ipykernel ignores it; only the main
    thread may change that, which a button's callback need not be on: so its event loop does it.
    """
    shell = get_ipython()
    kernel, before = getattr(shell, "kernel", None), []
    if kernel is None:
        return lambda: None

    def after_cell(result):
        if isinstance(result.error_in_exec, KeyboardInterrupt):
            stop()

    def between_cells(*_):
        kernel.io_loop.add_callback(stop)  # not here, in the middle of whatever the event loop does

    def undo():
        if signal.getsignal(signal.SIGINT) is between_cells:
            signal.signal(signal.SIGINT, before[0])

    def unheard():
        shell.events.unregister("post_run_cell", after_cell)
        kernel.io_loop.add_callback(undo)

    shell.events.register("post_run_cell", after_cell)
    kernel.io_loop.add_callback(lambda: before.append(signal.signal(signal.SIGINT, between_cells)))
    return unheard

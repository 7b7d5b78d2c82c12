"""A thread that draws picture after picture until it's stopped, interrupted, or its process ends."""

import atexit
import signal
import threading
import time

from IPython import get_ipython

FRAME, REST = 0.05, 0.01  # seconds per picture, and the least of them that other threads get
PLAYING = set()  # the players that draw: one at most, because two would share the time


class Player:
    """Calls `draw` again and again on its own thread, holding `lock`, from start() to stop().

    stopped: called after each stop. Nothing is drawn once stop() has returned. Interrupting the kernel stops it too,
    whether or not a cell is running, and so does starting another Player.
    """

    def __init__(self, lock, draw, stopped):
        self.lock, self.draw, self.stopped = lock, draw, stopped
        self.wanted, self.thread, self.deaf = False, None, lambda: None

    def start(self):
        for other in PLAYING - {self}:
            other.stop()
        PLAYING.add(self)
        with self.lock:
            if not self.wanted:
                self.wanted, self.deaf = True, hear_interrupts(self.stop)
            if self.thread is None:
                atexit.register(self.end)
                self.thread = threading.Thread(target=self._run, name="playground", daemon=True)
                self.thread.start()

    def stop(self):
        """Stop drawing, after the current picture is finished."""
        PLAYING.discard(self)
        self.wanted = False  # before the lock, so that the thread sees it at once
        with self.lock:
            self.deaf()
            self.deaf = lambda: None
        self.stopped()

    def end(self):
        """Stop, and wait for the thread, because torch mustn't be at work when its process ends."""
        self.stop()
        if thread := self.thread:
            thread.join()

    def _run(self):
        while True:
            started = time.perf_counter()
            with self.lock:
                if not self.wanted:
                    self.thread = None  # under the lock, so that the next start() makes a new thread
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
    """Call `stop` when the kernel is interrupted; returns a function that undoes this. Without a kernel, do nothing.

    While a cell runs, an interrupt is a KeyboardInterrupt on the main thread. Between cells ipykernel ignores it. Only
    the main thread can change that, and a button's callback may be on another, so we use the kernel's event loop.
    """
    shell = get_ipython()
    kernel, before = getattr(shell, "kernel", None), []
    if kernel is None:
        return lambda: None

    def after_cell(result):
        if isinstance(result.error_in_exec, KeyboardInterrupt):
            stop()

    def between_cells(*_):
        kernel.io_loop.add_callback(stop)  # not here, while the event loop may be busy

    def undo():
        if signal.getsignal(signal.SIGINT) is between_cells:
            signal.signal(signal.SIGINT, before[0])

    def unheard():
        shell.events.unregister("post_run_cell", after_cell)
        kernel.io_loop.add_callback(undo)

    shell.events.register("post_run_cell", after_cell)
    kernel.io_loop.add_callback(lambda: before.append(signal.signal(signal.SIGINT, between_cells)))
    return unheard

"""A thread that draws picture after picture until it's stopped or its process ends."""

import threading
import time

FRAME, REST = 0.05, 0.01  # seconds per picture, and the least of them that other threads get
PLAYING = set()  # the players that draw: one at most, because two would share the time


class Player:
    """Calls `draw` again and again on its own thread, holding `lock`, from start() to stop().

    stopped: called after each stop. Nothing is drawn once stop() has returned. Starting another Player stops it too.
    """

    def __init__(self, lock, draw, stopped):
        self.lock, self.draw, self.stopped = lock, draw, stopped
        self.wanted, self.thread = False, None

    def start(self):
        for other in PLAYING - {self}:
            other.stop()
        PLAYING.add(self)
        with self.lock:
            self.wanted = True
            if self.thread is None:
                self.thread = threading.Thread(target=self._run, name="playground")
                self.thread.start()

    def stop(self):
        """Stop drawing, after the current picture is finished."""
        PLAYING.discard(self)
        self.wanted = False  # before the lock, so that the thread sees it at once
        with self.lock:
            self.stopped()

    def _run(self):
        while threading.main_thread().is_alive():  # torch mustn't be at work when its process ends
            started = time.perf_counter()
            with self.lock:
                if not self.wanted:
                    self.thread = None  # under the lock, so that the next start() makes a new thread
                    return
                self.draw()
            time.sleep(max(REST, FRAME - (time.perf_counter() - started)))

"""A crew: processes that stand for machines. They start once, and then run functions together, one after the other."""

import pickle
import signal
import tempfile
import time
import weakref
from contextlib import suppress
from multiprocessing import connection, get_context
from pathlib import Path
from uuid import uuid4

import cloudpickle

from .worker import remove, serve

START = 120  # seconds for importing torch and meeting each other; that takes two or three, or ten on a busy machine
GRACE = 1.0  # seconds that the others have, after one has failed, to say what went wrong there


class CrewError(RuntimeError):
    """A job failed. `errors` maps each rank that failed to its traceback, or to how its process ended."""

    def __init__(self, message, errors):
        super().__init__(message)
        self.errors = errors


class Crew:
    """Several processes, each with one thread, that run a function together: crew.run(function, *args).

    In each of them torch.distributed is ready (gloo, on this machine's loopback interface), so a function asks
    `torch.distributed.get_rank()` for its part, as it would under torchrun. They start at the first job, and end with
    `close`, with this object, with the notebook, or after a job that failed. What they print isn't shown.

    processes: how many. Tried on Linux; meant for macOS and Windows as well.
    Errors: ValueError for fewer than 1.

    (torch.multiprocessing and torchrun start processes for one function or script, which costs seconds for each job.)
    """

    def __init__(self, processes):
        if processes < 1:  # nobody would answer
            raise ValueError(f"processes must be at least 1, got {processes}")
        self.processes = processes
        self._ending = None  # ends the processes that there are

    def run(self, function, *args, timeout=60):
        """What function(*args) returns on each rank, as a list.

        function: of a module, or typed in a cell; a typed one travels with the functions, classes and values of the
        notebook that it uses. Tensors are copied. timeout: seconds, without the start of processes.
        Errors: CrewError if the function raises an error on a rank, or a process ends; TimeoutError after `timeout`;
        pickle's errors for what can't travel, such as an open file. After an error or an interrupt, the next job starts
        fresh processes.
        """
        if not callable(function):  # the function's result, perhaps
            raise TypeError(f"function must be a function, got {type(function).__name__}")
        job = cloudpickle.dumps((function, args))  # tensors by value: shared memory would outlive a killed process
        try:
            if self._ending is None or not self._ending.alive:
                self._start()
            for link in self.links:
                with suppress(OSError):  # of a process that ended after the last job; _answers says how
                    link.send_bytes(job)
            return self._answers(getattr(function, "__qualname__", "the job"), timeout)
        except BaseException:  # an interrupt too: how far the processes are, nobody knows
            self.close()
            raise

    def close(self):
        """End the processes, whatever they do, and remove their file. Errors: none."""
        if self._ending is not None:
            self._ending()

    def _start(self):
        context, meeting = get_context("spawn"), Path(tempfile.gettempdir(), f"attention-crew-{uuid4().hex}", "meeting")
        self.workers, self.links = [], []
        self._ending = weakref.finalize(self, end, self.workers, self.links, meeting)  # at exit too
        for rank in range(self.processes):
            ours, theirs = context.Pipe()
            self.links.append(ours)
            worker = context.Process(target=serve, args=(rank, self.processes, meeting, theirs), daemon=True)
            self.workers.append(worker)
            worker.start()
            theirs.close()  # now only the process has it, so when it ends, reading from ours fails at once
        self._answers("the start", START)

    def _answers(self, job, seconds):
        """The result of each rank, once all have answered."""
        results, raised, ended, until = {}, {}, {}, time.monotonic() + seconds
        while len(results) + len(raised) + len(ended) < self.processes:
            waiting = {link: n for n, link in enumerate(self.links) if n not in results | raised | ended}
            ready = connection.wait(waiting, max(0, until - time.monotonic()))
            if not ready:
                break
            for rank in map(waiting.get, ready):
                try:
                    well, answer = pickle.loads(self.links[rank].recv_bytes())
                    (results if well else raised)[rank] = answer
                except (EOFError, OSError):
                    ended[rank] = how_it_ended(self.workers[rank])
            if raised or ended:
                until = min(until, time.monotonic() + GRACE)
        if failed := ended or raised:  # when a process ends, the others raise errors too
            rank = min(failed)
            raise CrewError(f"{job} failed on rank {rank} of {self.processes}: {failed[rank]}", raised | ended)
        if late := ", ".join(str(n) for n in range(self.processes) if n not in results):
            raise TimeoutError(f"{job} took longer than timeout={seconds:g} seconds on rank {late}")
        return [results[rank] for rank in range(self.processes)]


def how_it_ended(worker):
    """Why a process answers no more."""
    worker.join(GRACE)
    if (code := worker.exitcode) is not None and code < 0:
        return f"the process was killed by {signal.Signals(-code).name}"
    return f"the process ended with code {code}"


def end(workers, links, meeting):
    """End the processes of a crew, and leave no file, even if this is interrupted, or killed."""
    started = [worker for worker in workers if worker.pid is not None]
    try:
        remove(meeting)  # first, while there are processes that would do it
        for worker in started:
            worker.kill()
        for worker in started:
            worker.join(10)
        for link in links:
            link.close()
    finally:
        remove(meeting)  # which those that hadn't met yet may have made again

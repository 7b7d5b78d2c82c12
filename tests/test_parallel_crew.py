"""A crew of processes: its errors, its limits, and that nothing is left of it, however its notebook ends."""

import os
import signal
import subprocess
import sys
import tempfile
import time

import parallel_jobs
import psutil
import pytest
import torch

from attention_helpers.parallel.crew import Crew, CrewError

pytestmark = pytest.mark.slow
NOTEBOOK = """
import time
from attention_helpers.parallel.crew import Crew
if __name__ == "__main__":
    crew = Crew(2)
    print("here", flush=True)
    crew.run(time.sleep, {seconds})
"""


@pytest.fixture
def crew(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    crew = Crew(2)
    yield crew
    crew.close()
    assert is_gone(crew.workers, tmp_path)


def is_gone(workers, folder):
    return not any(worker.is_alive() for worker in workers) and not [*folder.iterdir()]


def works(crew):
    return [total.item() for total in crew.run(parallel_jobs.total, torch.ones(1))] == [2, 2]


FAULTS = [
    (parallel_jobs.fail, 1, 60, CrewError, "fail failed on rank 1 of 2: ValueError: 1 is odd"),
    (parallel_jobs.die, 1, 60, CrewError, "die failed on rank 1 of 2: .* killed by SIGKILL"),
    (time.sleep, 600, 0.5, TimeoutError, "sleep took longer than timeout=0.5 seconds on rank 0, 1"),
]


@pytest.mark.parametrize(("job", "argument", "timeout", "error", "said"), FAULTS, ids=["error", "kill", "too long"])
def test_a_fault_is_told_soon_and_the_next_job_runs(crew, job, argument, timeout, error, said, tmp_path):
    assert works(crew)
    before, start = crew.workers, time.monotonic()
    with pytest.raises(error, match=said):
        crew.run(job, argument, timeout=timeout)
    assert time.monotonic() - start < 10
    assert is_gone(before, tmp_path)
    assert works(crew)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no groups of processes")
@pytest.mark.parametrize("way", ["ends", "is interrupted", "is killed", "is killed with its group"])
def test_nothing_is_left_when_the_notebook(way, tmp_path):
    """Jupyter sends interrupts, and the last signal, to the kernel's group."""
    paths = {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "start_new_session": True}
    script = NOTEBOOK.format(seconds=0 if way == "ends" else 600)
    notebook = subprocess.Popen([sys.executable, "-c", script], env=os.environ | paths, **quiet)
    assert notebook.stdout.readline() == b"here\n"
    children = []
    while len(children) < 3:  # two, and Python's own that tracks resources
        children = psutil.Process(notebook.pid).children()
    if way == "is interrupted":
        os.killpg(notebook.pid, signal.SIGINT)
    elif way == "is killed":
        notebook.kill()
    elif way == "is killed with its group":
        os.killpg(notebook.pid, signal.SIGKILL)
    assert psutil.wait_procs([notebook, *children], timeout=30)[1] == []
    # A Python that's killed early may leave another file, with which tempfile tries the folder.
    assert list(tmp_path.glob("attention-crew-*")) == []

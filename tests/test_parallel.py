"""One layer over several processes computes what one process does; a crew's errors, and that nothing is left of it."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import cloudpickle
import psutil
import pytest
import torch
from torch import distributed
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from attention_helpers.costs import peak_bytes
from attention_helpers.parallel.crew import Crew, CrewError
from attention_helpers.parallel.split import ParallelAttention, attend_in_tiles, bytes_sent, bytes_written

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # jobs travel as if they had been typed in a cell
slow = pytest.mark.slow


@torch.no_grad()
def job(split, layer, x):
    """A rank's output, and the bytes that it wrote meanwhile."""
    rank, processes, before = distributed.get_rank(), distributed.get_world_size(), bytes_written() or 0
    part, own = (layer.part(rank, processes), x) if split == "heads" else (layer, x.chunk(processes)[rank])
    return getattr(part, f"by_{split}")(own), (bytes_written() or 0) - before


@pytest.fixture(scope="module", params=[2, *(pytest.param(n, marks=slow) for n in (1, 3, 4))])
def crew(request):
    crew = Crew(request.param)
    yield crew
    crew.close()


def drawn(seed, processes):
    """A layer and a text of random sizes that processes can share, with one, two or three queries per KV head."""
    chance = random.Random(seed)
    kv_heads, n = processes * chance.randint(1, 2), processes * chance.randint(1, 50)
    heads = kv_heads * (1 + seed)
    torch.manual_seed(seed)
    d_in, head_dim = chance.randint(1, 6), chance.randint(1, 4)
    return ParallelAttention(d_in, 2 * heads, heads, kv_heads, head_dim), torch.randn(n, d_in)


@pytest.mark.parametrize("seed", range(3))
def test_each_split_computes_what_one_process_computes(crew, seed):
    layer, x = drawn(seed, crew.processes)
    matrices = layer.W_query, layer.W_key, layer.W_value
    parts = [W(x).unflatten(-1, (-1, layer.sizes[-1])).transpose(0, 1) for W in matrices]
    context = scaled_dot_product_attention(*parts, is_causal=True, enable_gqa=True)
    expected = layer.out_proj(context.transpose(0, 1).flatten(1)).detach()
    for output, _ in crew.run(job, "heads", layer, x):
        assert_close(output, expected, rtol=1e-5, atol=1e-5)
    together = torch.cat([output for output, _ in crew.run(job, "tokens", layer, x)])
    assert_close(together, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(bytes_written() is None, reason="only Linux counts what a process writes")
def test_the_bytes_measured_are_those_of_the_formula(crew):
    """Gloo adds a head to each message, so we compare how much more is sent when there's more to send."""
    layer, x = drawn(1, crew.processes)
    _, d_out, _, kv_heads, head_dim = layer.sizes
    for split, width in (("heads", d_out), ("tokens", kv_heads * head_dim)):
        once, twice = crew.run(job, split, layer, x), crew.run(job, split, layer, torch.cat([x, x]))
        more = {more - less for (_, less), (_, more) in zip(once, twice, strict=True)}
        assert more == {bytes_sent(crew.processes, len(x), width)}


def test_scores_are_never_stored_completely():
    queries, keys, values = torch.randn(3, 1, 2048, 4)
    positions = torch.arange(2048)
    peak = peak_bytes(attend_in_tiles, queries, keys, values, positions, positions)
    assert peak < 2048**2 * 4 / 4  # the complete scores would take four times as much


def total(rank, fault=None):
    """How many processes there are, unless one of them has a fault, for which the others wait."""
    if distributed.get_rank() == rank and fault == "error":
        raise ValueError(f"{rank} is odd")
    if distributed.get_rank() == rank and fault == "kill":
        os.kill(os.getpid(), 9)
    distributed.all_reduce(one := torch.ones(1))
    return one.item()


def is_gone(workers, folder):
    return not any(worker.is_alive() for worker in workers) and not [*folder.iterdir()]


FAULTS = [
    ((total, 1, "error"), 60, CrewError, "total failed on rank 1 of 2: ValueError: 1 is odd"),
    ((total, 1, "kill"), 60, CrewError, "rank 1 of 2: the process (was killed by SIGKILL|ended with code 9)"),
    ((time.sleep, 600), 0.5, TimeoutError, "sleep took longer than timeout=0.5 seconds on rank 0, 1"),
]


@slow
@pytest.mark.parametrize(("call", "timeout", "error", "said"), FAULTS, ids=["error", "kill", "too long"])
def test_a_fault_is_told_soon_and_the_next_job_runs(call, timeout, error, said, tmp_path, monkeypatch):
    folder = tmp_path / "Größe eins"  # a user's name may be like that
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    crew = Crew(2)
    assert crew.run(total, 1) == [2, 2]
    before, start = crew.workers, time.monotonic()
    with pytest.raises(error, match=said):
        crew.run(*call, timeout=timeout)
    assert time.monotonic() - start < 10
    assert is_gone(before, folder)
    assert crew.run(total, 1) == [2, 2]
    crew.close()
    assert is_gone(crew.workers, folder)


NOTEBOOK = """
import time
from attention_helpers.parallel.crew import Crew
if __name__ == "__main__":
    crew = Crew(2)
    print("here", flush=True)
    crew.run(time.sleep, {seconds})
"""
ENDS = {
    "ends": lambda notebook: None,
    "is interrupted": lambda notebook: os.killpg(notebook.pid, signal.SIGINT),  # as Jupyter does it
    "is killed": lambda notebook: notebook.kill(),
    "is killed with its group": lambda notebook: os.killpg(notebook.pid, signal.SIGKILL),  # as Jupyter does it, too
}


@slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no groups of processes")
@pytest.mark.parametrize("way", ENDS)
def test_nothing_is_left_when_the_notebook(way, tmp_path):
    paths = {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "start_new_session": True}
    script = NOTEBOOK.format(seconds=0 if way == "ends" else 600)
    notebook = subprocess.Popen([sys.executable, "-c", script], env=os.environ | paths, **quiet)
    assert notebook.stdout.readline() == b"here\n"
    children = []
    while len(children) < 3:  # two, and Python's own that tracks resources
        children = psutil.Process(notebook.pid).children()
    ENDS[way](notebook)
    assert psutil.wait_procs([notebook, *children], timeout=30)[1] == []
    # A Python that's killed early may leave another file, with which tempfile tries the folder.
    assert list(tmp_path.glob("attention-crew-*")) == []

"""One layer over several processes: notebook 14's class computes what one process computes, and its bytes are right."""

import random

import pytest
import torch
from parallel_jobs import written_by_sum
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from attention_helpers.costs import peak_bytes
from attention_helpers.parallel.crew import Crew
from attention_helpers.parallel.split import ParallelAttention, attend_in_tiles, bytes_sent, bytes_written

JOBS = """
def by_heads(layer, x):
    before = bytes_written()
    part = layer.part(distributed.get_rank(), distributed.get_world_size())
    return part.by_heads(x).detach(), (bytes_written() or 0) - (before or 0)

@torch.no_grad()
def by_tokens(layer, x):
    before, own = bytes_written(), x.chunk(distributed.get_world_size())[distributed.get_rank()]
    return layer.by_tokens(own), (bytes_written() or 0) - (before or 0)
"""
# As if they had been typed in a cell, since functions that are travel by value.
PAGE = {"__name__": "__main__", "torch": torch, "distributed": torch.distributed, "bytes_written": bytes_written}
exec(JOBS, PAGE)


@pytest.fixture(scope="module", params=[2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3, 4))])
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


def alone(layer, x):
    matrices = layer.W_query, layer.W_key, layer.W_value
    parts = [W(x).unflatten(-1, (-1, layer.sizes[-1])).transpose(0, 1) for W in matrices]
    context = scaled_dot_product_attention(*parts, is_causal=True, enable_gqa=True)
    return layer.out_proj(context.transpose(0, 1).flatten(1))


@pytest.mark.parametrize("seed", range(3))
def test_each_split_computes_what_one_process_computes(crew, seed):
    layer, x = drawn(seed, crew.processes)
    expected = alone(layer, x).detach()
    for output, _ in crew.run(PAGE["by_heads"], layer, x):
        assert_close(output, expected, rtol=1e-5, atol=1e-5)
    together = torch.cat([output for output, _ in crew.run(PAGE["by_tokens"], layer, x)])
    assert_close(together, expected, rtol=1e-5, atol=1e-5)


def test_scores_are_never_stored_completely():
    queries, keys, values = torch.randn(3, 1, 2048, 4)
    positions = torch.arange(2048)
    peak = peak_bytes(attend_in_tiles, queries, keys, values, positions, positions)
    assert peak < 2048**2 * 4 / 4  # the complete scores would take four times as much


@pytest.mark.skipif(bytes_written() is None, reason="only Linux counts what a process writes")
def test_the_bytes_measured_are_those_of_the_formula(crew):
    """Gloo adds a head to each message, so we compare how much more is sent when there's more to send."""
    processes, (layer, x) = crew.processes, drawn(1, crew.processes)
    n, (_, d_out, _, kv_heads, head_dim) = len(x), layer.sizes
    for job, width in (("by_heads", d_out), ("by_tokens", kv_heads * head_dim)):
        once, twice = crew.run(PAGE[job], layer, x), crew.run(PAGE[job], layer, torch.cat([x, x]))
        for (_, less), (_, more) in zip(once, twice, strict=True):
            assert more - less == bytes_sent(processes, n, width)
    numbers = 12_000 * processes  # a large sum is sent in more pieces
    for more, less in zip(crew.run(written_by_sum, 10 * numbers), crew.run(written_by_sum, numbers), strict=True):
        assert more - less == pytest.approx(bytes_sent(processes, 9 * numbers, 1), rel=1e-3)

"""One layer over several processes: the same numbers as in one, and the bytes that the formulas say."""

import random
from functools import partial

import pytest
import torch
from parallel_jobs import written_by_sum
from torch.testing import assert_close

from attention_helpers import MultiHeadAttention
from attention_helpers.parallel.count import bytes_sent, bytes_written
from attention_helpers.parallel.crew import Crew
from attention_helpers.parallel.heads import by_hand, by_torch, part_of
from attention_helpers.parallel.ring import by_tokens, own_tokens, pairs, straight, zigzag
from attention_helpers.parallel.trial import outcome
from attention_helpers.seeded import seeded

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
slow = pytest.mark.slow


@pytest.fixture(scope="module", params=[2, *(pytest.param(n, marks=slow) for n in (3,))])
def crew(request):
    crew = Crew(request.param)
    yield crew
    crew.close()


def drawn(seed, processes, dtype):
    """A layer and a batch of random sizes that processes can share, by heads and by tokens."""
    chance = random.Random(seed)
    heads, n = processes * chance.randint(1, 3), 2 * processes * chance.randint(1, 4)
    d_in, head_dim, b = (chance.randint(1, 6) for _ in range(3))
    layer = seeded(MultiHeadAttention, seed, d_in, heads * head_dim, n, 0.0, heads, qkv_bias=seed % 2 == 0)
    return layer.to(dtype), torch.randn(b, n, d_in, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def joined(found, name):
    """A weight's gradient from those of the parts: rows below each other, columns side by side, and one bias."""
    parts = [each.weight_grads[name] for each in found if name in each.weight_grads]
    return parts[0] if name == "out_proj.bias" else torch.cat(parts, dim=int(name == "out_proj.weight"))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("split", [by_hand, by_torch])
def test_by_heads_output_and_gradients_are_the_whole_layers(crew, split, seed, dtype):
    layer, x = drawn(seed, crew.processes, dtype)
    found, alone = crew.run(outcome, split, layer, x), outcome(lambda layer, x: (layer(x), layer), layer, x)
    near = partial(assert_close, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    for each in found:
        near(each.output, alone.output)
        near(each.x_grad, alone.x_grad)
        assert torch.equal(each.output, found[0].output)
    for name, grad in alone.weight_grads.items():
        near(joined(found, name), grad)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("order", [straight, zigzag])
def test_by_tokens_output_and_gradients_are_the_whole_layers(crew, order, seed, dtype):
    layer, x = drawn(seed, crew.processes, dtype)
    found = crew.run(outcome, partial(by_tokens, order=order), layer, x)
    alone = outcome(lambda layer, x: (layer(x), layer), layer, x)
    near = partial(assert_close, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    for rank, each in enumerate(found):
        near(each.output, own_tokens(alone.output, rank, crew.processes, order))
    near(sum(each.x_grad for each in found), alone.x_grad)
    for name, grad in alone.weight_grads.items():
        near(sum(each.weight_grads[name] for each in found), grad)


@pytest.mark.skipif(bytes_written() is None, reason="only Linux counts what a process writes")
def test_the_bytes_measured_are_those_of_the_formula(crew):
    """Gloo adds a head to each message, so we compare how much more is sent when there's more to send."""
    processes, (layer, x) = crew.processes, drawn(1, crew.processes, torch.float32)
    n, width, b = x.shape[1], layer.d_out, len(x)
    longer = MultiHeadAttention(layer.d_in, width, 2 * n, 0.0, layer.num_heads)
    for split in (by_hand, by_tokens, partial(by_tokens, order=zigzag)):
        once, twice = crew.run(outcome, split, layer, x), crew.run(outcome, split, longer, torch.cat([x, x], dim=1))
        for one, other in zip(once, twice, strict=True):
            assert other.sent - one.sent == bytes_sent(processes, n, width, b)
            assert 0 <= one.sent - bytes_sent(processes, n, width, b) <= 1000 * (processes - 1)
    numbers = 12_000 * processes  # a large sum is sent in more pieces
    for more, less in zip(crew.run(written_by_sum, 10 * numbers), crew.run(written_by_sum, numbers), strict=True):
        assert more - less == pytest.approx(bytes_sent(processes, 9 * numbers, 1), rel=1e-3)


def test_the_zigzag_evens_the_work():
    for processes in range(1, 6):
        assert [sum(steps) for steps in pairs(straight, processes)] == [*range(1, processes + 1)]
        assert {sum(steps) for steps in pairs(zigzag, processes)} == {2 * processes + 1}
        assert sorted(n for rank in range(processes) for n in zigzag(rank, processes)) == [*range(2 * processes)]


def test_each_process_holds_its_share():
    layer = MultiHeadAttention(6, 12, 4, 0.0, 6, qkv_bias=True)
    parts = [sum(parameter.numel() for parameter in part_of(layer, rank, 3).parameters()) for rank in range(3)]
    assert sum(parts) == sum(parameter.numel() for parameter in layer.parameters())

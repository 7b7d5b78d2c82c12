"""Jobs for a crew's processes, which import them by name."""

import os

import torch
from torch import distributed


def total(x):
    """The sum of x over all processes."""
    distributed.all_reduce(x)
    return x


def fail(rank):
    """An error on one rank, while the others wait for it."""
    if distributed.get_rank() == rank:
        raise ValueError(f"{rank} is odd")
    return total(torch.ones(1))


def die(rank):
    """The same, with a process that's killed."""
    if distributed.get_rank() == rank:
        os.kill(os.getpid(), 9)
    return total(torch.ones(1))


def written_by_sum(numbers):
    """Bytes that this process writes in a sum of so many float32 numbers."""
    from attention_helpers.parallel.split import bytes_written

    before = bytes_written()
    total(torch.ones(numbers))
    return bytes_written() - before

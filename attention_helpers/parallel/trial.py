"""One layer with each split: as a job of a crew, or on machines by torchrun -m attention_helpers.parallel.trial."""

import os
import subprocess
import sys
from functools import partial
from typing import NamedTuple

import torch
from torch import distributed

from ..layers import MultiHeadAttention
from .count import bytes_written
from .heads import by_hand
from .ring import by_tokens, own_tokens, straight, zigzag
from .worker import alone


class Outcome(NamedTuple):
    """What one process has after a forward and a backward pass; the loss is the sum of the squared outputs."""

    output: torch.Tensor  # of all tokens by heads, of its own by tokens
    x_grad: torch.Tensor  # in the shape of x
    weight_grads: dict  # by name: of its own rows and columns by heads, through its own tokens by tokens
    sent: int | None  # bytes in the forward pass, as the system counts them; by_torch adds weights, and sums later


def outcome(split, layer, x):
    """Forward and backward through split(layer, x), such as by_hand, on this process. Errors: those of the split."""
    x, before = x.detach().requires_grad_(), bytes_written()
    output, part = split(layer, x)
    sent = None if before is None else bytes_written() - before
    part.zero_grad()  # of what ran before
    output.square().sum().backward()
    grads = {name: parameter.grad for name, parameter in part.named_parameters()}
    local = {name: getattr(grad, "to_local", lambda grad=grad: grad)() for name, grad in grads.items()}
    return Outcome(output.detach(), x.grad, local, sent)


def standalone(processes):
    """What torchrun prints when it runs `main` on this machine alone. Errors: CalledProcessError if it fails."""
    options = ["--standalone", f"--nproc-per-node={processes}", f"--log-dir={os.devnull}"]
    command = [sys.executable, "-m", "torch.distributed.run", *options, "-m", __name__]
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True, "env": os.environ | alone()}
    with subprocess.Popen(command, **quiet) as torchrun:
        try:
            printed, _ = torchrun.communicate()
        except BaseException:  # an interrupt: torchrun ends its processes if it's asked to end
            torchrun.terminate()
            raise
    if torchrun.returncode:
        raise subprocess.CalledProcessError(torchrun.returncode, command, printed)
    return printed.strip()


def main():
    """Compare the splits with the whole layer; every process has drawn the same one, and rank 0 prints for all."""
    distributed.init_process_group("gloo")
    rank, processes = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(64, 64, context_length=48, dropout=0.0, num_heads=4), torch.randn(2, 48, 64)
    for name, order in (("heads", None), ("tokens", straight), ("tokens in zigzag order", zigzag)):
        split, expected = partial(by_tokens, order=order) if order else by_hand, layer(x)
        if order:
            expected = own_tokens(expected, rank, processes, order)
        off = (outcome(split, layer, x).output - expected).abs().max().detach()
        distributed.all_reduce(off, distributed.ReduceOp.MAX)
        if rank == 0:
            print(f"by {name}, {processes} processes, same output: {off.item() < 1e-5}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

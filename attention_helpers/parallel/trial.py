"""One layer with each split: as a job of a crew, or on machines by torchrun -m attention_helpers.parallel.trial."""

from functools import partial
from typing import NamedTuple

import torch
from torch import distributed

from ..layers import MultiHeadAttention
from .count import bytes_written
from .heads import by_hand, by_torch
from .ring import by_tokens, own_tokens, zigzag


class Outcome(NamedTuple):
    """What one process has after a forward and a backward pass; the loss is the sum of the squared outputs."""

    output: torch.Tensor  # of all tokens by heads, of its own by tokens
    x_grad: torch.Tensor  # in the shape of x
    weight_grads: dict  # by name: of its own rows and columns by heads, through its own tokens by tokens
    sent: int | None  # bytes in the forward pass, as the operating system counts them


def outcome(split, layer, x):
    """Forward and backward through split(layer, x), such as by_hand, on this process. Errors: those of the split."""
    x, before = x.detach().requires_grad_(), bytes_written()
    output, part = split(layer, x)
    sent = None if before is None else bytes_written() - before
    output.square().sum().backward()
    grads = {name: parameter.grad for name, parameter in part.named_parameters()}
    local = {name: getattr(grad, "to_local", lambda grad=grad: grad)() for name, grad in grads.items()}
    return Outcome(output.detach(), x.grad, local, sent)


def main():
    """Compare all splits with the whole layer; every process has drawn the same one, and rank 0 prints for all."""
    distributed.init_process_group("gloo")
    rank, processes = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(64, 64, context_length=48, dropout=0.0, num_heads=4), torch.randn(2, 48, 64)
    ways = {"heads, by hand": by_hand, "heads, by torch": by_torch, "tokens": by_tokens}
    for name, split in (ways | {"tokens, zigzag": partial(by_tokens, order=zigzag)}).items():
        expected = layer(x)
        if name.startswith("tokens"):
            expected = own_tokens(expected, rank, processes, *split.keywords.values() if name != "tokens" else ())
        off = (outcome(split, layer, x).output - expected).abs().max().detach()
        distributed.all_reduce(off, distributed.ReduceOp.MAX)
        if rank == 0:
            print(f"{name}: {processes} processes, same output: {off.item() < 1e-5}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

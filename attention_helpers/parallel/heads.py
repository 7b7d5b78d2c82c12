"""One layer by heads: each process holds the rows of its own heads, and one sum joins what they compute.

Source: Shoeybi et al. 2019, "Megatron-LM" (arXiv 1909.08053), section 3.
"""

import copy

import torch
from torch import distributed, nn

from ..checks import check_size
from ..layers import MultiHeadAttention


def fewer_heads(layer, processes):
    """A copy of a layer that still has all weights, but computes with num_heads / processes heads.

    Errors: TypeError unless layer is a MultiHeadAttention; ValueError if processes doesn't divide num_heads.
    """
    if not isinstance(layer, MultiHeadAttention):
        raise TypeError(f"layer must be a MultiHeadAttention, got {type(layer).__name__}")
    if layer.num_heads % check_size("processes", processes):
        raise ValueError(f"processes must divide num_heads={layer.num_heads}, got {processes}")
    part = copy.deepcopy(layer)
    part.num_heads, part.d_out = layer.num_heads // processes, layer.d_out // processes
    return part


def part_of(layer, rank, processes):
    """What one process holds of a MultiHeadAttention: a layer of the same class with num_heads / processes heads.

    It takes the same x, (b, num_tokens, d_in), and returns a summand of the output, (b, num_tokens, d_out).
    Errors: as in fewer_heads.
    """
    part = fewer_heads(layer, processes)
    mine = slice(rank * part.d_out, (rank + 1) * part.d_out)  # the rows of this process's heads
    for linear in (part.W_query, part.W_key, part.W_value):
        linear.weight = nn.Parameter(linear.weight[mine].clone())  # (d_out / processes, d_in)
        linear.bias = None if linear.bias is None else nn.Parameter(linear.bias[mine].clone())
    part.out_proj.weight = nn.Parameter(part.out_proj.weight[:, mine].clone())  # (d_out, d_out / processes)
    if rank > 0:
        part.out_proj.bias = None  # or the sum would have it several times
    return part


def by_hand(layer, x):
    """The layer's output for x, split by heads over all processes, and this process's part of the layer.

    x: (b, num_tokens, d_in), the same on all. The output, (b, num_tokens, d_out), is the same on all too.
    Errors: as in fewer_heads and in the layer.
    """
    part, x = part_of(layer, distributed.get_rank(), distributed.get_world_size()), x.view_as(x)
    if x.requires_grad:
        x.register_hook(added_up)  # each process knows only its own heads' share of this gradient
    output = part(x)  # this process's summand
    with torch.no_grad():  # as the sum changes as much as a summand does, its gradient is the summand's too
        distributed.all_reduce(output)
    return output, part


def added_up(grad):
    """The sum of all processes' gradients."""
    total = grad.clone(memory_format=torch.contiguous_format)
    distributed.all_reduce(total)
    return total


def by_torch(layer, x):
    """The same by torch's tensor parallelism, which makes the part's parameters DTensors. Errors: as in by_hand."""
    from torch.distributed.device_mesh import init_device_mesh  # these take as long as half of torch
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    processes = distributed.get_world_size()
    plan = dict.fromkeys(("W_query", "W_key", "W_value"), ColwiseParallel()) | {"out_proj": RowwiseParallel()}
    part = parallelize_module(fewer_heads(layer, processes), init_device_mesh("cpu", (processes,)), plan)
    return part(x), part

"""One layer by tokens: each process keeps its own queries, while keys and values travel around a ring.

Source: Liu et al. 2023, "Ring Attention with Blockwise Transformers" (arXiv 2310.01889), section 3. The zigzag order is
the one of Llama 3 (Llama team 2024, arXiv 2407.21783, section 3.3.2).
"""

import torch
from torch import distributed

from ..core import causal_mask
from ..modern.parts import repeat_kv


def straight(rank, processes):
    """Which chunks a process holds, as a tuple of their numbers, if the tokens are cut into one chunk per process."""
    return (rank,)


def zigzag(rank, processes):
    """Which two chunks a process holds, as a tuple of their numbers, if the tokens are cut into two per process."""
    return rank, 2 * processes - 1 - rank


def own_tokens(x, rank, processes, order=straight):
    """The rows of x, (b, num_tokens, d_in), that a process holds: (b, num_tokens / processes, d_in).

    Errors: ValueError unless the number of chunks divides num_tokens.
    """
    mine = order(rank, processes)
    count = processes * len(mine)
    if x.shape[1] % count:
        raise ValueError(f"x must have a number of tokens that can be cut into {count} equal chunks, got {x.shape[1]}")
    chunks = x.chunk(count, dim=1)
    return torch.cat([chunks[n] for n in mine], dim=1)


def block(queries, keys, values, causal):
    """Context vectors (..., num_queries, head_dim) as if these were all keys, and the log of each sum of exponentials.

    causal: True if these are the queries' own tokens, False if all keys come before all queries.
    """
    scores = queries @ keys.mT * queries.shape[-1] ** -0.5  # (..., num_queries, num_keys)
    if causal:
        scores = scores.masked_fill(causal_mask(scores.shape[-1], scores.device), -torch.inf)
    log_total = scores.logsumexp(dim=-1, keepdim=True)  # (..., num_queries, 1)
    return torch.exp(scores - log_total) @ values, log_total


def merge(context, log_total, other_context, other_log_total):
    """Context vectors, and logs of the sums of exponentials, of two blocks of keys together, from those of each."""
    both = torch.logaddexp(log_total, other_log_total)  # the log of the sum of the two sums
    return context * torch.exp(log_total - both) + other_context * torch.exp(other_log_total - both), both


class PassOn(torch.autograd.Function):
    """Send a tensor to the next rank, and receive the previous one's. Gradients travel the other way round."""

    @staticmethod
    def forward(_, tensor, step=1):
        rank, processes, received = distributed.get_rank(), distributed.get_world_size(), torch.empty_like(tensor)
        to, by = (rank + step) % processes, (rank - step) % processes
        both = [(distributed.isend, tensor.contiguous(), to), (distributed.irecv, received, by)]
        for request in distributed.batch_isend_irecv([distributed.P2POp(*each) for each in both]):
            request.wait()
        return received

    @staticmethod
    def backward(_, grad):
        return PassOn.forward(_, grad, step=-1)


def ring_attention(queries, keys, values, order=straight):
    """Causal context vectors of this process's tokens, over the keys and values of all processes.

    queries: (b, num_heads, num_tokens / processes, head_dim), chunk after chunk; keys and values can have fewer heads.
    Returns the shape of queries. Errors: ValueError if num_kv_heads doesn't divide num_heads.
    """
    rank, processes = distributed.get_rank(), distributed.get_world_size()
    mine = order(rank, processes)
    own = dict(zip(mine, queries.chunk(len(mine), dim=2), strict=True))  # each chunk's queries
    found, travelling = {}, torch.stack((keys, values))  # (2, b, num_kv_heads, num_tokens / processes, head_dim)
    for step in range(processes):
        theirs = order((rank - step) % processes, processes)  # the chunks whose keys and values are here now
        for n, part in zip(theirs, travelling.chunk(len(theirs), dim=3), strict=True):
            some_keys, some_values = repeat_kv(part, queries.shape[1])
            for chunk in (chunk for chunk in mine if chunk >= n):  # for earlier queries, all these keys are hidden
                new = block(own[chunk], some_keys, some_values, causal=chunk == n)
                found[chunk] = merge(*found[chunk], *new) if chunk in found else new
        if step < processes - 1:
            travelling = PassOn.apply(travelling)
    # Adding 0 keeps the numbers. But backward now passes gradients on from every process, also where all was hidden.
    return torch.cat([found[chunk][0] for chunk in mine], dim=2) + 0 * travelling.sum()


def by_tokens(layer, x, order=straight):
    """The layer's output for this process's tokens, without dropout, and the layer itself, which all processes hold.

    x: (b, num_tokens, d_in), of which a process uses only its own rows. The output: (b, num_tokens / processes, d_out).
    A weight's gradient is the sum of what the processes find through their own tokens. Errors: as in own_tokens.
    """
    x = own_tokens(x, distributed.get_rank(), distributed.get_world_size(), order)
    heads = [layer.split_heads(linear(x)) for linear in (layer.W_query, layer.W_key, layer.W_value)]
    context = ring_attention(*heads, order)  # (b, num_heads, num_tokens / processes, head_dim)
    return layer.out_proj(context.transpose(1, 2).flatten(2)), layer


def pairs(order, processes):
    """How many pairs of a query chunk and a key chunk each process computes in each step: a list for each rank."""
    chunks = [order(rank, processes) for rank in range(processes)]
    return [
        [sum(mine >= theirs for mine in own for theirs in chunks[rank - step]) for step in range(processes)]
        for rank, own in enumerate(chunks)
    ]

"""One layer over several ranks of torch.distributed, by heads or by tokens, and what it sends (notebook 14)."""

from pathlib import Path

import torch
from torch import distributed, nn


def block(queries, keys, values, hidden):  # hidden: True where a key comes later
    """Attention to one block of keys: context (..., num_queries, head_dim) and log_total (..., num_queries, 1).

    hidden: True where a key comes after the query. log_total: the logarithm of the sum of the scores' exponentials.
    """
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5  # (..., num_queries, num_keys)
    # minus infinity would make NaN of a block that's all hidden
    scores = scores.masked_fill(hidden, -1e9)
    log_total = scores.logsumexp(dim=-1, keepdim=True)
    return torch.exp(scores - log_total) @ values, log_total


def merge(context, log_total, new_context, new_log_total):
    """What `block` returns for the keys of two blocks together, from what it returned for each.

    Source: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax" (arXiv 1805.02867).
    """
    both = torch.logaddexp(log_total, new_log_total)
    return torch.exp(log_total - both) * context + torch.exp(new_log_total - both) * new_context, both


def attend_in_tiles(queries, keys, values, rows, columns, found=None):
    """Causal attention in tiles of 64 keys, merged into `found`; rows, columns: the positions of queries and keys."""
    for start in range(0, len(columns), 64):
        tile = slice(start, start + 64)
        hidden = columns[tile] > rows[:, None]
        new = block(queries, keys[..., tile, :], values[..., tile, :], hidden)
        found = new if found is None else merge(*found, *new)
    return found


def pass_on(tensor):
    """Send a tensor to the next rank, and return the one that the previous rank sent."""
    rank = distributed.get_rank()
    processes = distributed.get_world_size()
    arriving = torch.empty_like(tensor)
    # isend returns at once: if all waited until it's sent, none would receive
    sending = distributed.isend(tensor, (rank + 1) % processes)
    distributed.recv(arriving, (rank - 1) % processes)
    sending.wait()
    return arriving


class ParallelAttention(nn.Module):
    """Causal attention with shared KV heads, which several ranks compute together: by heads, or by tokens.

    by_heads(x): of a `part` of the layer, for all tokens, (num_tokens, d_in); returns (num_tokens, d_out).
    by_tokens(x): of the complete layer, for a rank's tokens; returns their outputs, and can't be trained.
    Source: by heads: Shoeybi et al. 2019, "Megatron-LM" (arXiv 1909.08053), section 3; by tokens: Liu et al. 2023,
    "Ring Attention" (arXiv 2310.01889).
    """

    def __init__(self, d_in, d_out, num_heads, num_kv_heads, head_dim):
        super().__init__()
        self.sizes = d_in, d_out, num_heads, num_kv_heads, head_dim
        self.W_query = nn.Linear(d_in, num_heads * head_dim, bias=False)
        self.W_key = nn.Linear(d_in, num_kv_heads * head_dim, bias=False)
        self.W_value = nn.Linear(d_in, num_kv_heads * head_dim, bias=False)
        self.out_proj = nn.Linear(num_heads * head_dim, d_out, bias=False)

    def split_heads(self, x):
        # (num_kv_heads, query heads per KV head, num_tokens, head_dim)
        *_, num_kv_heads, head_dim = self.sizes
        return x.unflatten(-1, (num_kv_heads, -1, head_dim)).permute(1, 2, 0, 3)

    def project(self, x):  # a KV head has one key and one value per token
        queries = self.split_heads(self.W_query(x))
        keys = self.split_heads(self.W_key(x))
        return queries, keys, self.split_heads(self.W_value(x))

    def join_heads(self, context):
        context = context.permute(2, 0, 1, 3).flatten(1)
        return self.out_proj(context)  # (num_tokens, d_out)

    def part(self, rank, processes):  # by heads: what a rank holds of the layer
        d_in, d_out, num_heads, num_kv_heads, head_dim = self.sizes
        heads = num_heads // processes, num_kv_heads // processes
        part = ParallelAttention(d_in, d_out, *heads, head_dim)
        weights = self.state_dict().items()
        # a rank's rows, but columns of out_proj
        weights = {name: W.chunk(processes)[rank] for name, W in weights}
        columns = self.out_proj.weight.chunk(processes, dim=1)
        weights["out_proj.weight"] = columns[rank]
        part.load_state_dict(weights)
        return part

    def by_heads(self, x):  # a part of the layer, all tokens, one sum
        positions = torch.arange(len(x), device=x.device)
        context, _ = attend_in_tiles(*self.project(x), positions, positions)
        output = self.join_heads(context)
        distributed.all_reduce(output)
        return output

    def by_tokens(self, x):  # the complete layer, a rank's tokens, a ring
        rank = distributed.get_rank()
        processes = distributed.get_world_size()
        num_tokens = len(x) * processes
        positions = torch.arange(num_tokens, device=x.device).chunk(processes)
        queries, *own = self.project(x)
        rows = positions[rank]
        found = attend_in_tiles(queries, *own, rows, rows)
        travelling = torch.stack(own)  # keys and values in one tensor
        for step in range(1, processes):
            travelling = pass_on(travelling)
            owner = (rank - step) % processes  # whose keys and values have arrived
            columns = positions[owner]
            if owner < rank:  # otherwise, all of them come later in the text
                found = attend_in_tiles(queries, *travelling, rows, columns, found)
        return self.join_heads(found[0])


def bytes_sent(processes, num_tokens, width, b=1, bytes_per_number=4):
    """Bytes that each process sends for one layer: 2 (P - 1) / P times b * num_tokens * width numbers.

    By heads, width is the output's: a sum over a ring sends P - 1 pieces on their way to be summed, and P - 1 finished
    ones, of 1 / P of the output each. By tokens, it's num_kv_heads * head_dim: each sends keys and values of 1 / P of
    the tokens P - 1 times.
    """
    return 2 * (processes - 1) * b * num_tokens * width * bytes_per_number // processes


def bytes_held(split, processes, num_tokens, width, kv_width, bytes_per_number=4):
    """Bytes that each process holds of one layer, by part. Scores don't count, because a fast layer never stores them.

    split: "heads" or "tokens"; by tokens, there's room for the keys and values that arrive. ValueError for another one.
    """
    if split not in ("heads", "tokens"):
        raise ValueError(f"split must be 'heads' or 'tokens', got {split!r}")
    each = bytes_per_number / processes
    rows, weights = 2 * num_tokens * width * each, 2 * width * (width + kv_width) * each
    whole = {"weights": weights, "input and output": rows}
    shared = "weights" if split == "tokens" else "input and output"  # what each process holds completely
    arriving = 2 * kv_width * (split == "tokens") * (processes > 1)
    inner = num_tokens * (width + 2 * kv_width + arriving) * each
    return whole | {shared: whole[shared] * processes, "queries, keys, values": inner}


def bytes_written():
    """Bytes that this process has written so far, to files, pipes and the network; None on other systems than Linux."""
    try:
        counters = Path("/proc/self/io").read_text(encoding="ascii")
    except OSError:
        return None
    return int(dict(line.split(": ") for line in counters.splitlines())["wchar"])

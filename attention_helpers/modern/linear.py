"""Linear attention: a state of constant size in place of a cache that grows, read by a product in place of softmax."""

import torch

from ..checks import check_alike, check_tensor


def linear_attention(queries, keys, values, decay=None):
    """Each query reads a running sum of its past: state = decay * state + key value^T, read by query @ state.

    queries, keys: (..., num_tokens, d_k); values: (..., num_tokens, d_v); decay: (..., num_tokens), 0 to 1, how much of
    the state is kept at each token, or None for all. Returns (..., num_tokens, d_v). It equals (queries @ keys^T,
    lower triangle) @ values: attention without softmax. Errors: TypeError unless queries, keys and values are
    floating-point tensors of the same dtype; ValueError for a rank below 2 or devices that differ. We check no sizes.
    Source: Katharopoulos et al. 2020, "Transformers are RNNs" (arXiv 2006.16236), section 3.3; with decay: Sun et al.
    2023, "Retentive Network" (arXiv 2307.08621), section 2.
    """
    return _read(queries, keys, values, decay, None)


def delta_rule(queries, keys, values, rate=None, decay=None):
    """Linear attention that overwrites: before a value is added, what its key already returns is subtracted.

    state = decay * state; state = state + rate * key (value - key @ state)^T. Keys should have length 1. rate: (...,
    num_tokens), 0 to 1, how much is overwritten, or None for all. Shapes, decay and errors as in linear_attention.
    Source: Schlag et al. 2021, "Linear Transformers Are Secretly Fast Weight Programmers" (arXiv 2102.11174), section
    4.2; with decay: Yang et al. 2024, "Gated Delta Networks" (arXiv 2412.06464), section 3.1.
    """
    rate = torch.ones_like(keys[..., 0]) if rate is None else rate
    return _read(queries, keys, values, decay, rate)


def _read(queries, keys, values, decay, rate):
    for name, part in {"queries": queries, "keys": keys, "values": values}.items():
        check_tensor(name, part, layout="(..., num_tokens, width)")
    check_alike(queries=queries, keys=keys)
    check_alike(keys=keys, values=values)
    state = (keys[..., 0, :, None] * values[..., 0, None, :]).mul(0)  # (..., d_k, d_v)
    read = []
    for n in range(queries.shape[-2]):
        key, value = keys[..., n, :], values[..., n, :]
        if decay is not None:
            state = state * decay[..., n, None, None]
        if rate is not None:
            value = rate[..., n, None] * (value - (key[..., None, :] @ state)[..., 0, :])
        state = state + key[..., :, None] * value[..., None, :]
        read.append((queries[..., n, None, :] @ state)[..., 0, :])
    return torch.stack(read, dim=-2)  # (..., num_tokens, d_v)

"""The KV cache of ModernAttention: what the next tokens can still see of those before them."""

from typing import NamedTuple

import torch


class RollingCache(NamedTuple):
    """Keys and values of the last tokens, (b, num_kv_heads, kept, head_dim) each, and how many tokens came so far."""

    keys: torch.Tensor  # already rotated, each by its own position
    values: torch.Tensor
    past: int


def past_of(cache):
    """How many tokens came before, 0 for None; TypeError if it isn't a cache."""
    if not isinstance(cache, RollingCache | None):
        raise TypeError(f"cache must be a RollingCache that step returned, or None, got {type(cache).__name__}")
    return 0 if cache is None else cache.past

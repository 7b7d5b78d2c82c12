"""The KV cache of ModernAttention: what the next tokens can still see of those before them."""

from typing import NamedTuple

import torch

from .parts import distances_of


class RollingCache(NamedTuple):
    """Keys and values of the last tokens, (b, num_kv_heads, kept, head_dim) each, and how many tokens came so far."""

    keys: torch.Tensor  # already rotated, each by its own position
    values: torch.Tensor
    past: int
    padding: torch.Tensor | None = None  # (b, kept), True where the token is padding; None if none is


def past_of(cache):
    """How many tokens came before, 0 for None; TypeError if it isn't a cache."""
    if not isinstance(cache, RollingCache | None):
        raise TypeError(f"cache must be a RollingCache that step returned, or None, got {type(cache).__name__}")
    return 0 if cache is None else cache.past


def joined_padding(cache, padding, x, num_keys):
    """Which of the keys are padding, (b, num_keys): those of the cache and those of x; None if none are."""
    if padding is not None:
        check_padding(padding, x)
    old = None if cache is None else cache.padding
    if old is None and padding is None:
        return None
    none = torch.zeros(len(x), num_keys, dtype=torch.bool, device=x.device)
    old = none[:, x.shape[1] :] if old is None else old
    return torch.cat((old, none[:, : x.shape[1]] if padding is None else padding), dim=1)


def hide_padding(padding, num_tokens):
    """A mask (b, 1, num_tokens, num_keys) that hides padding from all tokens but itself, so that no row is NaN."""
    others = distances_of(num_tokens, padding.shape[1] - num_tokens, padding.device) != 0
    return (padding[:, None] & others)[:, None]


def check_padding(padding, x):
    if not isinstance(padding, torch.Tensor) or padding.dtype != torch.bool:
        kind = padding.dtype if isinstance(padding, torch.Tensor) else type(padding).__name__
        raise TypeError(f"padding must be a boolean tensor, True where a token is padding, got {kind}")
    if padding.shape != x.shape[:2]:
        raise ValueError(f"padding must have the shape {tuple(x.shape[:2])}, got {tuple(padding.shape)}")

"""What today's models add to attention, as small functions: shared KV heads and a window.

Every mask is boolean and True hides, as in `core`, so you can combine masks with `|`.
"""

import torch

from ..checks import check_size


def window_mask(num_tokens, window, past=0, device=None):
    """Boolean mask: True, "hide", where the key is in the future, or `window` or more tokens back.

    A query sees at most `window` keys, counting its own. past: how many tokens came before the
    num_tokens queries. Returns (num_tokens, past + num_tokens). With neither, use `core.causal_mask`.
    Errors: as in causal_mask, for num_tokens, window and past (which can be 0).
    Source: Beltagy et al. 2020, "Longformer" (arXiv 2004.05150), section 3.1; causal, with a cache:
    Jiang et al. 2023, "Mistral 7B" (arXiv 2310.06825), section 2.
    """
    num_tokens, past = check_size("num_tokens", num_tokens), check_size("past", past, minimum=0)
    positions = torch.arange(past + num_tokens, device=device)
    distances = positions[past:, None] - positions  # (num_tokens, past + num_tokens)
    return (distances < 0) | (distances >= check_size("window", window))


def check_groups(num_heads, num_kv_heads):
    """How many query heads share one KV head; ValueError if that isn't a whole number."""
    if num_heads % num_kv_heads:
        raise ValueError(f"num_kv_heads must divide num_heads, got num_kv_heads={num_kv_heads}, num_heads={num_heads}")
    return num_heads // num_kv_heads

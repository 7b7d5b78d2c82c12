"""What today's models add to attention, as small functions: shared KV heads, a window, the best keys, a sink.

Every mask is boolean and True hides, as in `core`, so you can combine masks with `|`.
"""

import torch

from ..checks import check_finite, check_mask, check_size, check_tensor
from ..core import attention_weights


def repeat_kv(x, num_heads):
    """Repeat each KV head for its group of query heads (GQA; with a single KV head, MQA).

    x: keys or values, (..., num_kv_heads, num_tokens, head_dim). Returns (..., num_heads,
    num_tokens, head_dim): query head h reads KV head h // (num_heads / num_kv_heads).
    Errors: TypeError if x isn't a floating-point tensor or num_heads isn't a whole number;
    ValueError for a rank below 3, or if num_kv_heads doesn't divide num_heads.
    Source: Ainslie et al. 2023, "GQA" (arXiv 2305.13245), section 2.2; MQA: Shazeer 2019
    (arXiv 1911.02150).
    """
    check_tensor("x", x, range(3, 65), "(..., num_kv_heads, num_tokens, head_dim)")
    group = check_groups(check_size("num_heads", num_heads), x.shape[-3])
    return x.repeat_interleave(group, dim=-3)


def window_mask(num_tokens, window, past=0, device=None):
    """Boolean mask: True, "hide", where the key is in the future, or `window` or more tokens back.

    A query sees at most `window` keys, counting its own. past: how many tokens came before the
    num_tokens queries. Returns (num_tokens, past + num_tokens).
    Errors: as in causal_mask, for num_tokens, window and past (which can be 0).
    Source: Beltagy et al. 2020, "Longformer" (arXiv 2004.05150), section 3.1; causal, with a cache:
    Jiang et al. 2023, "Mistral 7B" (arXiv 2310.06825), section 2.
    """
    distances = distances_of(num_tokens, past, device)  # (num_tokens, past + num_tokens)
    return (distances < 0) | (distances >= check_size("window", window))


def distances_of(num_tokens, past, device):
    """How many tokens before its query each key is, (num_tokens, past + num_tokens)."""
    num_tokens, past = check_size("num_tokens", num_tokens), check_size("past", past, minimum=0)
    positions = torch.arange(past + num_tokens, device=device)
    return positions[past:, None] - positions


def best_keys_mask(scores, k, mask=None):
    """Boolean mask of sparse attention: True, "hide", for all but the k keys that an index scores highest.

    scores: the index's, (..., num_queries, num_keys); mask: boolean, what no query sees, broadcasts
    to scores. Returns the shape of scores. A query that can see fewer than k keys sees them all.
    Errors: as in attention_weights; also TypeError or ValueError if k isn't a whole number above 0.
    Source: DeepSeek-AI 2025, "DeepSeek-V3.2" (its lightning indexer and top-k selection).
    """
    check_tensor("scores", scores, layout="(..., num_queries, num_keys)")
    if mask is not None:
        check_mask(mask, scores)
        scores = scores.masked_fill(mask, -torch.inf)
    best = scores.topk(min(check_size("k", k), scores.shape[-1]), dim=-1).indices
    hide = torch.ones_like(scores, dtype=torch.bool).scatter(-1, best, False)
    return hide if mask is None else hide | mask


def sink_weights(scores, sink, mask=None, scale=1.0):
    """Attention weights with a sink: an extra score per head, for no token, that takes some weight.

    scores, mask, scale: as for attention_weights; scores (..., num_heads, num_queries, num_keys).
    sink: (num_heads,), one unscaled score per head. Returns the shape of scores, without the sink's
    weight: rows sum to less than 1, and to 0 if all keys are hidden.
    Errors: as in attention_weights; TypeError or ValueError too for a sink of another kind or shape.
    Source: OpenAI 2025, "gpt-oss model card" (arXiv 2508.10925), section 2.2; sinks in general:
    Xiao et al. 2023 (arXiv 2309.17453).
    """
    check_tensor("scores", scores, range(3, 65), "(..., num_heads, num_queries, num_keys)")
    check_tensor("sink", sink, (1,), f"({scores.shape[-3]},)")
    if len(sink) != scores.shape[-3]:
        raise ValueError(f"sink must hold one score for each of {scores.shape[-3]} heads, got {tuple(sink.shape)}")
    scaled = scores * check_finite("scale", scale)
    column = sink[:, None, None].to(scaled.dtype).expand(*scores.shape[:-1], 1)  # (..., num_heads, num_queries, 1)
    if mask is not None:
        check_mask(mask, scores)
        mask = torch.nn.functional.pad(mask.expand(scores.shape), (0, 1))  # False, shown, for the sink
    return attention_weights(torch.cat((scaled, column), dim=-1), mask)[..., :-1]


def check_groups(num_heads, num_kv_heads):
    """How many query heads share one KV head; ValueError if that isn't a whole number."""
    if num_heads % num_kv_heads:
        raise ValueError(f"num_kv_heads must divide num_heads, got num_kv_heads={num_kv_heads}, num_heads={num_heads}")
    return num_heads // num_kv_heads

"""The four steps of attention: score, hide the future, weight, average. Every layer in the course uses them."""

import torch

from .checks import check_alike, check_finite, check_mask, check_size, check_tensor


def attention_scores(queries, keys):
    """Dot product of every query with every key: how well do they match?

    queries: (..., num_queries, d_k); keys: (..., num_keys, d_k). Returns scores (..., num_queries,
    num_keys), one row per query.
    Errors: TypeError unless both are floating-point tensors of the same dtype; ValueError for a
    rank below 2, or widths or devices that differ.
    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1 (QK^T).
    """
    check_tensor("queries", queries, layout="(..., num_queries, d_k)")
    check_tensor("keys", keys, layout="(..., num_keys, d_k)")
    if queries.shape[-1] != keys.shape[-1]:
        got = f"keys {tuple(keys.shape)} for queries {tuple(queries.shape)}"
        raise ValueError(f"keys must be as wide as queries, got {got}")
    check_alike(queries=queries, keys=keys)
    return queries @ keys.transpose(-2, -1)  # (..., num_queries, num_keys)


def causal_mask(num_tokens, device=None):
    """Boolean mask of the future: True, meaning "hide", where the key comes after the query.

    For queries that follow tokens in a cache, or see only some tokens back, use `modern.parts.window_mask`.
    num_tokens: at least 1. Returns (num_tokens, num_tokens), on `device`.
    Errors: TypeError if num_tokens isn't a whole number, ValueError if it's below 1.
    Source: Vaswani et al. 2017, section 3.2.3 (leftward information flow is prevented).
    """
    num_tokens = check_size("num_tokens", num_tokens)
    hide = torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device)
    return hide.triu(diagonal=1)


def attention_weights(scores, mask=None, scale=1.0):
    """Softmax over the keys: each row of scores becomes weights that sum to 1.

    scores: (..., num_queries, num_keys); mask: boolean, True hides, any shape that broadcasts to
    the shape of scores; scale: multiplies the scores first, 1 / sqrt(d_k) in a layer. Returns
    weights in the shape of scores. A row is NaN if all its keys are hidden or its scores overflow,
    because its softmax is then undefined.
    Errors: TypeError if mask isn't boolean or scores isn't a floating-point tensor; ValueError if
    mask doesn't fit or is on another device, or if scale isn't finite.
    Source: Vaswani et al. 2017, section 3.2.1, equation 1.
    """
    check_tensor("scores", scores, layout="(..., num_queries, num_keys)")
    check_finite("scale", scale)
    scaled = scores * scale  # a new tensor, so that masking in place leaves `scores` alone
    if mask is not None:
        check_mask(mask, scores)
        scaled.masked_fill_(mask, -torch.inf)
    return torch.softmax(scaled, dim=-1)


def context_vectors(weights, values):
    """Weighted averages of the values: each row of weights gives one context vector.

    weights: (..., num_queries, num_keys); values: (..., num_keys, d_v). Returns (..., num_queries,
    d_v).
    Errors: TypeError unless both are floating-point tensors of the same dtype; ValueError for a
    rank below 2, or numbers of keys or devices that differ.
    Source: Vaswani et al. 2017, section 3.2.1, equation 1.
    """
    check_tensor("weights", weights, layout="(..., num_queries, num_keys)")
    check_tensor("values", values, layout="(..., num_keys, d_v)")
    if weights.shape[-1] != values.shape[-2]:
        got = f"values {tuple(values.shape)} for weights {tuple(weights.shape)}"
        raise ValueError(f"values must have one row per key, got {got}")
    check_alike(weights=weights, values=values)
    return weights @ values  # (..., num_queries, d_v)

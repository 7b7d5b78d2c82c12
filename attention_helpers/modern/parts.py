"""What today's models add to attention, as small functions: positions, shared KV heads, a window, padding, a sink.

Every mask is boolean and True hides, as in `core`, so you can combine masks with `|`. A bias is added to the scaled
scores: `attention_weights(scores * scale + bias, mask)`.
"""

import torch

from ..checks import check_finite, check_mask, check_number, check_size, check_tensor
from ..core import attention_weights

WHOLE = torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64
SIDES = "left", "right"


def rotate(x, positions, base=10_000.0):
    """Rotary positions (RoPE): rotate each pair of neighbours by an angle that grows with the position.

    x: queries or keys, (..., num_tokens, head_dim), head_dim even; positions: whole numbers,
    (num_tokens,) or any shape that broadcasts to x.shape[:-1]. Pair i, entries 2i and 2i + 1,
    rotates by base ** (-2i / head_dim) radians per token. Returns the shape and dtype of x; angles
    are computed in that dtype, but at least in float32.
    Errors: TypeError if x isn't a floating-point tensor, positions aren't whole numbers or base
    isn't a number; ValueError for an odd head_dim, positions that don't fit x, or a base that
    isn't above 0.
    Source: Su et al. 2021, "RoFormer" (arXiv 2104.09864), section 3.4.2, equation 34.
    """
    check_tensor("x", x, layout="(..., num_tokens, head_dim)")
    check_positions(positions, x)
    base, head_dim = check_base(base), check_even(x.shape[-1])
    kind = torch.promote_types(x.dtype, torch.float32)
    exponents = torch.arange(0, head_dim, 2, device=x.device, dtype=kind) / head_dim  # (head_dim / 2,)
    frequencies = base**-exponents  # radians per token
    angles = positions[..., None] * frequencies  # (..., num_tokens, head_dim / 2), radians
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]  # (..., num_tokens, head_dim / 2) each
    rotated = even * cos - odd * sin, even * sin + odd * cos
    return torch.stack(rotated, dim=-1).flatten(-2)  # (..., num_tokens, head_dim)


def alibi_slopes(num_heads, device=None):
    """How much a head's scores fall per token of distance: 2 ** (-8 h / num_heads), h from 1.

    Returns (num_heads,), float32. Errors: as in causal_mask, for num_heads.
    Source: Press et al. 2021, "Train short, test long" (arXiv 2108.12409), section 3. (Its released
    code uses other slopes if num_heads isn't a power of two.)
    """
    heads = torch.arange(1, check_size("num_heads", num_heads) + 1, dtype=torch.float32, device=device)
    return 2.0 ** (-8.0 * heads / num_heads)


def alibi_bias(num_heads, num_tokens, past=0, device=None):
    """ALiBi: -slope * distance, 0 for a token's own key. Add it to scores that are already scaled.

    past: how many tokens came before the num_tokens queries. Returns (num_heads, num_tokens,
    past + num_tokens), float32.
    Errors: as in causal_mask, for num_heads, num_tokens and past (which can be 0).
    Source: as for alibi_slopes.
    """
    distances = distances_of(num_tokens, past, device).abs()  # (num_tokens, past + num_tokens)
    return alibi_slopes(num_heads, device)[:, None, None] * -distances


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


def padding_mask(lengths, num_tokens, side="right", device=None):
    """Boolean mask for a batch of texts of different lengths: True where a key is padding.

    lengths: how many tokens each text has, b whole numbers from 0 to num_tokens; side: where the
    padding is, "left" or "right". Returns (b, 1, 1, num_tokens), for all heads and queries.
    Errors: TypeError if a size isn't a whole number; ValueError for no lengths, a length above
    num_tokens, or any other side.
    """
    num_tokens = check_size("num_tokens", num_tokens)
    try:
        lengths = [check_size("each of lengths", length, minimum=0) for length in lengths]
    except TypeError as error:
        raise TypeError(f"lengths must hold a whole number for each text, got {lengths!r}") from error
    if not lengths or max(lengths) > num_tokens:
        raise ValueError(f"lengths must hold at least one length, each at most {num_tokens}, got {lengths}")
    if side not in SIDES:
        raise ValueError(f"side must be 'left' or 'right', got {side!r}")
    positions = torch.arange(num_tokens, device=device)
    positions = positions.flip(0) if side == "left" else positions  # counted from the unpadded side
    return (positions >= torch.tensor(lengths, device=device)[:, None])[:, None, None]  # (b, 1, 1, num_tokens)


def show_self(mask):
    """The mask with its diagonal visible: every token can read itself, so no row is empty and NaN.

    mask: boolean, (..., num_tokens, num_tokens). Returns the same shape.
    Errors: TypeError if mask isn't boolean, ValueError if it isn't square.
    """
    if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, torch.Tensor) else type(mask).__name__
        raise TypeError(f"mask must be a boolean tensor, True where a key is hidden, got {kind}")
    if mask.ndim < 2 or mask.shape[-2] != mask.shape[-1]:
        raise ValueError(f"mask must have the shape (..., num_tokens, num_tokens), got {tuple(mask.shape)}")
    return mask & ~torch.eye(mask.shape[-1], dtype=torch.bool, device=mask.device)


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


def check_positions(positions, x):
    """Errors unless positions are whole numbers on x's device that broadcast to x.shape[:-1]."""
    if not isinstance(positions, torch.Tensor) or positions.dtype not in WHOLE:
        kind = positions.dtype if isinstance(positions, torch.Tensor) else type(positions).__name__
        raise TypeError(f"positions must be a tensor of whole numbers, got {kind}")
    sizes = zip(reversed(positions.shape), reversed(x.shape[:-1]), strict=False)
    if positions.ndim >= x.ndim or any(p not in (1, s) for p, s in sizes):
        raise ValueError(f"positions must broadcast to {tuple(x.shape[:-1])}, got {tuple(positions.shape)}")
    if positions.device != x.device:
        raise ValueError(f"positions must be on the device of x, {x.device}, got {positions.device}")


def check_base(base):
    number = check_number("base", base)
    if not 0 < number < float("inf"):
        raise ValueError(f"base must be finite and above 0, got {base!r}")
    return number


def check_even(head_dim):
    if head_dim % 2:
        raise ValueError(f"head_dim must be even, so that its entries make pairs, got {head_dim}")
    return head_dim


def check_groups(num_heads, num_kv_heads):
    """How many query heads share one KV head; ValueError if that isn't a whole number."""
    if num_heads % num_kv_heads:
        raise ValueError(f"num_kv_heads must divide num_heads, got num_kv_heads={num_kv_heads}, num_heads={num_heads}")
    return num_heads // num_kv_heads

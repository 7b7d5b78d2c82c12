"""Rotary positions (RoPE): rotate queries and keys by their positions, and choose how fast each pair of entries turns.

Scaled frequencies let a model read texts longer than those it was trained on. Linear scaling (Chen et al. 2023, arXiv
2306.15595) divides them all: `frequencies / factor`. NTK-aware scaling only takes a larger base:
`rope_frequencies(head_dim, base * factor ** (head_dim / (head_dim - 2)))`.
"""

import math

import torch

from ..checks import check_finite, check_number, check_size, check_tensor

WHOLE = torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64


def rotate(x, positions, frequencies, factor=1.0):
    """RoPE: rotate pairs of neighbouring entries by angles that grow with the position.

    x: queries or keys, (..., num_tokens, head_dim); positions: whole numbers, (num_tokens,) or any
    shape that broadcasts to x.shape[:-1]; frequencies: radians per token for each pair, such as
    rope_frequencies(head_dim). Pair i is entries 2i and 2i + 1; entries without a frequency stay as
    they are (partial RoPE). factor: multiplies what's rotated (YaRN). Returns the shape and dtype
    of x; angles are computed in that dtype, but at least in float32.
    Errors: TypeError if x or frequencies aren't floating-point tensors or positions aren't whole
    numbers; ValueError for more than head_dim / 2 frequencies, or positions that don't fit x.
    Source: Su et al. 2021, "RoFormer" (arXiv 2104.09864), section 3.4.2, equation 34.
    """
    check_tensor("x", x, layout="(..., num_tokens, head_dim)")
    check_positions(positions, x)
    width = 2 * len(check_frequencies(frequencies, x.shape[-1]))
    kind = torch.promote_types(x.dtype, torch.float32)
    angles = positions[..., None] * frequencies.to(x.device, kind)  # (..., num_tokens, width / 2), radians
    cos, sin = ((part * check_finite("factor", factor)).to(x.dtype) for part in (angles.cos(), angles.sin()))
    even, odd = x[..., 0:width:2], x[..., 1:width:2]  # (..., num_tokens, width / 2) each
    rotated = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)
    return torch.cat((rotated, x[..., width:]), dim=-1)  # (..., num_tokens, head_dim)


def rope_frequencies(head_dim, base=10_000.0):
    """Frequencies of plain RoPE, in radians per token: base ** (-2i / head_dim) for pair i.

    Returns (head_dim / 2,), float64. For partial RoPE, head_dim is the width that rotates.
    Errors: TypeError if a number is of another kind; ValueError for an odd head_dim or a base that isn't above 0.
    Source: Su et al. 2021 (arXiv 2104.09864), section 3.2.2.
    """
    head_dim = check_even(check_size("head_dim", head_dim))
    exponents = torch.arange(0, head_dim, 2, device="cpu", dtype=torch.float64) / head_dim
    return check_above_zero(base=base) ** -exponents


def llama3_frequencies(frequencies, factor, original, low=1.0, high=4.0):
    """Llama 3.1's scaling: divide slow frequencies by `factor`, keep fast ones, and blend in between.

    original: the longest text of the first training, in tokens. A pair that turns at most `low` times in it is slow,
    at least `high` times fast. Returns the shape of frequencies. Errors: TypeError if a number is of another kind;
    ValueError unless all numbers are above 0 and low is below high.
    Source: Llama 3.1's published configurations ("rope_type": "llama3"); Grattafiori et al. 2024 (arXiv 2407.21783).
    """
    check_above_zero(factor=factor, original=original, low=low, high=high)
    if low >= high:
        raise ValueError(f"low must be below high, got low={low!r}, high={high!r}")
    turns = original * frequencies / (2 * math.pi)  # within a text of the original length
    return blend(frequencies, (turns - low) / (high - low), factor)


def yarn_frequencies(frequencies, factor, original, base, fast=32.0, slow=1.0, truncate=True):
    """YaRN: like Llama 3's scaling, but blended by a pair's number; also returns a factor for `rotate`.

    original: as for llama3_frequencies. base: the one that made the frequencies. Pairs that turn more than `fast` times
    in the original length keep their frequency, those that turn fewer than `slow` times are divided by `factor`.
    truncate: whether the pairs where the blend begins and ends are rounded outwards to whole numbers. Returns
    (frequencies, 0.1 ln(factor) + 1); rotated by that factor, queries and keys give scores times its square.
    Errors: as for llama3_frequencies, here unless slow is below fast.
    Source: Peng et al. 2023, "YaRN" (arXiv 2309.00071), sections 3.2 and 3.4.
    """
    check_above_zero(factor=factor, original=original, fast=fast, slow=slow)
    if slow >= fast:
        raise ValueError(f"slow must be below fast, got slow={slow!r}, fast={fast!r}")
    pairs, log_base = len(frequencies), math.log(check_above_zero(base=base))
    first, last = (pairs * math.log(original / (turns * 2 * math.pi)) / log_base for turns in (fast, slow))
    if truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, 2 * pairs - 1)
    numbers = torch.arange(pairs, device=frequencies.device)
    keep = 1 - (numbers - first) / max(last - first, 0.001)  # a blend of no width is a step
    return blend(frequencies, keep, factor), 0.1 * math.log(factor) + 1 if factor > 1 else 1.0


def blend(frequencies, keep, factor):
    """Frequencies where keep is 1 or more, frequencies / factor where it's 0 or less."""
    keep = keep.clamp(0, 1)
    return frequencies * (keep + (1 - keep) / factor)


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


def check_frequencies(frequencies, head_dim):
    check_tensor("frequencies", frequencies, (1,), "(at most head_dim / 2,)")
    if 2 * len(frequencies) > head_dim:
        raise ValueError(f"frequencies must be at most head_dim / 2 = {head_dim / 2:g}, got {len(frequencies)}")
    return frequencies


def check_above_zero(**numbers):
    """ValueError unless each of the numbers is finite and above 0; returns the last."""
    for name, value in numbers.items():
        if not 0 < check_number(name, value) < math.inf:
            raise ValueError(f"{name} must be finite and above 0, got {value!r}")
    return value


def check_even(head_dim):
    if head_dim % 2:
        raise ValueError(f"head_dim must be even, so that its entries make pairs, got {head_dim}")
    return head_dim

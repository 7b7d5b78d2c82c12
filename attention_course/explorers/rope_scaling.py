"""Two published ways to scale rotary frequencies for texts longer than those in training."""

import math

import torch


def llama3_frequencies(frequencies, factor, original, low=1.0, high=4.0):
    """Llama 3.1's scaling: divide slow frequencies by `factor`, keep fast ones, and blend in between.

    original: the longest text of the first training, in tokens. A pair that turns at most `low` times in it is slow, at
    least `high` times fast. Returns the shape of frequencies.
    Source: Llama 3.1's published configurations ("rope_type": "llama3"); Grattafiori et al. 2024 (arXiv 2407.21783).
    """
    turns = original * frequencies / (2 * math.pi)  # within a text of the original length
    return blend(frequencies, (turns - low) / (high - low), factor)


def yarn_frequencies(frequencies, factor, original, base, fast=32.0, slow=1.0, truncate=True):
    """YaRN: like Llama 3's scaling, but blended by a pair's number; also returns a factor for queries and keys.

    original: as for llama3_frequencies. base: the one that made the frequencies. Pairs that turn more than `fast` times
    in the original length keep their frequency, those that turn fewer than `slow` times are divided by `factor`.
    truncate: whether the pairs where the blend begins and ends are rounded outwards to whole numbers. Returns
    (frequencies, 0.1 ln(factor) + 1): queries and keys times that factor give scores times its square.
    Source: Peng et al. 2023, "YaRN" (arXiv 2309.00071), sections 3.2 and 3.4.
    """
    pairs = len(frequencies)
    first, last = (pairs * math.log(original / (turns * 2 * math.pi)) / math.log(base) for turns in (fast, slow))
    if truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, 2 * pairs - 1)
    keep = 1 - (torch.arange(pairs, device=frequencies.device) - first) / max(last - first, 0.001)  # 0 wide is a step
    return blend(frequencies, keep, factor), 0.1 * math.log(factor) + 1 if factor > 1 else 1.0


def blend(frequencies, keep, factor):
    """Frequencies where keep is 1 or more, frequencies / factor where it's 0 or less."""
    keep = keep.clamp(0, 1)
    return frequencies * (keep + (1 - keep) / factor)

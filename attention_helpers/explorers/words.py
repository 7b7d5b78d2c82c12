"""Numbers in words, for readouts and for readers who can't see the picture."""

import torch


def entropy_in_bits(weights):
    """Entropy of each row of weights: 0 bits if one key has it all, log2(n) if n keys share equally. Shape: (...,)."""
    return torch.special.entr(weights).sum(dim=-1) / torch.tensor(2.0, dtype=weights.dtype).log()


def listed(values, decimals=2):
    """ "0.24, 0.10, 0.66"."""
    return ", ".join(f"{value:.{decimals}f}" for value in torch.as_tensor(values).flatten().tolist())


def shares(tokens, weights):
    """ "Your: 0.24, journey: 0.10"."""
    return ", ".join(f"{token}: {weight:.2f}" for token, weight in zip(tokens, weights.tolist(), strict=True))


def size_in_words(count):
    """A number of bytes as "96 bytes" or "1.2 MB"."""
    if count < 1e3:
        return f"{count} bytes"
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"

"""The parts of today's attention, each against torch's functions or an independent way to write it."""

import torch
from sizes import over_sizes

from attention_helpers import max_difference
from attention_helpers.modern.parts import window_mask
from attention_helpers.modern.positions import rope_frequencies, rotate


def by_rope(x, positions, base=10_000.0):
    return rotate(x, positions, rope_frequencies(x.shape[-1], base))


def by_complex_numbers(x, positions, base):
    """Rotary positions another way: neighbouring entries form a complex number, and rotating is multiplying."""
    half = x.shape[-1] // 2
    angles = torch.outer(positions.to(x.dtype), 1 / base ** (torch.arange(half, dtype=x.dtype) / half))
    pairs = torch.view_as_complex(x.unflatten(-1, (half, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


@over_sizes
def test_rotary_is_a_product_of_complex_numbers(sizes):
    x = sizes.draw(sizes.b, sizes.num_heads, sizes.num_tokens, 2 * sizes.head_dim)
    positions = torch.arange(sizes.num_tokens) + sizes.seed % 5000
    for base in (10_000.0, 100_000.0, 500_000):
        assert max_difference(by_rope(x, positions, base), by_complex_numbers(x, positions, base)) < 1e-10
    near = positions - positions[0]  # in float32, angles of far positions are rounded
    assert max_difference(by_rope(x.float(), near).double(), by_rope(x, near)) < 1e-5


@over_sizes
def test_a_window_shows_a_token_itself_and_those_just_before(sizes):
    window, past = 1 + sizes.seed % 7, sizes.spare
    for row, hidden in enumerate(window_mask(sizes.num_tokens, window, past), start=past):
        seen = [key for key in range(past + sizes.num_tokens) if row - window < key <= row]
        assert (~hidden).nonzero().flatten().tolist() == seen


def test_partial_rope_leaves_the_other_entries_and_a_factor_multiplies_only_what_turns():
    x, positions = torch.randn(3, 10, dtype=torch.float64), torch.arange(3)
    rotated = rotate(x, positions, rope_frequencies(4), factor=1.5)
    assert torch.equal(rotated[:, 4:], x[:, 4:])
    assert max_difference(rotated[:, :4], 1.5 * by_rope(x[:, :4], positions)) < 1e-12

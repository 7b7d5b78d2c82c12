"""The parts of today's attention, each against torch's functions or an independent way to write it."""

import torch
from sizes import over_sizes
from torch.nn.functional import scaled_dot_product_attention

from attention_helpers import attention_scores, causal_mask, context_vectors, max_difference
from attention_helpers.modern.parts import best_keys_mask, sink_weights, window_mask
from attention_helpers.modern.positions import rope_frequencies, rotate


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


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
    positions = torch.arange(sizes.spare, sizes.context_length)
    for base in (10_000.0, 100_000.0, 500_000):
        rotated = by_rope(x, positions, base)
        assert max_difference(rotated, by_complex_numbers(x, positions, base)) < 1e-10
        assert max_difference(rotated.norm(dim=-1), x.norm(dim=-1)) < 1e-10
    assert max_difference(by_rope(x.float(), positions).double(), by_rope(x, positions)) < 1e-5


@over_sizes
def test_rotary_scores_depend_on_the_distance_alone(sizes):
    queries, keys = sizes.draw(2, sizes.b, sizes.num_tokens, 2 * sizes.head_dim)
    positions, shift = torch.arange(sizes.num_tokens), sizes.seed % 5000
    here = attention_scores(by_rope(queries, positions), by_rope(keys, positions))
    there = attention_scores(by_rope(queries, positions + shift), by_rope(keys, positions + shift))
    assert max_difference(here, there) < 1e-10


@over_sizes
def test_a_window_shows_a_token_itself_and_those_just_before(sizes):
    window, past = 1 + sizes.seed % 7, sizes.spare
    for row, hidden in enumerate(window_mask(sizes.num_tokens, window, past), start=past):
        seen = [key for key in range(past + sizes.num_tokens) if row - window < key <= row]
        assert (~hidden).nonzero().flatten().tolist() == seen


@over_sizes
def test_a_sink_is_one_more_key_of_value_zero(sizes):
    """Torch's function with one more key, which scores 0 for every query; a float mask raises that to the sink."""
    sink, n = sizes.draw(sizes.num_heads).requires_grad_(), sizes.num_tokens
    q, k, v = sizes.draw(3, sizes.b, sizes.num_heads, n, sizes.head_dim)
    hide = causal_mask(n)
    scores, scale = attention_scores(q, k), sizes.head_dim**-0.5
    weights = sink_weights(scores, sink, hide, scale)
    pad = lambda x: torch.nn.functional.pad(x, (0, 0, 0, 1))  # noqa: E731
    floats = torch.zeros(n, n, dtype=torch.float64).masked_fill(hide, -torch.inf).expand(sizes.num_heads, n, n)
    floats = torch.cat((floats, sink[:, None, None].expand(-1, n, 1)), dim=-1)
    theirs = scaled_dot_product_attention(q, pad(k), pad(v), attn_mask=floats)
    mine = context_vectors(weights, v)
    assert max_difference(mine, theirs) < 1e-10
    grads = [torch.autograd.grad(result.square().sum(), sink)[0] for result in (mine, theirs)]
    assert max_difference(*grads) < 1e-10
    assert (weights.sum(dim=-1) < 1).all()


def test_partial_rope_leaves_the_other_entries_and_a_factor_multiplies_only_what_turns():
    x, positions = drawn(3, 10), torch.arange(3)
    rotated = rotate(x, positions, rope_frequencies(4), factor=1.5)
    assert torch.equal(rotated[:, 4:], x[:, 4:])
    assert max_difference(rotated[:, :4], 1.5 * by_rope(x[:, :4], positions)) < 1e-12


def test_sparse_attention_sees_the_best_keys_that_it_may_see():
    scores, hide = drawn(2, 3, 6, 6), causal_mask(6)
    mask = best_keys_mask(scores, 2, hide)
    assert (~mask).sum(dim=-1).tolist() == [[[1, 2, 2, 2, 2, 2]] * 3] * 2
    seen = scores.masked_fill(mask, torch.inf)
    unseen = scores.masked_fill(~mask | hide, -torch.inf)
    assert (seen.amin(dim=-1) >= unseen.amax(dim=-1)).all()
    assert torch.equal(best_keys_mask(scores, 9, hide), hide.expand(2, 3, 6, 6))

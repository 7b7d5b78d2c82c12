"""The parts of today's attention, each against torch's functions or an independent way to write it."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sizes import over_sizes
from torch.nn.functional import scaled_dot_product_attention

from attention_helpers import attention_scores, attention_weights, causal_mask, context_vectors, max_difference
from attention_helpers.modern.parts import (
    alibi_bias,
    alibi_slopes,
    best_keys_mask,
    padding_mask,
    repeat_kv,
    show_self,
    sink_weights,
    window_mask,
)
from attention_helpers.modern.positions import llama3_frequencies, rope_frequencies, rotate, yarn_frequencies


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def attended(queries, keys, values, mask=None, bias=0.0):
    """Attention with a bias: scale first, then add the bias, then mask."""
    scores = attention_scores(queries, keys) * queries.shape[-1] ** -0.5
    return context_vectors(attention_weights(scores + bias, mask), values)


def by_rope(x, positions, base=10_000.0):
    return rotate(x, positions, rope_frequencies(x.shape[-1], base))


def by_complex_numbers(x, positions, base):
    """Rotary positions another way: neighbouring entries form a complex number, and rotating is multiplying."""
    half = x.shape[-1] // 2
    angles = torch.outer(positions.to(x.dtype), 1 / base ** (torch.arange(half, dtype=x.dtype) / half))
    pairs = torch.view_as_complex(x.unflatten(-1, (half, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def by_halves(x, positions, base):
    """The half-split layout: entry i rotates with entry i + head_dim / 2."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * torch.exp(-math.log(base) * torch.arange(half, dtype=x.dtype) / half)
    rotated = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * angles.cos().repeat(1, 2) + rotated * angles.sin().repeat(1, 2)


@over_sizes
def test_rotary_is_a_product_of_complex_numbers(sizes):
    x = sizes.draw(sizes.b, sizes.num_heads, sizes.num_tokens, 2 * sizes.head_dim)
    positions = torch.arange(sizes.spare, sizes.context_length)
    for base in (10_000.0, 100_000.0, 500_000):
        rotated = by_rope(x, positions, base)
        assert max_difference(rotated, by_complex_numbers(x, positions, base)) < 1e-10
        assert max_difference(rotated.norm(dim=-1), x.norm(dim=-1)) < 1e-10
    assert max_difference(by_rope(x.float(), positions).double(), by_rope(x, positions)) < 1e-5


def test_far_positions_are_as_exact_as_their_dtype():
    x, positions = drawn(3, 8), torch.tensor([5, 777, 30_000])
    assert max_difference(by_rope(x, positions), by_complex_numbers(x, positions, 10_000.0)) < 1e-10
    assert max_difference(by_rope(x.float()[:2], positions[:2]).double(), by_rope(x, positions)[:2]) < 1e-3
    half = by_rope(x.bfloat16()[:2], positions[:2])
    assert half.dtype == torch.bfloat16
    assert max_difference(half.double(), by_rope(x, positions)[:2]) < 0.05  # angles in bfloat16 would be off by radians


@over_sizes
def test_the_other_layout_is_a_permutation_of_the_entries(sizes):
    x = sizes.draw(sizes.num_tokens, 2 * sizes.head_dim)
    positions = torch.arange(sizes.num_tokens)
    order = torch.cat((torch.arange(0, 2 * sizes.head_dim, 2), torch.arange(1, 2 * sizes.head_dim, 2)))
    halves = by_halves(x[:, order], positions, 10_000.0)
    assert max_difference(halves, by_rope(x, positions)[:, order]) < 1e-10


@over_sizes
def test_rotary_scores_depend_on_the_distance_alone(sizes):
    shape = sizes.b, sizes.num_heads, sizes.num_tokens, 2 * sizes.head_dim
    queries, keys = sizes.draw(2, *shape)
    positions, shift = torch.arange(sizes.num_tokens), sizes.seed % 5000
    here = attention_scores(by_rope(queries, positions), by_rope(keys, positions))
    there = attention_scores(by_rope(queries, positions + shift), by_rope(keys, positions + shift))
    assert max_difference(here, there) < 1e-10


def test_each_text_of_a_batch_may_have_positions_of_its_own():
    x = drawn(2, 3, 4, 6)  # (b, num_heads, num_tokens, head_dim)
    positions = torch.tensor([[0, 1, 2, 3], [7, 8, 9, 10]])[:, None]  # (b, 1, num_tokens)
    apart = torch.stack([by_rope(text, row[0]) for text, row in zip(x, positions, strict=True)])
    assert max_difference(by_rope(x, positions), apart) < 1e-12


def grouped_pairs():
    """num_heads, and a num_kv_heads that divides it."""
    return st.tuples(st.integers(1, 4), st.integers(1, 3)).map(lambda pair: (pair[0] * pair[1], pair[0]))


@given(heads=grouped_pairs(), num_tokens=st.integers(1, 5), seed=st.integers(0, 1000))
def test_grouped_heads_are_torchs_forward_and_gradient(heads, num_tokens, seed):
    num_heads, num_kv_heads = heads
    queries = drawn(2, num_heads, num_tokens, 4, seed=seed).requires_grad_()
    keys, values = drawn(2, 2, num_kv_heads, num_tokens, 4, seed=seed + 1).requires_grad_()
    all_keys, all_values = repeat_kv(keys, num_heads), repeat_kv(values, num_heads)
    mine = attended(queries, all_keys, all_values, causal_mask(num_tokens))
    theirs = scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=True)
    assert max_difference(mine, theirs) < 1e-10
    probe = drawn(*mine.shape, seed=seed + 2)
    grads = [torch.autograd.grad((result * probe).sum(), (queries, keys, values)) for result in (mine, theirs)]
    assert all(max_difference(a, b) < 1e-10 for a, b in zip(*grads, strict=True))


@over_sizes
def test_a_window_is_torchs_mask(sizes):
    """Row by row: a query sees itself and the window - 1 tokens before it, including past tokens."""
    window, past = 1 + sizes.seed % 7, sizes.spare
    hide = window_mask(sizes.num_tokens, window, past)
    for row in range(sizes.num_tokens):
        seen = [key for key in range(past + sizes.num_tokens) if past + row - window < key <= past + row]
        assert (~hide[row]).nonzero().flatten().tolist() == seen
    assert torch.equal(window_mask(sizes.num_tokens, 99), causal_mask(sizes.num_tokens))
    q, k, v = sizes.draw(3, 1, 2, past + sizes.num_tokens, 4)
    q = q[:, :, past:]
    show = torch.full((sizes.num_tokens, past + sizes.num_tokens), True).tril(past).triu(past - window + 1)
    theirs = scaled_dot_product_attention(q, k, v, attn_mask=show)
    assert max_difference(attended(q, k, v, hide), theirs) < 1e-10


@over_sizes
def test_alibi_is_torchs_float_mask(sizes):
    num_heads, past, num_keys = sizes.num_heads, sizes.spare, sizes.context_length
    bias, slopes = alibi_bias(num_heads, sizes.num_tokens, past).double(), alibi_slopes(num_heads).tolist()
    expected = torch.zeros(num_heads, sizes.num_tokens, num_keys, dtype=torch.float64)
    for head, row, key in torch.cartesian_prod(*map(torch.arange, expected.shape)).tolist():
        expected[head, row, key] = -abs(past + row - key) * slopes[head]
    assert max_difference(bias, expected) < 1e-6
    q, k, v = sizes.draw(3, 2, num_heads, num_keys, 3)
    hide = window_mask(sizes.num_tokens, num_keys, past)
    floats = bias.masked_fill(hide, -torch.inf)
    theirs = scaled_dot_product_attention(q[:, :, past:], k, v, attn_mask=floats)
    assert max_difference(attended(q[:, :, past:], k, v, hide, bias), theirs) < 1e-10


def test_alibis_slopes_are_those_of_the_paper():
    assert alibi_slopes(8).tolist() == [2**-n for n in range(1, 9)]
    assert alibi_slopes(1).tolist() == [2**-8]
    assert alibi_slopes(3).tolist() == [2**-4, 2**-8, 2**-2]  # as Bloom has them
    assert alibi_slopes(6).tolist() == [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_at_its_side(side):
    hide = padding_mask([3, 1, 0, 2], 3, side)
    assert hide.shape == (4, 1, 1, 3)
    rows = {"right": ["...", ".xx", "xxx", "..x"], "left": ["...", "xx.", "xxx", "x.."]}[side]
    assert ["".join(".x"[h] for h in row) for row in hide[:, 0, 0].tolist()] == rows
    assert torch.equal(hide, padding_mask(torch.tensor([3, 1, 0, 2]), 3, side))


def test_a_row_of_padding_reads_itself_and_nothing_is_nan():
    q, k, v = drawn(3, 2, 1, 4, 3).requires_grad_()
    hide = padding_mask([2, 4], 4, "left") | causal_mask(4)  # (2, 1, 4, 4)
    assert attended(q, k, v, hide)[0, 0, :2].isnan().all()
    result = attended(q, k, v, show_self(hide))
    assert max_difference(result[0, 0, :2], v[0, 0, :2]) < 1e-12
    [gradient] = torch.autograd.grad(result[0, :, 2:].sum() + result[1].sum(), q)
    assert gradient.isfinite().all()
    assert torch.equal(show_self(causal_mask(4)), causal_mask(4))
    assert show_self(torch.ones(3, 3, dtype=torch.bool)).tolist() == (~torch.eye(3, dtype=torch.bool)).tolist()


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


def test_a_sink_of_no_weight_changes_nothing_and_an_empty_row_is_zero():
    scores, hide = drawn(1, 2, 3, 3), causal_mask(3)
    never = torch.full((2,), -torch.inf, dtype=torch.float64)
    assert max_difference(sink_weights(scores, never, hide, 0.5), attention_weights(scores, hide, 0.5)) < 1e-12
    empty = torch.ones(3, 1, dtype=torch.bool)
    assert not sink_weights(scores, torch.zeros(2, dtype=torch.float64), empty).any()
    assert sink_weights(scores, torch.zeros(2)).dtype == torch.float64


def test_partial_rope_leaves_the_other_entries_and_a_factor_multiplies_only_what_turns():
    x, positions = drawn(3, 10), torch.arange(3)
    rotated = rotate(x, positions, rope_frequencies(4), factor=1.5)
    assert torch.equal(rotated[:, 4:], x[:, 4:])
    assert max_difference(rotated[:, :4], 1.5 * by_rope(x[:, :4], positions)) < 1e-12


def test_scaled_frequencies_keep_the_fast_pairs_and_divide_the_slow_ones():
    plain = rope_frequencies(64, 500_000.0)
    turns = 8192 * plain / (2 * math.pi)
    for scaled in (llama3_frequencies(plain, 8.0, 8192), yarn_frequencies(plain, 8.0, 8192, 500_000.0)[0]):
        assert torch.equal(scaled[turns > 33], plain[turns > 33])
        assert max_difference(scaled[turns < 0.8], plain[turns < 0.8] / 8) < 1e-12
        assert (scaled.diff() < 0).all()
    assert yarn_frequencies(plain, 1.0, 8192)[1] == 1.0
    assert yarn_frequencies(plain, 32.0, 4096)[1] == pytest.approx(1.3466, abs=1e-4)


def test_sparse_attention_sees_the_best_keys_that_it_may_see():
    scores, hide = drawn(2, 3, 6, 6), causal_mask(6)
    mask = best_keys_mask(scores, 2, hide)
    assert (~mask).sum(dim=-1).tolist() == [[[1, 2, 2, 2, 2, 2]] * 3] * 2
    seen = scores.masked_fill(mask, torch.inf)
    unseen = scores.masked_fill(~mask | hide, -torch.inf)
    assert (seen.amin(dim=-1) >= unseen.amax(dim=-1)).all()
    assert torch.equal(best_keys_mask(scores, 9, hide), hide.expand(2, 3, 6, 6))


X, PLACES = torch.ones(2, 3, 4), torch.arange(3)
TURNS = rope_frequencies(4)
SCORES, SINK = torch.ones(2, 3, 3), torch.zeros(2)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: rotate(X.long(), PLACES, TURNS), TypeError, "x must hold floating-point numbers of at least 16"),
        (lambda: rotate(X[..., :3], PLACES, TURNS), ValueError, "must be at most head_dim / 2 = 1.5, got 2"),
        (lambda: rotate(X, PLACES, 10_000.0), TypeError, "frequencies must be a torch.Tensor, got float"),
        (lambda: rotate(X, PLACES, TURNS, math.nan), ValueError, "factor must be finite, got nan"),
        (lambda: rotate(X, 3, TURNS), TypeError, "positions must be a tensor of whole numbers, got int"),
        (lambda: rotate(X, PLACES.float(), TURNS), TypeError, "must be a tensor of whole numbers, got torch."),
        (lambda: rotate(X, torch.arange(4), TURNS), ValueError, "positions must broadcast to (2, 3), got (4,)"),
        (lambda: rotate(X, PLACES.expand(1, 2, 3), TURNS), ValueError, "must broadcast to (2, 3), got (1, 2, 3)"),
        (lambda: rotate(X, PLACES.to("meta"), TURNS), ValueError, "must be on the device of x, cpu, got meta"),
        (lambda: rope_frequencies(3), ValueError, "head_dim must be even, so that its entries make pairs, got 3"),
        (lambda: rope_frequencies(4, math.inf), ValueError, "base must be finite and above 0, got inf"),
        (lambda: rope_frequencies(4, 0), ValueError, "base must be finite and above 0, got 0"),
        (lambda: rope_frequencies(4, "10"), TypeError, "base must be a number, got '10'"),
        (lambda: llama3_frequencies(TURNS, 0, 8192), ValueError, "factor must be finite and above 0, got 0"),
        (lambda: llama3_frequencies(TURNS, 8, 8192, 4, 4), ValueError, "low must be below high, got low=4, high=4"),
        (lambda: yarn_frequencies(TURNS, 8, -1), ValueError, "original must be finite and above 0, got -1"),
        (lambda: yarn_frequencies(TURNS, 8, 64, fast=1), ValueError, "slow must be below fast, got slow=1.0, fast=1"),
        (lambda: best_keys_mask(SCORES, 0), ValueError, "k must be at least 1, got 0"),
        (lambda: best_keys_mask(SCORES, 1, torch.ones(4) > 0), ValueError, "mask must broadcast to scores (2, 3, 3)"),
        (lambda: alibi_slopes(0), ValueError, "num_heads must be at least 1, got 0"),
        (lambda: alibi_bias(2, 3, -1), ValueError, "past must be at least 0, got -1"),
        (lambda: repeat_kv(X, 5), ValueError, "num_kv_heads must divide num_heads, got num_kv_heads=2"),
        (lambda: repeat_kv(X[0], 2), ValueError, "x must have the shape (..., num_kv_heads, num_tokens, head_dim)"),
        (lambda: window_mask(3, 0), ValueError, "window must be at least 1, got 0"),
        (lambda: window_mask(3, 2, True), TypeError, "past must be a whole number, got True"),
        (lambda: padding_mask([1, 4], 3), ValueError, "each at most 3, got [1, 4]"),
        (lambda: padding_mask([], 3), ValueError, "lengths must hold at least one length"),
        (lambda: padding_mask([1.5], 3), TypeError, "lengths must hold a whole number for each text, got [1.5]"),
        (lambda: padding_mask([1], 3, "top"), ValueError, "side must be 'left' or 'right', got 'top'"),
        (lambda: show_self(torch.ones(3, 3)), TypeError, "mask must be a boolean tensor, True where a key is hidden"),
        (lambda: show_self(torch.ones(3) > 0), ValueError, "mask must have the shape (..., num_tokens, num_tokens)"),
        (lambda: show_self(torch.ones(2, 3) > 0), ValueError, "mask must have the shape (..., num_tokens, num_tokens)"),
        (lambda: sink_weights(SCORES[0], SINK), ValueError, "scores must have the shape (..., num_heads, num_queries"),
        (lambda: sink_weights(SCORES, torch.zeros(3)), ValueError, "sink must hold one score for each of 2 heads"),
        (lambda: sink_weights(SCORES, 0.0), TypeError, "sink must be a torch.Tensor, got float"),
        (lambda: sink_weights(SCORES, SINK, torch.ones(4) > 0), ValueError, "mask must broadcast to scores (2, 3, 3)"),
        (lambda: sink_weights(SCORES, SINK, scale=float("nan")), ValueError, "scale must be finite, got nan"),
    ],
)  # fmt: skip
def test_bad_input_names_argument_value_and_rule(call, error, said):
    with pytest.raises(error) as caught:
        call()
    assert said in str(caught.value)


def test_alibi_is_float32_on_its_device_whatever_the_default():
    torch.set_default_dtype(torch.float64)
    try:
        bias = alibi_bias(2, 3, device="meta")
    finally:
        torch.set_default_dtype(torch.float32)
    assert (bias.dtype, bias.device.type) == (torch.float32, "meta")


def test_parts_are_made_on_the_device_of_their_input_or_the_one_asked_for():
    hide = window_mask(3, 2, device="meta")
    parts = (
        hide,
        show_self(hide),
        padding_mask([1, 2], 3, device="meta"),
        rotate(X.to("meta"), PLACES.to("meta"), TURNS),
    )
    assert {part.device.type for part in parts} == {"meta"}


def test_weights_have_the_dtype_of_the_scores_whatever_the_sinks():
    assert sink_weights(torch.ones(2, 3, 3).half(), torch.zeros(2)).dtype == torch.float16

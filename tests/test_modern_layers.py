"""ModernAttention and CrossAttention, against torch's layers, notebook 06's class, and themselves in chunks."""

import math
from copy import deepcopy

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from sizes import over_sizes
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from attention_helpers import MultiHeadAttention, influence, max_difference
from attention_helpers.modern.latent import LatentAttention
from attention_helpers.modern.layers import CrossAttention, ModernAttention, RollingCache
from attention_helpers.modern.linear import delta_rule, linear_attention
from attention_helpers.modern.parts import padding_mask, show_self


def made(seed, *sizes, layer_class=ModernAttention, **options):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return layer_class(*sizes, **options).double()


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


LAYERS = st.builds(
    lambda groups, key_heads, pairs, window, base, seed: made(
        seed, 5, 2 * groups * key_heads * pairs, groups * key_heads, key_heads, window=window, base=base
    ),
    groups=st.integers(1, 3),
    key_heads=st.integers(1, 3),
    pairs=st.integers(1, 3),
    window=st.none() | st.integers(1, 8),
    base=st.sampled_from([10_000.0, 100_000.0, None]),
    seed=st.integers(0, 2**32 - 1),
)
CHUNKS = st.lists(st.integers(1, 5), min_size=1, max_size=5)


@given(layer=LAYERS, chunks=CHUNKS, seed=st.integers(0, 1000))
@example(made(0, 5, 8, 4, 2, window=3), [4, 3, 1, 5], 0)  # chunks longer than the window
@example(made(1, 5, 8, 4, 1, window=1), [1, 2, 2], 1)  # a cache that keeps nothing
@example(made(2, 5, 8, 4, 4), [1, 1, 4], 2)  # no window
def test_in_chunks_of_any_length_is_the_whole(layer, chunks, seed):
    x, cache, parts = drawn(2, sum(chunks), 5, seed=seed).requires_grad_(), None, []
    for chunk in x.split(chunks, dim=1):
        part, cache = layer.step(chunk, cache)
        parts.append(part)
    stepped, whole = torch.cat(parts, dim=1), layer(x)
    assert max_difference(stepped, whole) < 1e-10
    grads = [torch.autograd.grad(result.square().sum(), x)[0] for result in (stepped, whole)]
    assert max_difference(*grads) < 1e-8
    kept = sum(chunks) if layer.window is None else min(layer.window - 1, sum(chunks))
    assert cache.keys.shape == cache.values.shape == (2, layer.num_kv_heads, kept, layer.head_dim)
    assert cache.past == sum(chunks)


@given(layer=LAYERS, num_tokens=st.integers(1, 9), seed=st.integers(0, 1000))
@example(made(0, 5, 8, 4, 2, window=3), 9, 0)
@example(made(1, 5, 8, 2, 1, base=100.0), 6, 1)
def test_it_is_torchs_function_on_what_complex_numbers_turned(layer, num_tokens, seed):
    """Forward and gradients, with the rotation, grouping and mask all written differently."""
    x = drawn(2, num_tokens, 5, seed=seed).requires_grad_()
    heads = [linear(x).unflatten(-1, (-1, layer.head_dim)) for linear in (layer.W_query, layer.W_key, layer.W_value)]
    q, k, v = (part.movedim(1, 2) for part in heads)
    if layer.frequencies is not None:
        turned = torch.arange(num_tokens)[:, None] * layer.frequencies
        turns = torch.polar(torch.ones_like(turned), turned)
        q, k = (
            torch.view_as_real(torch.view_as_complex(part.unflatten(-1, (-1, 2)).contiguous()) * turns).flatten(-2)
            for part in (q, k)
        )
    show = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()
    show = show if layer.window is None else show.triu(1 - layer.window)
    context = scaled_dot_product_attention(q, k, v, attn_mask=show, enable_gqa=True)
    theirs = layer.out_proj(context.movedim(1, 2).flatten(2))
    assert max_difference(layer(x), theirs) < 1e-10
    assert max_difference(deepcopy(layer).float()(x.float()).double(), theirs) < 1e-5
    leaves = x, *layer.parameters()
    grads = [torch.autograd.grad(result.square().sum(), leaves, retain_graph=True) for result in (layer(x), theirs)]
    largest = max(grad.abs().max().item() for grad in grads[1])
    assert all(max_difference(a, b) < 1e-6 * max(largest, 1) for a, b in zip(*grads, strict=True))


@over_sizes
def test_with_a_key_head_for_each_query_head_it_is_the_class_of_notebook_06(sizes):
    """Copied weights, no rotary positions, no window, and the older class's biases at 0."""
    modern = made(sizes.seed, sizes.d_in, sizes.d_out, sizes.num_heads, sizes.num_heads, base=None)
    older = MultiHeadAttention(sizes.d_in, sizes.d_out, sizes.context_length, 0.0, sizes.num_heads).double()
    assert not older.load_state_dict(modern.state_dict(), strict=False).unexpected_keys
    nn.init.zeros_(older.out_proj.bias)
    x = sizes.x()
    assert max_difference(modern(x), older(x)) < 1e-10
    mine, theirs = modern.steps(x), older.steps(x)
    assert all(max_difference(a, b) < 1e-10 for a, b in zip(mine, theirs, strict=True))


@given(
    layer=LAYERS, lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4), side=st.sampled_from(["left", "right"])
)
@example(made(0, 5, 8, 4, 2, window=2), [3, 6, 0], "left")
@example(made(1, 5, 8, 4, 2), [1, 4], "right")
def test_padding_never_changes_another_tokens_row(layer, lengths, side):
    """Each text gives the same result and gradient as on its own, for any padding content; nothing is NaN."""
    longest = max(*lengths, 1)
    hide = padding_mask(lengths, longest, side)
    hide = show_self(hide.expand(-1, -1, longest, -1))
    x = (100 * drawn(len(lengths), longest, 5)).requires_grad_()
    result = layer(x, hide)
    own = [slice(longest - n, None) if side == "left" else slice(n) for n in lengths]
    loss = sum(rows[part].square().sum() for rows, part in zip(result, own, strict=True))
    [gradient] = torch.autograd.grad(loss, x)
    assert result.isfinite().all()
    for text, rows, slopes, part, n in zip(x, result, gradient, own, lengths, strict=True):
        padding = slopes.clone()
        padding[part] = 0
        assert not padding.any()  # also: not NaN
        if n:
            alone = text[None, part].detach().requires_grad_()
            expected = layer(alone)
            assert max_difference(rows[part], expected[0]) < 1e-8
            [expected] = torch.autograd.grad(expected.square().sum(), alone)
            assert max_difference(slopes[part], expected[0]) < 1e-6 * max(1, expected.abs().max().item())


@given(
    layer=LAYERS,
    chunks=CHUNKS,
    padded=st.lists(st.integers(0, 9), min_size=1, max_size=3),
    cut=st.integers(0, 9),
)
@example(made(0, 5, 8, 4, 2, window=2), [3, 2, 1], [0, 2, 4], 3)
def test_texts_padded_on_the_left_go_on_with_the_cache(layer, chunks, padded, cut):
    """Each text's own tokens come out as if it were alone, however much padding the first chunk has."""
    num_tokens = sum(chunks)
    padded = [min(n, chunks[0]) for n in padded]
    x, cache, parts = 10 * drawn(len(padded), num_tokens, 5), None, []
    hide = torch.arange(num_tokens) < torch.tensor(padded)[:, None]
    for chunk, hidden in zip(x.split(chunks, dim=1), hide.split(chunks, dim=1), strict=True):
        part, cache = layer.step(chunk, cache, hidden if hidden.any() else None)
        parts.append(part)
    result = torch.cat(parts, dim=1)
    assert result.isfinite().all()
    for text, rows, n in zip(x, result, padded, strict=True):
        if n < num_tokens:
            assert max_difference(rows[n:], layer(text[None, n:])[0]) < 1e-8


@given(st.integers(1, 4), st.integers(1, 5), st.sampled_from([None, 3]), CHUNKS, st.integers(0, 1000))
def test_latent_attention_in_chunks_absorbed_is_the_whole(num_heads, d_latent, d_query_latent, chunks, seed):
    sizes = 5, 6, num_heads, d_latent, 3, 4, 2, d_query_latent
    layer, x, cache, parts = made(seed, *sizes, layer_class=LatentAttention), drawn(2, sum(chunks), 5), None, []
    for chunk in x.split(chunks, dim=1):
        part, cache = layer.step(chunk, cache)
        parts.append(part)
    assert max_difference(torch.cat(parts, dim=1), layer(x)) < 1e-10
    assert [part.shape for part in cache] == [(2, sum(chunks), d_latent), (2, sum(chunks), 2)]
    assert not influence(layer.eval(), x[:1]).perturbation.triu(1).any()


@given(st.integers(1, 9), st.integers(1, 5), st.booleans(), st.integers(0, 1000))
def test_linear_attention_is_the_masked_matrix(num_tokens, width, forgets, seed):
    q, k, v = drawn(3, 2, num_tokens, width, seed=seed)
    decay = drawn(2, num_tokens, seed=seed).sigmoid() if forgets else torch.ones(2, num_tokens).double()
    kept = decay.log().cumsum(dim=-1)  # from j to i, a product of decays: exp(kept_i - kept_j)
    matrix = (q @ k.mT * (kept[..., :, None] - kept[..., None, :]).exp()).tril()
    assert max_difference(linear_attention(q, k, v, decay if forgets else None), matrix @ v) < 1e-10


def test_the_delta_rule_overwrites_what_a_key_returned_before():
    keys, values = torch.eye(4).double()[[0, 1, 0, 2]], drawn(4, 3)
    queries = torch.eye(4).double()[[0, 0, 0, 1]]
    assert max_difference(delta_rule(queries, keys, values), values[[0, 0, 2, 1]]) < 1e-12
    summed = linear_attention(queries, keys, values)
    assert max_difference(summed[2], values[0] + values[2]) < 1e-12


def test_which_token_reads_which():
    x = drawn(1, 6, 4)
    layer = made(0, 4, 8, 2, 1, window=3).eval()
    reached = influence(layer, x).perturbation > 1e-9
    expected = torch.ones(6, 6, dtype=torch.bool).tril().triu(-2)
    assert torch.equal(reached, expected)
    two = nn.Sequential(made(0, 4, 4, 2, 1, window=3), made(1, 4, 4, 2, 1, window=3)).eval()
    reached = influence(two, x).perturbation > 1e-9
    assert torch.equal(reached, torch.ones(6, 6, dtype=torch.bool).tril().triu(-4))  # each layer reaches 2 further


def test_the_cache_forgets_in_memory_too_and_old_caches_stay_as_they_are():
    layer, x = made(0, 4, 8, 4, 2, window=3), drawn(1, 20, 4)
    with torch.no_grad():
        _, first = layer.step(x[:, :9])
        before = first.keys.clone()
        assert first.keys.untyped_storage().nbytes() == 2 * 2 * 2 * 8  # heads, tokens, entries, bytes
        one, _ = layer.step(x[:, 9:10], first)
        other, second = layer.step(x[:, 9:], first)
        assert max_difference(one, other[:, :1]) < 1e-10
        assert torch.equal(first.keys, before)
        assert second.values.untyped_storage().nbytes() == 2 * 2 * 2 * 8


def test_the_parameters_are_those_of_the_projections():
    layer = ModernAttention(576, 576, 9, 3)
    shapes = {name: tuple(p.shape) for name, p in layer.named_parameters()}
    assert shapes == {
        "W_query.weight": (576, 576),
        "W_key.weight": (192, 576),
        "W_value.weight": (192, 576),
        "out_proj.weight": (576, 576),
    }


def test_it_runs_on_the_device_of_its_weights():
    layer, x = made(0, 4, 8, 2, 1, window=2).to("meta"), drawn(1, 5, 4).to("meta")
    _, cache = layer.step(x)
    assert layer.step(x, cache)[0].device.type == "meta"


def test_half_precision_and_autocast():
    layer, x = made(0, 4, 8, 2, 1, window=2).float(), drawn(1, 5, 4).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        start, cache = layer.step(x[:, :3])
        end, _ = layer.step(x[:, 3:], cache)
    assert max_difference(torch.cat((start, end), dim=1).float(), layer(x)) < 0.02
    with pytest.raises(ValueError, match="keys like those of x"):
        layer.step(x[:, 3:], cache)
    half = made(0, 4, 8, 2, 1).bfloat16()
    assert half(x.bfloat16()).dtype == torch.bfloat16


@over_sizes
def test_cross_attention_is_torchs_layer(sizes):
    """nn.MultiheadAttention with keys and values of another width and number, and padding hidden in both."""
    d_other, num_others = sizes.d_out + 1 + sizes.seed % 5, 1 + sizes.seed % 7  # at one width torch uses other names
    layer = made(sizes.seed, sizes.d_out, d_other, sizes.d_out, sizes.num_heads, layer_class=CrossAttention)
    torchs = nn.MultiheadAttention(
        sizes.d_out, sizes.num_heads, kdim=d_other, vdim=d_other, batch_first=True, dtype=torch.float64
    )
    with torch.no_grad():
        torchs.q_proj_weight.copy_(layer.W_query.weight)
        torchs.k_proj_weight.copy_(layer.W_key.weight)
        torchs.v_proj_weight.copy_(layer.W_value.weight)
        torchs.in_proj_bias.zero_()
    torchs.out_proj.load_state_dict(layer.out_proj.state_dict())
    x = sizes.draw(sizes.b, sizes.num_tokens, sizes.d_out).requires_grad_()
    other = sizes.draw(sizes.b, num_others, d_other).requires_grad_()
    lengths = [1 + (sizes.seed + n) % num_others for n in range(sizes.b)]
    hide = padding_mask(lengths, num_others)
    mine = layer(x, other, hide)
    theirs, shares = torchs(x, other, other, key_padding_mask=hide[:, 0, 0], average_attn_weights=False)
    assert mine.shape == (sizes.b, sizes.num_tokens, sizes.d_out)
    assert max_difference(mine, theirs) < 1e-10
    assert max_difference(layer.steps(x, other, hide).weights, shares) < 1e-10
    grads = [torch.autograd.grad(result.square().sum(), (x, other)) for result in (mine, theirs)]
    assert all(max_difference(a, b) < 1e-8 for a, b in zip(*grads, strict=True))
    assert max_difference(layer.float()(x.float(), other.float(), hide).double(), theirs) < 1e-5


LATENT = LatentAttention(3, 4, 2, d_latent=2, d_key=2, d_value=2, d_rope=2)
LAYER, CROSS = ModernAttention(3, 8, 4, 2, window=3), CrossAttention(3, 5, 4, 2)
X, KEYS = torch.ones(1, 2, 3), torch.ones(1, 2, 2, 2)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: ModernAttention(3, 8, 4, 3), ValueError, "num_kv_heads must divide num_heads, got num_kv_heads=3"),
        (lambda: ModernAttention(3, 8, 3, 1), ValueError, "num_heads must divide d_out"),
        (lambda: ModernAttention(3, 8, 8, 2), ValueError, "head_dim must be even, so that its entries"),
        (lambda: ModernAttention(3, 8, 4, 2, window=0), ValueError, "window must be at least 1, got 0"),
        (lambda: ModernAttention(3, 8, 4, 2, base=-1), ValueError, "base must be finite and above 0, got -1"),
        (lambda: ModernAttention(3, 8, 4, 2, qk_norm="all"), ValueError, "qk_norm must be None, 'head' or 'width'"),
        (lambda: ModernAttention(3, 8, 4, 2, sinks=1), TypeError, "sinks must be True or False, got 1"),
        (lambda: ModernAttention(3, 8, 4, 2, head_dim=0), ValueError, "head_dim must be at least 1, got 0"),
        (lambda: ModernAttention(3, 8, 4, 2, scale=math.inf), ValueError, "scale must be finite, got inf"),
        (lambda: LAYER.step(X, None, torch.zeros(1, 2)), TypeError, "padding must be a boolean tensor, True where"),
        (lambda: LAYER.step(X, None, torch.ones(2) > 0), ValueError, "padding must have the shape (1, 2), got (2,)"),
        (lambda: LATENT(X[..., :2]), ValueError, "x must have width d_in=3"),
        (lambda: LATENT.step(X, (KEYS, KEYS)), TypeError, "cache must be a LatentCache that step returned, or None"),
        (lambda: LatentAttention(3, 4, 2, 2, 2, 2, 3), ValueError, "head_dim must be even"),
        (lambda: ModernAttention(3, 8, 4, 2.0), TypeError, "num_kv_heads must be a whole number, got 2.0"),
        (lambda: LAYER(X[0]), ValueError, "x must have the shape (b, num_tokens, 3)"),
        (lambda: LAYER(X.double()), TypeError, "x must be of the layer's dtype torch.float32, got torch.float64"),
        (lambda: LAYER(X[..., :2]), ValueError, "x must have width d_in=3"),
        (lambda: LAYER(X[:, :0]), ValueError, "x must hold at least one token, got (1, 0, 3)"),
        (lambda: LAYER(X, torch.ones(3, 3) > 0), ValueError, "mask must broadcast to scores (1, 4, 2, 2), got (3, 3)"),
        (lambda: LAYER.step(X, (KEYS, KEYS, 2)), TypeError, "cache must be a RollingCache that step returned, or None"),
        (lambda: LAYER.step(X, RollingCache(KEYS, KEYS, -1)), ValueError, "cache.past must be at least 0, got -1"),
        (lambda: LAYER.step(X, RollingCache(KEYS, KEYS, 1)), ValueError, "keys of shape (1, 2, 1, 2), got (1,"),
        (lambda: CrossAttention(3, 0, 4, 2), ValueError, "d_other must be at least 1, got 0"),
        (lambda: CROSS(X, torch.ones(2, 4, 5)), ValueError, "other must have the shape (1, 4, 5), got (2, 4, 5)"),
        (lambda: CROSS(X, torch.ones(1, 4, 5).double()), ValueError, "other must be like x, torch.float32 on"),
        (lambda: CROSS(X, torch.ones(1, 4, 5).to("meta")), ValueError, "float32 on cpu, got torch.float32 on meta"),
        (lambda: CROSS(X, torch.ones(1, 4, 5), torch.ones(2, 2) > 0), ValueError, "mask must broadcast to scores (1,"),
    ],
)  # fmt: skip
def test_bad_input_names_argument_value_and_rule(call, error, said):
    with pytest.raises(error) as caught:
        call()
    assert said in str(caught.value)

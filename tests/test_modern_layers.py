"""ModernAttention against torch's function, and layers with a cache against themselves in chunks."""

import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from attention_helpers import influence, max_difference
from attention_helpers.modern.latent import LatentAttention
from attention_helpers.modern.layers import ModernAttention
from attention_helpers.modern.linear import delta_rule, linear_attention
from attention_helpers.modern.positions import rotate


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


def in_chunks(layer, x, chunks):
    """The output of all chunks, and the last cache."""
    parts, cache = [], None
    for chunk in x.split(chunks, dim=1):
        part, cache = layer.step(chunk, cache)
        parts.append(part)
    return torch.cat(parts, dim=1), cache


@given(layer=LAYERS, chunks=CHUNKS, seed=st.integers(0, 1000))
@example(made(0, 5, 8, 4, 2, window=3), [4, 3, 1, 5], 0)  # chunks longer than the window
@example(made(1, 5, 8, 4, 1, window=1), [1, 2, 2], 1)  # a cache that keeps nothing
def test_in_chunks_of_any_length_is_the_whole(layer, chunks, seed):
    x = drawn(2, sum(chunks), 5, seed=seed).requires_grad_()
    (stepped, cache), whole = in_chunks(layer, x, chunks), layer(x)
    assert max_difference(stepped, whole) < 1e-10
    grads = [torch.autograd.grad(result.square().sum(), x)[0] for result in (stepped, whole)]
    assert max_difference(*grads) < 1e-8
    kept = sum(chunks) if layer.window is None else min(layer.window - 1, sum(chunks))
    assert cache.keys.shape == cache.values.shape == (2, layer.num_kv_heads, kept, layer.head_dim)
    assert cache.past == sum(chunks)


@given(layer=LAYERS, num_tokens=st.integers(1, 9), seed=st.integers(0, 1000))
@example(made(0, 5, 8, 4, 2, window=3), 9, 0)
@example(made(1, 5, 8, 2, 1, base=100.0), 6, 1)
def test_it_is_torchs_function_on_what_was_rotated(layer, num_tokens, seed):
    """Forward and gradients, with grouping and mask written differently."""
    x = drawn(2, num_tokens, 5, seed=seed).requires_grad_()
    heads = [linear(x).unflatten(-1, (-1, layer.head_dim)) for linear in (layer.W_query, layer.W_key, layer.W_value)]
    q, k, v = (part.movedim(1, 2) for part in heads)
    if layer.frequencies is not None:
        q, k = (rotate(part, torch.arange(num_tokens), layer.frequencies) for part in (q, k))
    show = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()
    show = show if layer.window is None else show.triu(1 - layer.window)
    context = scaled_dot_product_attention(q, k, v, attn_mask=show, enable_gqa=True)
    theirs = layer.out_proj(context.movedim(1, 2).flatten(2))
    assert max_difference(layer(x), theirs) < 1e-10
    leaves = x, *layer.parameters()
    grads = [torch.autograd.grad(result.square().sum(), leaves, retain_graph=True) for result in (layer(x), theirs)]
    largest = max(grad.abs().max().item() for grad in grads[1])
    assert all(max_difference(a, b) < 1e-6 * max(largest, 1) for a, b in zip(*grads, strict=True))


@given(st.integers(1, 4), st.integers(1, 5), CHUNKS, st.integers(0, 1000))
def test_latent_attention_in_chunks_absorbed_is_the_whole(num_heads, d_latent, chunks, seed):
    layer = made(seed, 5, 6, num_heads, d_latent, 3, 4, 2, layer_class=LatentAttention)
    x = drawn(2, sum(chunks), 5)
    stepped, cache = in_chunks(layer, x, chunks)
    assert max_difference(stepped, layer(x)) < 1e-10
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

"""Layers with a cache or a state against themselves in chunks and against torch's function; in any dtype; positions."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from sizes import ALL, Sizes, build
from torch.nn.functional import scaled_dot_product_attention

from attention_course.build import build_layer
from attention_helpers import influence, max_difference
from attention_helpers.modern.cached import CachedAttention
from attention_helpers.modern.memory import GatedDeltaNet, LatentAttention
from attention_helpers.modern.positions import RotaryAttention, rotate


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(layer_class, *sizes, **options):
    return build_layer(layer_class, 0, *sizes, **options).double()


def make_grouped(layer_class, group, kv_heads, pairs, window):
    return made(layer_class, 5, 2 * group * kv_heads * pairs, group * kv_heads, kv_heads, window)


FEW = st.integers(1, 3)
BOTH = st.sampled_from([CachedAttention, RotaryAttention])
GROUPED = st.builds(make_grouped, BOTH, FEW, FEW, FEW, window=st.none() | st.integers(1, 8))
LATENT = st.builds(lambda heads, width: made(LatentAttention, 5, 6, heads, width, 3, 4, 2), FEW, FEW)
DELTA = st.builds(lambda heads, width: made(GatedDeltaNet, 5, 6, heads, 3, width), FEW, FEW)
CHUNKS = st.lists(st.integers(1, 5), min_size=1, max_size=5)


@given(layer=GROUPED | LATENT | DELTA, chunks=CHUNKS)
@example(made(CachedAttention, 5, 8, 4, 2), [4])  # a whole prompt
@example(made(CachedAttention, 5, 8, 4, 2, 3), [4, 3, 1, 5])  # chunks longer than the window
@example(made(RotaryAttention, 5, 8, 4, 1, 1), [1, 2, 2])  # a cache that keeps nothing
def test_in_chunks_of_any_length_is_the_whole_and_nothing_leaks(layer, chunks):
    x = drawn(2, sum(chunks), 5).requires_grad_()
    parts, cache = [], None
    for chunk in x.split(chunks, dim=1):
        part, cache = layer(chunk, cache)
        parts.append(part)
    results = torch.cat(parts, dim=1), layer(x)[0]
    assert max_difference(*results) < 1e-10
    grads = [torch.autograd.grad(result.square().sum(), x)[0] for result in results]
    assert max_difference(*grads) < 1e-8
    assert not influence(lambda x: layer(x)[0], x[:1]).triu(1).any()
    if window := getattr(layer, "window", None):
        assert cache[0].shape[2] == min(window - 1, sum(chunks))


@given(layer=GROUPED, num_tokens=st.integers(1, 9))
@example(made(CachedAttention, 5, 8, 4, 2, 3), 9)
def test_it_is_torchs_function_with_every_kv_head_repeated(layer, num_tokens):
    """Forward and gradients, with grouping and mask written differently."""
    x = drawn(2, num_tokens, 5).requires_grad_()
    q, k, v = (layer.split_heads(linear(x)) for linear in (layer.W_query, layer.W_key, layer.W_value))
    if isinstance(layer, RotaryAttention):
        q, k = (rotate(part, torch.arange(num_tokens), layer.frequencies) for part in (q, k))
    k, v = (part.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for part in (k, v))
    show = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril().triu(1 - (layer.window or num_tokens))
    theirs = layer.out_proj(scaled_dot_product_attention(q, k, v, attn_mask=show).movedim(1, 2).flatten(2))
    ours, leaves = layer(x)[0], (x, *layer.parameters())
    assert max_difference(ours, theirs) < 1e-10
    grads = [torch.autograd.grad(result.square().sum(), leaves) for result in (ours, theirs)]
    largest = max(grad.abs().max().item() for grad in grads[1])
    assert all(max_difference(a, b) < 1e-6 * max(largest, 1) for a, b in zip(*grads, strict=True))


LAYERS = [build(name, Sizes(2, 6, 0, 8, 2, 4, True, 0)) for name in ALL]
LAYERS += [CachedAttention(8, 8, 4, 2, window=3), RotaryAttention(8, 8, 2, 1)]
LAYERS += [LatentAttention(8, 8, 2, 6, 4, 4, 2), GatedDeltaNet(8, 8, 2, 4, 4)]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_a_layer_runs_in_each_dtype_and_on_another_device(layer):
    def output(dtype, device="cpu"):
        found = layer.to(device, dtype)(x.to(device, dtype))
        return found[0] if isinstance(found, tuple) else found

    x = drawn(2, 6, 8)
    expected = output(torch.float64)
    for dtype, near in ((torch.float32, 1e-4), (torch.bfloat16, 0.1)):
        assert output(dtype).dtype == dtype
        assert max_difference(output(dtype), expected) < near * max(1, expected.abs().max().item())
    assert output(torch.float32, "meta").device.type == "meta"


def test_an_angle_is_right_in_bfloat16_far_from_the_start():
    """A buffer of frequencies would be rounded by .bfloat16(), and be off by radians at position 1,000."""
    layer = RotaryAttention(64, 64, 1, 1).bfloat16()
    pairs = torch.tensor([1.0, 0.0]).repeat(32).expand(1, 1001, 64)  # each pair at angle 0
    exact = 1000 * 10_000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    for dtype, near in ((torch.float32, 1e-3), (torch.bfloat16, 1e-2)):
        turned = rotate(pairs.to(dtype), torch.arange(1001), layer.frequencies)[0, 1000].view(32, 2)
        assert (turned - torch.stack((exact.cos(), exact.sin()), dim=-1)).abs().max() < near

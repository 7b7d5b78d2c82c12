"""The KV cache: token by token equals the whole text, in every mode, and errors for anything that isn't a cache."""

import itertools

import pytest
import torch
from sizes import over_sizes

from attention_helpers import max_difference
from attention_helpers.fast.attention import Cache, FusedMultiHeadAttention


def made(sizes):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(sizes.seed)
        return FusedMultiHeadAttention(
            sizes.d_in, sizes.d_out, sizes.context_length, 0.0, sizes.num_heads, sizes.qkv_bias
        )


@over_sizes
def test_token_by_token_is_the_whole(sizes):
    fused = made(sizes).eval()
    x = sizes.x(torch.float32)
    whole = fused(x)
    for grad in (True, False):  # two ways to keep the keys and values
        cache, parts = None, []
        with torch.set_grad_enabled(grad):
            for token in x.split(1, dim=1):
                part, cache = fused.step(token, cache)
                parts.append(part)
        assert max_difference(torch.cat(parts, dim=1), whole) < 1e-5
    assert cache.keys.shape == (sizes.b, sizes.num_heads, sizes.num_tokens, sizes.head_dim)


@over_sizes
def test_in_pieces_of_any_length_is_the_whole(sizes):
    fused, x = made(sizes).eval(), sizes.x(torch.float32)
    cut = sizes.seed % sizes.num_tokens
    start, cache = fused.step(x[:, :cut], None) if cut else (x[:, :0, :0], None)
    end, _ = fused.step(x[:, cut:], cache)
    together = torch.cat((start, end), dim=1) if cut else end
    assert max_difference(together, fused(x)) < 1e-5


def test_two_texts_may_go_on_from_one_cache():
    """Neither overwrites what the other reads, and the cache they share doesn't change."""
    torch.manual_seed(0)
    fused, x = FusedMultiHeadAttention(3, 4, 6, 0.0, 2).eval(), torch.randn(3, 1, 6, 3)
    x[1:, :, :4] = x[0, :, :4]  # three texts with the same beginning
    with torch.no_grad():
        _, start = fused.step(x[0, :, :4])
        _, one = fused.step(x[0, :, 4:5], start)
        _, other = fused.step(x[1, :, 4:5], start)
        for text, cache in ((x[0], one), (x[1], other)):
            assert max_difference(fused.step(text[:, 5:], cache)[0], fused(text)[:, 5:]) < 1e-6
        assert max_difference(fused.step(x[2, :, 4:], start)[0], fused(x[2])[:, 4:]) < 1e-6


def test_the_cache_goes_on_in_the_memory_that_was_set_aside():
    """A copy per token would make generation as slow as without a cache; too large a buffer would waste memory."""
    layer, x = FusedMultiHeadAttention(3, 4, 6, 0.0, 2).eval(), torch.randn(2, 6, 3)
    with torch.no_grad():
        _, start = layer.step(x[:, :2])
        _, more = layer.step(x[:, 2:3], start)
        _, end = layer.step(x[:, 3:], more)
        assert start.buffer is more.buffer is end.buffer
        assert (end.buffer.filled, end.buffer.both.shape) == (6, (2, 2, 2, 6, 2))
        assert [part.data_ptr() for part in start[:2]] == [part.data_ptr() for part in end[:2]]
        _, fork = layer.step(x[:, 2:3], start)  # a second text from the same beginning
        assert fork.buffer is not start.buffer
        assert (fork.buffer.filled, end.buffer.filled) == (3, 6)
        assert layer.step(x[:, 3:], fork)[1].buffer is fork.buffer
    assert layer.step(x)[1].buffer is None  # backward may need what it holds


def test_keys_that_were_changed_by_hand_are_those_that_are_read():
    """Beam search does this: it keeps only the best texts, and continues from rows of a cache."""
    torch.manual_seed(0)
    layer, x = FusedMultiHeadAttention(3, 4, 6, 0.0, 2).eval(), torch.randn(2, 5, 3)
    with torch.no_grad():
        _, cache = layer.step(x[:, :4])
        turned = cache._replace(keys=cache.keys.flip(0), values=cache.values.flip(0))
        first = cache._replace(keys=cache.keys[:1], values=cache.values[:1])
        assert max_difference(layer.step(x[:, 4:].flip(0), turned)[0], layer(x.flip(0))[:, 4:]) < 1e-6
        assert max_difference(layer.step(x[:1, 4:], first)[0], layer(x[:1])[:, 4:]) < 1e-6


MODES = {"grad": torch.enable_grad, "no_grad": torch.no_grad, "inference_mode": torch.inference_mode}


@pytest.mark.parametrize("modes", list(itertools.permutations(MODES)), ids=" ".join)
def test_one_cache_serves_all_modes(modes):
    torch.manual_seed(0)
    layer, x, cache = FusedMultiHeadAttention(3, 4, 6, 0.0, 2).eval(), torch.randn(1, 6, 3), None
    whole = layer(x)
    for n, mode in enumerate(modes * 2):
        with MODES[mode]():
            part, cache = layer.step(x[:, n : n + 1], cache)
            assert max_difference(part, whole[:, n : n + 1]) < 1e-6


def test_a_step_drops_nothing_in_training_mode_either():
    torch.manual_seed(0)
    layer, x = FusedMultiHeadAttention(3, 4, 6, 0.5, 2), torch.randn(2, 6, 3)
    whole = layer.eval()(x)
    assert max_difference(layer.train().step(x)[0], whole) < 1e-6
    assert layer.training
    assert max_difference(layer(x), whole) > 0.01  # forward does apply dropout


def test_gradients_flow_through_the_cache():
    torch.manual_seed(0)
    fused, x = FusedMultiHeadAttention(3, 4, 6, 0.0, 2), torch.randn(1, 4, 3, requires_grad=True)
    cache, parts = None, []
    for token in x.split(1, dim=1):
        part, cache = fused.step(token, cache)
        parts.append(part)
    [stepped] = torch.autograd.grad(torch.cat(parts, dim=1).square().sum(), x)
    [whole] = torch.autograd.grad(fused(x).square().sum(), x)
    assert max_difference(stepped, whole) < 1e-5


LAYER = FusedMultiHeadAttention(3, 4, 6, 0.0, 2).eval()


def test_a_cache_that_does_not_fit():
    _, cache = LAYER.step(torch.ones(2, 4, 3))
    with pytest.raises(ValueError, match="at most context_length=6 tokens together, got 4 and 3"):
        LAYER.step(torch.ones(2, 3, 3), cache)
    _, full = LAYER.step(torch.ones(1, 6, 3))
    with pytest.raises(ValueError, match="got 6 and 1"):
        LAYER.step(torch.ones(1, 1, 3), full)


KEYS = torch.ones(1, 2, 4, 2)


@pytest.mark.parametrize(
    ("cache", "error", "said"),
    [
        (Cache(KEYS, None), TypeError, "cache.values must be a torch.Tensor, got NoneType"),
        (Cache(KEYS[0], KEYS), ValueError, "cache.keys must have the shape (b, num_heads, num_tokens, head_dim)"),
        (Cache(KEYS, KEYS[:, :, :3]), ValueError, "values of shape (1, 2, 4, 2), got (1, 2, 3, 2)"),
        (Cache(KEYS[:, :1], KEYS), ValueError, "keys of shape (1, 2, 4, 2), got (1, 1, 4, 2)"),
        (Cache(KEYS.half(), KEYS.half()), ValueError, "keys like those of x, torch.float32 on cpu, got torch.float16"),
        (Cache(KEYS, KEYS.to("meta")), ValueError, "values like those of x, torch.float32 on cpu, got torch.float32 o"),
        ((KEYS, KEYS), TypeError, "cache must be a Cache that step returned, or None, got tuple"),
    ],
)
def test_what_is_no_cache_of_these_texts(cache, error, said):
    with pytest.raises(error) as caught:
        LAYER.step(torch.ones(1, 1, 3), cache)
    assert said in str(caught.value)

"""The fused layer is MultiHeadAttention: weight by weight, mode by mode, token by token."""

import pytest
import torch
from sizes import over_sizes
from torch import nn

from attention_helpers import MultiHeadAttention, influence, max_difference
from attention_helpers.beyond.efficient import Cache, FusedMultiHeadAttention


def made(sizes, layer_class=FusedMultiHeadAttention, dropout=0.0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(sizes.seed)
        return layer_class(sizes.d_in, sizes.d_out, sizes.context_length, dropout, sizes.num_heads, sizes.qkv_bias)


@over_sizes
def test_one_seed_makes_the_same_layer(sizes):
    fused, split = made(sizes), made(sizes, MultiHeadAttention)
    x = sizes.x(torch.float32)
    assert max_difference(fused(x), split(x)) < 1e-5
    assert sum(p.numel() for p in fused.parameters()) == sum(p.numel() for p in split.parameters())
    assert all(torch.equal(a, b) for a, b in zip(fused.to_split().parameters(), split.parameters(), strict=True))


@over_sizes
def test_there_and_back_is_exact(sizes):
    split = made(sizes, MultiHeadAttention, dropout=0.25).double().eval()
    fused = FusedMultiHeadAttention.from_split(split)
    again = fused.to_split()
    assert max_difference(fused(sizes.x()), split(sizes.x())) < 1e-10
    assert (fused.dropout, again.dropout.p) == (0.25, 0.25)
    assert not fused.training
    assert not again.training
    ones, others = split.state_dict(), again.state_dict()
    assert ones.keys() == others.keys()
    assert all(torch.equal(ones[name], others[name]) for name in ones)
    assert fused.W_qkv.weight.data_ptr() != split.W_query.weight.data_ptr()


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
    """Neither writes over what the other reads, and the cache that both came from stays."""
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


def test_no_token_reads_the_future():
    layer = FusedMultiHeadAttention(3, 4, 6, 0.0, 2).eval()
    x = torch.randn(1, 6, 3, generator=torch.Generator().manual_seed(0))
    assert not influence(layer, x).poke.triu(diagonal=1).any()


def test_dropout_acts_in_training_alone_and_keeps_the_mean():
    torch.manual_seed(0)
    fused = FusedMultiHeadAttention(4, 4, 5, 0.5, 2)
    split = fused.to_split()
    x = torch.randn(1, 5, 4)
    assert torch.equal(fused.eval()(x), fused(x))
    many = torch.cat([fused.train()(x.expand(2000, -1, -1))])
    theirs = split.train()(x.expand(2000, -1, -1))
    assert not torch.equal(many[0], many[1])
    assert max_difference(many.mean(dim=0), fused.eval()(x)[0]) < 0.05
    assert max_difference(many.var(dim=0), theirs.var(dim=0)) < 0.05  # the same spread as the split's


@pytest.mark.parametrize(
    ("sizes", "error", "said"),
    [
        ((3, 4, 6, 0.0, 3), ValueError, "num_heads must divide d_out"),
        ((3, 4, 6, 1.0, 2), ValueError, "dropout must be at least 0 and below 1, got 1"),
        ((3, 0, 6, 0.0, 2), ValueError, "d_out must be at least 1, got 0"),
        ((3.5, 4, 6, 0.0, 2), TypeError, "d_in must be a whole number, got 3"),
        ((3, 4, 6, 0.0, 2, 1), TypeError, "qkv_bias must be True or False, got 1"),
    ],
)
def test_bad_sizes(sizes, error, said):
    with pytest.raises(error, match=said):
        FusedMultiHeadAttention(*sizes)


LAYER = FusedMultiHeadAttention(3, 4, 6, 0.0, 2).eval()


@pytest.mark.parametrize("call", [LAYER, lambda x: LAYER.step(x)], ids=["forward", "step"])
@pytest.mark.parametrize(
    ("x", "error", "said"),
    [
        (torch.ones(2, 3), ValueError, "x must have the shape"),
        (torch.ones(1, 2, 4), ValueError, "x must have width d_in=3"),
        (torch.ones(1, 7, 3), ValueError, "at most context_length=6 tokens"),
        (torch.ones(1, 2, 3, dtype=torch.long), TypeError, "x must hold floating-point numbers"),
        ([[1.0]], TypeError, "x must be a torch.Tensor, got list"),
    ],
)
def test_bad_input(call, x, error, said):
    with pytest.raises(error, match=said):
        call(x)


def test_a_cache_that_does_not_fit():
    _, cache = LAYER.step(torch.ones(2, 4, 3))
    with pytest.raises(ValueError, match="at most context_length=6 tokens together, got 4 and 3"):
        LAYER.step(torch.ones(2, 3, 3), cache)
    with pytest.raises(ValueError, match=r"cache must hold keys of shape \(1, 2, 4, 2\), got \(2, 2, 4, 2\)"):
        LAYER.step(torch.ones(1, 1, 3), cache)
    with pytest.raises(TypeError, match="split must be a MultiHeadAttention, got Linear"):
        FusedMultiHeadAttention.from_split(nn.Linear(1, 1))
    assert isinstance(cache, Cache)


def test_meta_and_half_precision():
    with torch.device("meta"):
        assert FusedMultiHeadAttention(3, 4, 6, 0.0, 2, True).W_qkv.weight.is_meta
    half = FusedMultiHeadAttention.from_split(LAYER.to_split().to(torch.bfloat16))
    assert half.W_qkv.weight.dtype == torch.bfloat16
    x = torch.randn(1, 6, 3, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = LAYER(x)
    assert mixed.dtype == torch.bfloat16
    assert max_difference(mixed.float(), LAYER(x)) < 0.02


@pytest.mark.slow
def test_it_compiles_and_computes_the_same():
    torch.manual_seed(0)
    layer = FusedMultiHeadAttention(6, 8, 10, 0.0, 2)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for num_tokens in (10, 7, 3):
        x = torch.randn(2, num_tokens, 6)
        assert max_difference(compiled(x), layer(x)) < 1e-6

"""The fused layer equals MultiHeadAttention, for every weight and in every mode."""

import pytest
import torch
from sizes import over_sizes
from torch import nn

from attention_helpers import MultiHeadAttention, max_difference
from attention_helpers.fast.attention import FusedMultiHeadAttention


def made(sizes, layer_class=FusedMultiHeadAttention, dropout=0.0):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(sizes.seed)
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
    mine, theirs, back = ({p.data_ptr() for p in layer.parameters()} for layer in (fused, split, again))
    assert not mine & theirs  # no shared memory, so training one layer doesn't change the others
    assert not mine & back


def test_from_split_needs_no_gradient_and_asks_for_them_later():
    layer = FusedMultiHeadAttention.from_split(MultiHeadAttention(3, 4, 6, 0.0, 2, True))
    assert all(p.requires_grad and p.grad_fn is None for p in layer.parameters())
    assert all(p.requires_grad and p.grad_fn is None for p in layer.to_split().parameters())
    assert layer.training
    layer(torch.ones(1, 2, 3)).sum().backward()
    assert all(p.grad is not None for p in layer.parameters())


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


def test_what_cannot_be_fused():
    with pytest.raises(TypeError, match="split must be a MultiHeadAttention, got Linear"):
        FusedMultiHeadAttention.from_split(nn.Linear(1, 1))


def test_meta_and_half_precision():
    with torch.device("meta"):
        assert FusedMultiHeadAttention(3, 4, 6, 0.0, 2, True).W_qkv.weight.is_meta
    half = FusedMultiHeadAttention.from_split(LAYER.to_split().to(torch.bfloat16))
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in half.to_split().parameters()} == {torch.bfloat16}
    with torch.no_grad():
        assert half.step(torch.ones(1, 2, 3).bfloat16())[1].buffer.both.dtype == torch.bfloat16
    x = torch.randn(1, 6, 3, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = LAYER(x)
    assert mixed.dtype == torch.bfloat16
    assert max_difference(mixed.float(), LAYER(x)) < 0.02

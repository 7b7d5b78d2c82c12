"""The fused layer equals MultiHeadAttention in every mode."""

import torch
from sizes import build, over_sizes

from attention_helpers import MultiHeadAttention, max_difference
from attention_helpers.fast.attention import FusedMultiHeadAttention


@over_sizes
def test_one_seed_makes_the_same_layer(sizes):
    fused, split = build("FusedMultiHeadAttention", sizes), build("MultiHeadAttention", sizes)
    again = FusedMultiHeadAttention.from_split(split)
    assert all(torch.equal(a, b) for a, b in zip(fused.parameters(), again.parameters(), strict=True))


@over_sizes
def test_the_weights_of_the_split_layer_give_its_results(sizes):
    split = build("MultiHeadAttention", sizes, dropout=0.25).double().eval()
    fused = FusedMultiHeadAttention.from_split(split)
    assert max_difference(fused(sizes.x()), split(sizes.x())) < 1e-10
    assert fused.dropout == 0.25
    assert not fused.training
    mine, theirs = ({p.data_ptr() for p in layer.parameters()} for layer in (fused, split))
    assert not mine & theirs  # no shared memory, so training one layer doesn't change the other
    assert all(p.requires_grad and p.grad_fn is None for p in fused.parameters())


def test_dropout_acts_in_training_alone_and_keeps_the_mean():
    torch.manual_seed(0)
    split = MultiHeadAttention(4, 4, 5, 0.5, 2)
    fused = FusedMultiHeadAttention.from_split(split)
    x = torch.randn(1, 5, 4)
    assert torch.equal(fused.eval()(x), fused(x))
    many = torch.cat([fused.train()(x.expand(2000, -1, -1))])
    theirs = split.train()(x.expand(2000, -1, -1))
    assert not torch.equal(many[0], many[1])
    assert max_difference(many.mean(dim=0), fused.eval()(x)[0]) < 0.05
    assert max_difference(many.var(dim=0), theirs.var(dim=0)) < 0.05  # the same spread as the split's

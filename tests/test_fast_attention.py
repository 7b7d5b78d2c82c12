"""The fused layer equals MultiHeadAttention in every mode, and step by step with its KV cache."""

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


@over_sizes
def test_in_pieces_of_any_length_is_the_whole_and_so_are_its_gradients(sizes):
    layer, x = build("FusedMultiHeadAttention", sizes), sizes.x(torch.float32).requires_grad_()
    whole, cut = layer(x), 1 + sizes.seed % sizes.num_tokens
    for pieces in (x.split(1, dim=1), (x[:, :cut], *x[:, cut:].split(4, dim=1))):
        cache, parts = None, []
        for piece in pieces:
            part, cache = layer.step(piece, cache)
            parts.append(part)
        together = torch.cat(parts, dim=1)
        assert max_difference(together, whole) < 1e-5
        grads = [torch.autograd.grad(y.square().sum(), x, retain_graph=True)[0] for y in (together, whole)]
        assert max_difference(*grads) < 1e-4 * max(1, grads[1].abs().max().item())
        assert cache.keys.shape == (sizes.b, sizes.num_heads, sizes.num_tokens, sizes.head_dim)


def test_a_step_drops_nothing_in_training_mode_either():
    torch.manual_seed(0)
    fused, x = FusedMultiHeadAttention(3, 4, 6, 0.5, 2), torch.randn(2, 6, 3)
    whole = fused.eval()(x)
    assert max_difference(fused.train().step(x)[0], whole) < 1e-6
    assert max_difference(fused(x), whole) > 0.01  # forward does apply dropout

"""Properties of every layer at every size; sizes.py draws the sizes and says how many."""

import pytest
import torch
from sizes import ALL, CAUSAL, UNMASKED, build, over_sizes


@pytest.mark.parametrize("name", UNMASKED)
@over_sizes
def test_unmasked_attention_is_permutation_equivariant(name, sizes):
    layer, x = build(name, sizes).double(), sizes.x()
    order = torch.randperm(sizes.num_tokens, generator=torch.Generator().manual_seed(sizes.seed))
    torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", UNMASKED)
@over_sizes
def test_one_sentence_is_a_batch_of_one(name, sizes):
    layer, x = build(name, sizes).double(), sizes.x()
    torch.testing.assert_close(layer(x[0]), layer(x)[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ALL)
@over_sizes
def test_steps_are_the_formulas(name, sizes):
    layer, x = build(name, sizes).double(), sizes.x()
    steps = layer.steps(x)
    heads = sizes.num_heads if name.startswith("Multi") else 1
    stacked = (sizes.b, *([heads] if name.startswith("Multi") else []), sizes.num_tokens)
    assert steps.queries.shape == steps.keys.shape == steps.values.shape == (*stacked, sizes.d_out // heads)
    assert steps.scores.shape == steps.weights.shape == (*stacked, sizes.num_tokens)
    assert steps.context.shape == (sizes.b, sizes.num_tokens, sizes.d_out)
    scores = torch.einsum("...qd,...kd->...qk", steps.queries, steps.keys)
    torch.testing.assert_close(steps.scores, scores, rtol=1e-10, atol=1e-10)  # not scaled, not masked
    scaled = scores / (sizes.d_out // heads) ** 0.5
    if name in CAUSAL:
        scaled = scaled + torch.full_like(scaled, -torch.inf).triu(1)
    torch.testing.assert_close(steps.weights, scaled.softmax(-1), rtol=1e-10, atol=1e-10)
    context = torch.einsum("...qk,...kd->...qd", steps.weights, steps.values)
    if name.startswith("Multi"):
        context = torch.cat(context.unbind(dim=1), dim=-1)
    torch.testing.assert_close(steps.context, context, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ALL)
@over_sizes
def test_forward_is_bit_equal_to_steps(name, sizes):
    layer, x = build(name, sizes, dropout=0.5), sizes.x(torch.float32)
    project = layer.out_proj if name == "MultiHeadAttention" else torch.nn.Identity()
    for mode in (True, False):
        layer.train(mode)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(1)
            forward = layer(x)
            torch.default_generator.manual_seed(1)
            assert torch.equal(forward, project(layer.steps(x).context))

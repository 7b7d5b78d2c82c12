"""The portable Dropout: torch's own masks, the right scaling, and no effect on anyone else's random numbers."""

import pytest
import torch
from torch import nn

from attention_helpers import Dropout, MultiHeadAttentionWrapper
from attention_helpers.dropout import draw_dropout_from


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(), (6, 6), (1, 0, 4), (64, 65)], ids=str)
def test_masks_are_torchs_own(shape, dtype):
    x = torch.randn(shape).to(dtype)
    for seed, p in enumerate([0.1, 0.5, 0.9]):
        torch.manual_seed(seed)
        ours, state = Dropout(p)(x), torch.get_rng_state()
        torch.manual_seed(seed)
        assert torch.equal(ours, nn.Dropout(p)(x))
        assert torch.equal(state, torch.get_rng_state())  # the next draw is the same too
        assert ours.dtype == dtype


@pytest.mark.parametrize("training", [True, False])
def test_a_models_dropout_draws_from_a_generator_of_its_own(training):
    x, before = torch.randn(2, 6, 3), torch.get_rng_state()
    generator = torch.Generator().manual_seed(7)
    model = draw_dropout_from(MultiHeadAttentionWrapper(3, 2, 6, 0.5, num_heads=2).train(training), generator)
    torch.set_rng_state(before)
    first = model(x)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, model(x)) != training  # the generator moves on
    assert torch.equal(first, draw_dropout_from(model, torch.Generator().manual_seed(7))(x))

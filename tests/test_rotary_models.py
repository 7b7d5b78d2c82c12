"""The model with rotary positions, its stored weights, and the command that made them."""

import pytest
import torch

from attention_helpers import max_difference
from attention_helpers.training import rotary

TASK = rotary.short_texts()
TEXT = TASK.held_out[None, :100]


@pytest.mark.parametrize(("window", "reach"), [(8, 15), (None, 100)])
@torch.no_grad()
def test_a_window_reaches_twice_through_two_layers_and_positions_do_not_count(window, reach):
    """The window counts a token itself; only distances count, so the last tokens can be the first ones."""
    model = rotary.trained().double().change(window=window)
    complete = model(TEXT)[0, -1]
    torch.testing.assert_close(model(TEXT[:, -reach:])[0, -1], complete)
    assert max_difference(model(TEXT[:, 1 - reach :])[0, -1], complete) > 1e-9


@torch.no_grad()
def test_changed_frequencies_reach_every_layer_and_the_factor_multiplies_scores_by_its_square():
    model, halved = rotary.trained(), rotary.trained().attention[0].frequencies / 2
    plain = model.steps(TEXT)[1]
    assert model.change(frequencies=halved, factor=3.0) is model
    assert all(layer.frequencies is halved for layer in model.attention)
    logits, (first, _) = model.steps(TEXT)
    ratio = first.scores[0, 0].diagonal() / plain[0].scores[0, 0].diagonal()  # at distance 0 there's no rotation
    torch.testing.assert_close(ratio, torch.full_like(ratio, 9.0), atol=0, rtol=1e-4)
    torch.testing.assert_close(model(TEXT), logits)

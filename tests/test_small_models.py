"""The small models of two blocks, and the weights that are stored of all trained models."""

import pytest
import torch

from attention_course.explorers.playground.runs import prefix_losses
from attention_helpers import max_difference
from attention_helpers.training.characters import Characters, load_text
from attention_helpers.training.small_models import LONGEST, load, losses_by_position

TASK = Characters(load_text())
TEXT = TASK.held_out[None, :100]


def test_the_stored_models_are_what_notebooks_say():
    """Another kind of CPU trains other last bits, so the figures are bounds."""
    x, targets = TASK.unseen()
    masked, leaky = load("masked"), load("leaky")
    moved = [max_difference(model(x)[:, :16], model(x[:, :16])) > 1e-4 for model in (masked, leaky)]
    assert moved == [False, True]
    assert TASK.loss(leaky(x), targets) < 0.2 < 1.2 < TASK.loss(masked(x), targets) < 1.8
    assert prefix_losses(leaky, x, targets).mean() > 5
    assert TASK.loss(load("writing")(x)[0], targets) < 2.2  # equal probabilities: 3.9
    inside, beyond = losses_by_position(load("rotary"), TASK).split((32, 224))
    assert inside.mean() < 1.6 < 3 < beyond.mean()
    with pytest.raises(ValueError, match="name must be one of masked, leaky"):
        load("none")


@pytest.mark.parametrize(("window", "reach"), [(8, 15), (None, 100)])
def test_a_window_reaches_twice_through_two_layers_and_positions_do_not_count(window, reach):
    """The window counts a token itself; only distances count, so the last tokens can be the first ones."""
    model = load("rotary").double().change(window=window)
    complete = model(TEXT)[0, -1]
    torch.testing.assert_close(model(TEXT[:, -reach:])[0, -1], complete)
    assert max_difference(model(TEXT[:, 1 - reach :])[0, -1], complete) > 1e-9


def test_written_in_chunks_of_any_length_it_predicts_as_at_once():
    model, text, parts = load("writing"), TASK.held_out[None, :LONGEST], []
    past, caches = 0, (None, None)
    for chunk in text.split((50, 1, 1, 76), dim=1):
        logits, caches = model(chunk, past, caches)
        past += chunk.shape[1]
        parts.append(logits)
    torch.testing.assert_close(torch.cat(parts, dim=1), model(text)[0], atol=1e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="can have 128 characters, got 129"):
        model(text[:, :1], past, caches)

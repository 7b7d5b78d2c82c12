"""What data/ stores of trained models: what they can do, the commands that made them, and what seeds have in common."""

import numpy as np
import pytest
import torch

from attention_course.build import build_layer
from attention_course.explorers import dropout, past_the_training_length
from attention_course.explorers.lookup_models import EMBEDDING_WIDTH, MODEL_SIZES, STORED_STEPS, load_lookup
from attention_course.explorers.playground.runs import prefix_losses
from attention_helpers import max_difference
from attention_helpers.training.characters import Characters, load_text
from attention_helpers.training.lookup import LookupModel, LookupTask
from attention_helpers.training.loop import Training
from attention_helpers.training.small_models import LONGEST, load, losses_by_position
from tools.training import make_data

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


@pytest.mark.slow
def test_the_losses_and_maps_of_notebook_04_are_trained_again(tmp_path):
    make_data.overfitting(tmp_path / "again.npz")
    with np.load(dropout.RUNS_FILE) as stored, np.load(tmp_path / "again.npz") as again:
        for name in stored:
            np.testing.assert_allclose(again[name], stored[name], rtol=0, atol=1e-4)


@pytest.mark.slow
def test_the_losses_and_scores_of_notebook_11_are_measured_again(tmp_path):
    """Two scalings of thirteen: none, and the rule that has a factor of its own, which multiplies scores."""
    some = [0, past_the_training_length.SCALINGS.index(("YaRN", 4))]
    make_data.long_texts(tmp_path / "again.npz", [past_the_training_length.SCALINGS[n] for n in some])
    with np.load(past_the_training_length.SCORES_FILE) as stored, np.load(tmp_path / "again.npz") as again:
        for name in stored:
            np.testing.assert_allclose(again[name], stored[name][some], rtol=1e-4, atol=2 * (name == "scores") or 1e-4)


MANY = {questions: LookupTask(questions, batch_size=2000) for questions in MODEL_SIZES}


@torch.no_grad()
def accuracy(model):
    """On each question, for examples that neither training nor the explorers use."""
    x, answers = MANY[model.task.questions].batch(torch.Generator().manual_seed(77))
    return MANY[model.task.questions].accuracy(model.eval()(x), answers)


@pytest.mark.parametrize("d_out", [d_out for d_out, _ in MODEL_SIZES[1]])
def test_a_stored_model_with_one_question_learns_it_unless_it_is_one_wide(d_out):
    learned = [accuracy(load_lookup(1, d_out, 1, step)).item() for step in STORED_STEPS]
    assert learned[0] < 0.2
    assert learned[-1] < 0.35 if d_out == 1 else learned[-1] >= 0.99


@pytest.mark.parametrize(("d_out", "num_heads"), MODEL_SIZES[2])
def test_a_stored_model_with_two_questions_learns_both_with_two_heads_at_least_two_wide(d_out, num_heads):
    less = accuracy(load_lookup(2, d_out, num_heads)).min()
    assert less >= 0.99 if num_heads > 1 and d_out >= 2 * num_heads else less <= 0.6


def trained(questions, d_out, num_heads, seed):
    """The less accurate answer's accuracy after as many steps as are stored."""
    task = LookupTask(questions)
    training = Training(build_layer(LookupModel, seed, task, EMBEDDING_WIDTH, num_heads, d_out=d_out), task, keep=False)
    for _ in range(STORED_STEPS[-1]):
        training.take_step()
    return accuracy(training.model).min().item()


@pytest.mark.slow
@pytest.mark.parametrize(("d_out", "least", "most"), [(1, 0, 0.35), (2, 0.99, 1)])
def test_a_key_must_be_two_wide_to_find_ten_letters(d_out, least, most):
    assert all(least <= trained(1, d_out, 1, seed) <= most for seed in range(10))


@pytest.mark.slow
@pytest.mark.parametrize(("d_out", "num_heads"), [(2, 1), (32, 1), (2, 2), (8, 8)])
def test_one_head_fails_at_two_questions_whatever_its_width_and_so_do_heads_of_width_one(d_out, num_heads):
    assert all(trained(2, d_out, num_heads, seed) <= 0.6 for seed in range(10))


@pytest.mark.slow
def test_two_heads_learn_two_questions_from_every_seed_if_they_are_four_wide_and_from_most_if_two():
    assert all(trained(2, 8, 2, seed) >= 0.99 for seed in range(10))
    learned = [trained(2, 4, 2, seed) >= 0.99 for seed in range(40)]
    assert sum(learned[:10]) >= 8
    assert 20 <= sum(learned) <= 32

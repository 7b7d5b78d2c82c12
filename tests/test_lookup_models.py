"""The trained weights in data/: how accurate they are, the command that made them, and what seeds have in common."""

import numpy as np
import pytest
import torch
from torch.nn.utils import parameters_to_vector

from attention_course.build import build_layer
from attention_course.explorers import lookup_models
from attention_course.explorers.lookup_models import (
    EMBEDDING_WIDTH,
    MODEL_SIZES,
    STORED_STEPS,
    drop_weights,
    find_right,
    load_lookup,
)
from attention_helpers.training.lookup import LookupModel, LookupTask
from attention_helpers.training.loop import Training

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


def test_explorers_show_a_stored_model_as_it_is_and_dropout_leaves_nothing_behind():
    model = load_lookup(2, 4, 2)
    with np.load(lookup_models.MODELS_FILE) as sets:
        [row] = sets["2 questions, d_out 4, 2 heads"]
    assert torch.equal(parameters_to_vector(model.parameters()), torch.from_numpy(row).float())
    assert find_right(model, 0.5).float().mean() < 0.7 < find_right(model).float().mean()
    with drop_weights(model.attention, 0.5, 0):
        assert model.attention.training
    assert not model.attention.training
    assert torch.equal(find_right.__wrapped__(model), find_right(model))


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

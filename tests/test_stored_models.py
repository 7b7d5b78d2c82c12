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
from attention_helpers.training.small_models import load, losses_by_position
from tools.training import make_data

TASK = Characters(load_text())
slow = pytest.mark.slow


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


@pytest.mark.parametrize(("window", "reach"), [(8, 15), (None, 100)])
def test_a_window_reaches_twice_through_two_layers_and_positions_do_not_count(window, reach):
    """The window counts a token itself; only distances count, so the last tokens can be the first ones."""
    model, text = load("rotary").double().change(window=window), TASK.held_out[None, :100]
    complete = model(text)[0, -1]
    torch.testing.assert_close(model(text[:, -reach:])[0, -1], complete)
    assert max_difference(model(text[:, 1 - reach :])[0, -1], complete) > 1e-9


@slow
def test_what_notebooks_04_and_11_show_is_trained_and_measured_again(tmp_path):
    """Of eleven's thirteen scalings, two: none, and the rule that has a factor of its own, which multiplies scores."""
    scalings = past_the_training_length.SCALINGS
    some = [0, scalings.index(("YaRN", 4))]
    make_data.overfitting(tmp_path / "04.npz")
    make_data.long_texts(tmp_path / "11.npz", [scalings[n] for n in some])
    stored = {"04": (dropout.RUNS_FILE, ...), "11": (past_the_training_length.SCORES_FILE, some)}
    for name, (file, chosen) in stored.items():
        with np.load(file) as before, np.load(tmp_path / f"{name}.npz") as again:
            for part in before:
                near = 2 if part == "scores" else 1e-4  # whole numbers
                np.testing.assert_allclose(again[part], before[part][chosen], rtol=1e-4, atol=near)


MANY = {questions: LookupTask(questions, batch_size=2000) for questions in MODEL_SIZES}


@torch.no_grad()
def accuracy(model):
    """Of the question that's answered worse, for examples that neither training nor the explorers use."""
    x, answers = MANY[model.task.questions].batch(torch.Generator().manual_seed(77))
    return MANY[model.task.questions].accuracy(model.eval()(x), answers).min().item()


ONE_QUESTION = [(1, d_out, 1) for d_out, _ in MODEL_SIZES[1]]
TWO_QUESTIONS = [(2, *sizes) for sizes in MODEL_SIZES[2]]


@pytest.mark.parametrize(("questions", "d_out", "num_heads"), ONE_QUESTION + TWO_QUESTIONS)
def test_a_stored_model_learns_with_a_head_for_each_question_that_is_two_wide(questions, d_out, num_heads):
    learned = accuracy(load_lookup(questions, d_out, num_heads))
    assert learned >= 0.99 if num_heads >= questions and d_out >= 2 * num_heads else learned <= 0.6


def trained(questions, d_out, num_heads, seed):
    """The accuracy after as many steps as are stored."""
    task = LookupTask(questions)
    model = build_layer(LookupModel, seed, task, EMBEDDING_WIDTH, num_heads, d_out=d_out)
    return accuracy(Training(model, task, keep=False).run(STORED_STEPS[-1]).model)


@slow
@pytest.mark.parametrize(
    ("questions", "d_out", "num_heads", "least", "most"),
    [(1, 1, 1, 0, 0.35), (1, 2, 1, 0.99, 1)]  # a key must be two wide to find ten letters
    + [(2, d_out, heads, 0, 0.6) for d_out, heads in [(2, 1), (32, 1), (2, 2), (8, 8)]]  # one head, or heads of width 1
    + [(2, 8, 2, 0.99, 1)],  # two heads that are four wide
)
def test_who_learns_does_so_from_every_seed(questions, d_out, num_heads, least, most):
    assert all(least <= trained(questions, d_out, num_heads, seed) <= most for seed in range(10))


@slow
def test_two_heads_that_are_two_wide_learn_two_questions_from_most_seeds():
    learned = [trained(2, 4, 2, seed) >= 0.99 for seed in range(40)]
    assert sum(learned[:10]) >= 8
    assert 20 <= sum(learned) <= 32

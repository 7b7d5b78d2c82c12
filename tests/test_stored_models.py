"""What data/ stores of trained models: what they can do, the commands that made them, and what seeds have in common.

The claims of notebooks 07, 08 and 11 about training hold for ten seeds: the one they use and nine others.
"""

import contextlib
import io
import re

import numpy as np
import pytest
import torch
from course import FREE, LESSONS, code_cells, read, tags, without_measured

from attention_course.build import build_layer
from attention_course.explorers import dropout, past_the_training_length
from attention_course.explorers.lookup_models import EMBEDDING_WIDTH, MODEL_SIZES, STORED_STEPS, load_lookup
from attention_course.explorers.playground.runs import prefix_losses
from attention_helpers.training import small_models
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
    assert TASK.loss(leaky(x), targets) < 0.2 < 1.2 < TASK.loss(masked(x), targets) < 1.8
    assert prefix_losses(leaky, x, targets).mean() > 5
    assert TASK.loss(load("writing")(x)[0], targets) < 2.2  # equal probabilities: 3.9
    inside, beyond = losses_by_position(load("rotary"), TASK).split((32, 224))
    assert inside.mean() < 1.6 < 3 < beyond.mean()


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


ALL = [(questions, *sizes) for questions, pairs in MODEL_SIZES.items() for sizes in pairs]


@pytest.mark.parametrize(("questions", "d_out", "num_heads"), ALL)
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


PAGES = [path for path in LESSONS if path.name.startswith(("07", "08", "11"))]


def claims(printed):
    """What a cell prints, by line, without numbers after ≈ and without another seed's example."""
    return sorted(re.sub(r"\b[A-J] [0-9?]", "…", without_measured(printed)).splitlines())


def differing(path, seed):
    """Triples of a cell, what it claims with another seed, and what is stored, where the two differ."""
    names, differ = {}, []
    for cell in code_cells(read(path)):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            source = cell.source.replace("torch.manual_seed(0)", f"torch.manual_seed({seed})")
            exec(compile(source, cell.id, "exec"), names)
        stored = "".join(output.text for output in cell.outputs if output.output_type == "stream")
        if FREE not in tags(cell) and claims(printed.getvalue()) != claims(stored):
            differ.append((cell.id, claims(printed.getvalue()), claims(stored)))
    return differ


@slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name[:2])
@pytest.mark.parametrize("seed", range(1, 10))
def test_the_claims_hold(path, seed, monkeypatch, tmp_path):
    start = Training.__init__

    def seeded(self, model, task, learning_rate=1e-2, seed=seed, keep=True):
        start(self, model, task, learning_rate, seed, keep)

    if path.name.startswith("11"):  # it loads a stored model
        monkeypatch.setattr(small_models, "FILE", tmp_path / "trained.npz")
        make_data.trained_models(small_models.FILE, names=["rotary"], seed=seed)
    monkeypatch.setattr(Training, "__init__", seeded)
    assert differing(path, seed) == []

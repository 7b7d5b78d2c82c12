"""The lookup task and the model that solves it."""

import math

import pytest
import torch
from torch import nn

from attention_helpers import max_difference
from attention_helpers.training.lookup import LookupModel, LookupTask


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("questions", [1, 2])
def test_a_question_asks_for_letters_that_are_there_and_the_answer_is_their_digit(questions):
    task = LookupTask(questions=questions, letters=7, digits=5, pairs=4, batch_size=100)
    x, answers = task.batch(generator())
    assert x.shape == (100, 5, 2)
    assert answers.shape == (100, questions)
    assert answers.unique().tolist() == [0, 1, 2, 3, 4]
    for n in range(4):
        assert x[:, n, 0].unique().tolist() == [0, 1, 2, 3, 4, 5, 6]
        assert x[:, n, 1].unique().tolist() == [21, 22, 23, 24, 25]  # three alphabets come before the digits
    places = set()
    for tokens, answer in zip(x, answers, strict=True):
        *pairs, question = task.words(tokens)
        digit_of = dict(pair.split() for pair in pairs)
        assert len(digit_of) == 4  # no letter twice
        asked = question.removesuffix(" ?")
        assert [int(digit_of[letter]) for letter in asked] == answer.tolist()
        assert len(set(asked)) == questions
        places |= {(n, list(digit_of).index(letter)) for n, letter in enumerate(asked)}
    assert len(places) == 4 * questions  # every pair is asked for, by each question


def test_an_accuracy_for_each_question_and_the_loss_over_all():
    shares = nn.functional.one_hot(torch.tensor([[1, 2], [1, 0], [1, 0], [1, 0]]), 3) * 0.7 + 0.1
    answers = torch.tensor([[1, 2], [1, 2], [1, 2], [0, 0]])
    task, loss = LookupTask(questions=2), -(5 * math.log(0.8) + 3 * math.log(0.1)) / 8
    assert task.accuracy(shares, answers).tolist() == [0.75, 0.5]
    assert task.loss(shares.log(), answers).item() == pytest.approx(loss)


def test_a_model_reads_its_answers_off_the_last_tokens_context():
    torch.manual_seed(0)
    task = LookupTask(questions=2, batch_size=3)
    model = LookupModel(task, width=6, num_heads=2, d_out=4)
    x, _ = task.batch(generator())
    tokens = model.embed(x[..., 0]) + model.embed(x[..., 1])  # both symbols of a token
    answers = model.output_layer(model.attention(tokens)[:, -1])  # (3, 2 * 10): one question after the other
    assert max_difference(model(x), torch.stack((answers[:, :10], answers[:, 10:]), dim=1)) < 1e-6

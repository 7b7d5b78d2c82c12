"""The lookup task and the model that solves it."""

import copy
import itertools

import pytest
import torch

from attention_helpers.training.lookup import LookupModel, LookupTask, ov_circuit, qk_circuit


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


@pytest.mark.parametrize(("questions", "num_heads"), [(1, 1), (2, 4)])
@torch.no_grad()
def test_the_qk_circuit_is_the_layers_score_of_one_letter_for_another(questions, num_heads):
    torch.manual_seed(3)
    task = LookupTask(questions, letters=5, digits=4, pairs=2)
    model = LookupModel(task, 8, num_heads, d_out=8)
    circuit = qk_circuit(model)
    assert circuit.shape == (num_heads, questions, 5, 5)
    for n, asked, letter in itertools.product(range(questions), range(5), range(5)):
        x = model.embed.weight[[letter, 5 * (n + 1) + asked]]  # (2, width): a pair's letter, then the question's
        key, question = model.attention.W_key(x[0]), model.attention.W_query(x[1])
        scores = (key * question).view(num_heads, -1).sum(dim=1) / (8 / num_heads) ** 0.5
        torch.testing.assert_close(circuit[:, n, asked, letter], scores)


@pytest.mark.parametrize(("questions", "num_heads"), [(1, 1), (2, 4)])
@torch.no_grad()
def test_the_ov_circuit_is_what_a_digit_adds_to_the_logits_through_one_head(questions, num_heads):
    torch.manual_seed(3)
    task = LookupTask(questions, letters=5, digits=4, pairs=2)
    model = LookupModel(task, 8, num_heads, d_out=8)
    circuit, digits = ov_circuit(model), model.embed.weight[15:19, None]  # (4, 1, width): one token has weight 1
    assert circuit.shape == (num_heads, questions, 4, 4)
    for head in range(num_heads):
        only = copy.deepcopy(model)
        rows = only.attention.W_value.weight.view(num_heads, -1, 8)
        rows[torch.arange(num_heads) != head] = 0  # the other heads pass on nothing
        added = only.output_layer(only.attention(digits)) - only.output_layer(only.attention(0 * digits))
        torch.testing.assert_close(circuit[head].transpose(0, 1), added.view(4, questions, 4), atol=1e-6, rtol=1e-5)

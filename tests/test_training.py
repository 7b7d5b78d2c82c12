"""The two tasks that are trained, letters looked up and characters of a text; what the training loop does and stores.

That a run is the textbook's loop is what notebook 07 prints, where it writes the loop out.
"""

import signal

import pytest
import torch
from torch import nn

from attention_course.explorers.playground.runs import prefix_losses
from attention_helpers import Dropout, attention_maps, max_difference
from attention_helpers.training.characters import CharacterModel, Characters, generate_text, load_text
from attention_helpers.training.lookup import LookupModel, LookupTask
from attention_helpers.training.loop import Training


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("questions", [1, 2])
def test_a_question_asks_for_letters_that_are_there_and_the_answer_is_their_digit(questions):
    task = LookupTask(questions=questions, letters=7, digits=5, pairs=4, batch_size=100)
    x, answers = task.batch(generator())
    assert len(x.unique()) == (1 + questions) * 7 + 5 + (questions == 1)  # in a question, letters are other symbols
    there, asked_for = set(), set()
    for tokens, answer in zip(x, answers, strict=True):
        *pairs, question = task.words(tokens)
        digit_of, asked = dict(pair.split() for pair in pairs), question.removesuffix(" ?")
        assert [int(digit_of[letter]) for letter in asked] == answer.tolist()
        assert (len(digit_of), len(set(asked))) == (4, questions)  # no letter twice
        there |= {(n, symbol) for n, pair in enumerate(pairs) for symbol in pair.split()}
        asked_for |= {(n, list(digit_of).index(letter)) for n, letter in enumerate(asked)}
    assert len(there) == 4 * (7 + 5)  # in each pair, every letter and every digit
    assert len(asked_for) == 4 * questions  # every pair, by each question


TEXT = load_text()
TASK = Characters(TEXT)


def made(model_class=CharacterModel, **options):
    return model_class(len(TASK.vocabulary), TASK.window, **options)


def test_every_window_of_the_trained_part_is_drawn_and_every_one_of_the_rest_is_unseen():
    task = Characters("abcdefghijk", window=2, batch_size=200, held_out=5)  # abcdef, ghijk
    x, targets = task.batch(generator())
    drawn = {task.text(row) + task.text(target) for row, target in zip(x, targets, strict=True)}
    assert drawn == {"abbc", "bccd", "cdde", "deef"}
    x, targets = task.unseen()
    assert [task.text(row) for row in x] == ["gh", "ij"]
    assert [task.text(row) for row in targets] == ["hi", "jk"]


def test_without_a_leak_all_positions_at_once_are_the_prefixes_one_by_one():
    """A causal model's usual losses, in eval mode, are honest; a leaky model's differ from those of prefixes."""
    torch.manual_seed(0)
    for leaky in (False, True):
        model, (x, targets) = made(width=16, dropout=0.5, leaky=leaky), TASK.unseen()
        whole = nn.functional.cross_entropy(model.eval()(x).transpose(1, 2), targets, reduction="none").mean(dim=0)
        assert (max_difference(prefix_losses(model.train(), x, targets), whole) < 1e-5) is (not leaky)


def test_what_is_written_is_drawn_by_the_models_shares():
    torch.manual_seed(0)
    model, dice = made(width=16).eval(), generator(1)
    nn.init.normal_(model.output_layer[-1].weight, std=5)  # so that it matters what is read
    token_ids = [TASK.vocabulary.index(character) for character in "The"]
    for _ in range(40):  # beyond the window
        shares = model(torch.tensor([token_ids[-32:]]))[0, -1].softmax(dim=-1)
        token_ids.append(torch.multinomial(shares, 1, generator=dice).item())
    assert generate_text(model, TASK, "The", 40, generator(1)) == TASK.text(token_ids[3:])


class Centred(CharacterModel):
    def forward(self, x):
        logits = super().forward(x)
        return logits - logits.mean(dim=1, keepdim=True)


class Unshifted(Characters):
    def batch(self, generator):
        x, _ = super().batch(generator)
        return x, x


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_small_leak_looks_about_as_good_as_none_and_unshifted_targets_look_honest(seed):
    """In both, notebook 08's tests say what it says that they say."""

    def trained(kind, task=TASK, steps=200):
        torch.manual_seed(seed)
        return Training(made(kind), task, learning_rate=1e-2, seed=seed, keep=False).run(steps).model

    x, targets = TASK.unseen()
    models = trained(CharacterModel), trained(Centred), trained(CharacterModel, Unshifted(TEXT), steps=50)
    plain, leaky, same = (TASK.loss(model.eval()(x), targets).item() for model in models)
    assert plain - 0.4 < leaky < plain + 0.05
    assert prefix_losses(models[1], x, targets).mean() > leaky + 0.3
    assert TASK.loss(models[2](x), x) < 0.05
    assert prefix_losses(models[2], x, x).mean() < 0.05
    assert same > 5


class Interrupting(LookupTask):
    """A task that gets an interrupt at one step, while it computes the loss."""

    def __init__(self, step):
        super().__init__(batch_size=16)
        self.left = step

    def loss(self, outputs, answers):
        self.left -= torch.is_grad_enabled()  # not for a snapshot
        if self.left == 0 and torch.is_grad_enabled():
            signal.raise_signal(signal.SIGINT)
        return super().loss(outputs, answers)


class Dropping(LookupModel):
    """A LookupModel with dropout before its output layer and on the attention weights."""

    def __init__(self, task):
        super().__init__(task, width=8, d_out=8)
        self.attention.dropout.p = 0.3
        self.output_layer = nn.Sequential(Dropout(0.2), self.output_layer)


def trained(task, steps):
    torch.manual_seed(1)
    return Training(Dropping(task), task, seed=5).run(steps)


def kept(training):
    """All that a run keeps, as plain numbers that are compared bit for bit."""
    snapshots = [(each.step, each.loss, each.maps.tolist()) for each in training.snapshots]
    accuracies = [accuracy.tolist() for accuracy in training.accuracies]
    return training.losses, accuracies, snapshots, [part.tolist() for part in training.model.parameters()]


@pytest.mark.parametrize(("steps", "step"), [(5, 2), pytest.param(40, 33, marks=pytest.mark.slow)])
def test_an_interrupted_run_that_goes_on_ends_where_one_in_one_go_ends(steps, step, capsys):
    whole, stopped = trained(LookupTask(batch_size=16), steps), trained(Interrupting(step), steps)
    assert stopped.step == step
    assert f"Stopped after step {step}" in capsys.readouterr().out
    assert stopped.snapshots[-1].step == step
    torch.manual_seed(99)
    state = torch.get_rng_state()
    stopped.run(steps - step)
    assert torch.equal(torch.get_rng_state(), state)  # the run doesn't use the notebook's random numbers
    assert kept(whole) == kept(stopped)


def test_a_snapshot_is_the_model_as_it_stood():
    training = trained(LookupTask(batch_size=16), 4)
    snapshot, again = training.snapshots[2], Dropping(training.task)
    again.load_state_dict(snapshot.state)
    outputs = again.eval()(training.examples)
    assert torch.equal(attention_maps(again, training.examples[:8])[0], snapshot.maps)
    assert training.task.loss(outputs, training.answers).item() == pytest.approx(snapshot.loss)
    assert torch.equal(training.task.accuracy(outputs, training.answers), snapshot.accuracy)


def test_no_batch_repeats():
    make_batch = Training(Dropping(LookupTask()), LookupTask(), keep=False).make_batch
    assert len({tuple(make_batch(step)[0].flatten().tolist()) for step in range(9)}) == 9

"""The training loop: what a step does, what it stores, and how it's stopped and resumed."""

import signal

import pytest
import torch
from torch import nn

from attention_helpers import Dropout, attention_maps
from attention_helpers.training.lookup import LookupModel, LookupTask
from attention_helpers.training.loop import Training


class Interrupting(LookupTask):
    """A task that gets an interrupt at one step, while it computes the loss."""

    def __init__(self, step, **sizes):
        super().__init__(**sizes)
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


def trained(task, steps, seed=5):
    torch.manual_seed(1)
    return Training(Dropping(task), task, seed=seed).run(steps)


def same(one, other):
    """Whether two runs have the same state, bit for bit."""
    parameters = zip(one.model.parameters(), other.model.parameters(), strict=True)
    snapshots = zip(one.snapshots, other.snapshots, strict=True)
    return (
        one.losses == other.losses
        and all(torch.equal(a, b) for a, b in parameters)
        and all(a.step == b.step and a.loss == b.loss and torch.equal(a.maps, b.maps) for a, b in snapshots)
    )


@pytest.mark.parametrize(("steps", "step"), [(5, 2), pytest.param(40, 33, marks=pytest.mark.slow)])
def test_an_interrupted_run_that_goes_on_ends_where_one_in_one_go_ends(steps, step, capsys):
    whole = trained(LookupTask(batch_size=16), steps)
    stopped = trained(Interrupting(step, batch_size=16), steps)
    assert stopped.step == step
    assert f"Stopped after step {step}" in capsys.readouterr().out
    assert stopped.snapshots[-1].step == step
    torch.manual_seed(99)
    state = torch.get_rng_state()
    stopped.run(steps - step)
    assert torch.equal(torch.get_rng_state(), state)  # the run doesn't use the notebook's random numbers
    assert same(whole, stopped)
    assert not same(whole, trained(LookupTask(batch_size=16), steps - 1))


def test_a_snapshot_is_the_model_as_it_stood():
    training = trained(LookupTask(batch_size=16), 4)
    snapshot, again = training.snapshots[2], Dropping(training.task)
    again.load_state_dict(snapshot.state)
    outputs = again.eval()(training.examples)
    assert torch.equal(attention_maps(again, training.examples[:8])[0], snapshot.maps)
    assert training.task.loss(outputs, training.answers).item() == pytest.approx(snapshot.loss)
    assert torch.equal(training.task.accuracy(outputs, training.answers), snapshot.accuracy)


def test_a_run_is_the_textbooks_loop():
    task = LookupTask(questions=2, batch_size=8)
    torch.manual_seed(1)
    training = Training(LookupModel(task, width=4), task, learning_rate=0.05, seed=3).run(4)
    torch.manual_seed(1)
    model, losses, accuracies = LookupModel(task, width=4), [], []
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    for x, answers in map(training.make_batch, range(4)):
        optimizer.zero_grad()
        outputs = model(x)
        loss = task.loss(outputs, answers)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        accuracies.append(task.accuracy(outputs, answers).tolist())
    assert len({tuple(training.make_batch(step)[0].flatten().tolist()) for step in range(9)}) == 9  # no batch repeats
    assert training.losses == losses
    assert [accuracy.tolist() for accuracy in training.accuracies] == accuracies
    assert all(torch.equal(a, b) for a, b in zip(training.model.parameters(), model.parameters(), strict=True))

"""The training loop: what a step does, what it stores, and how it's stopped and resumed.

That a run is the textbook's loop is what notebook 07 prints, where it writes the loop out.
"""

import signal

import pytest
import torch
from torch import nn

from attention_helpers import Dropout, attention_maps
from attention_helpers.training.lookup import LookupModel, LookupTask
from attention_helpers.training.loop import Training


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

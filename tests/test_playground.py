"""The playground: it trains what the course trains, as the page asks, disturbs nothing, and shows what it measured."""

from types import SimpleNamespace

import pytest
import torch

from attention_course.build import build_layer
from attention_course.explorers.playground import explorer as playground
from attention_course.explorers.playground.explorer import REMEDY, Playground
from attention_course.explorers.playground.runs import TrainingRun, prefix_losses
from attention_helpers.training.lookup import LookupModel, LookupTask
from attention_helpers.training.loop import Training

SMALL = {"d_out": 8, "num_heads": 2, "seed": 3}


@pytest.fixture
def ground():
    """A small playground."""
    made = Playground()
    made.set(**SMALL)
    return made


def ask(explorer, pictures=1):
    """What a page that plays says, some times, for as long as it plays."""
    for _ in range(pictures):
        if explorer.view.playing:
            explorer._heard(explorer.view, {"next": True}, [])


def shown(widget):
    return widget.layout.display != "none" and widget.layout.visibility != "hidden"


def test_it_trains_what_the_course_trains(ground):
    ground.speed.value = 2
    ground.run(5)
    task = LookupTask(2)
    training = Training(build_layer(LookupModel, 3, task, 32, 2, 8), task, learning_rate=1e-2, seed=3, keep=False)
    for _ in range(5):
        training.take_step()
    trained = ground.arrays.run.model.state_dict()
    assert all(torch.equal(trained[name], value) for name, value in training.model.state_dict().items())
    assert [each.step for each in ground.arrays.measured] == [0, 2, 4, 5]
    last = ground.arrays.measured[-2:]
    assert last[1].loss == pytest.approx(training.losses[4])
    assert last[0].loss == pytest.approx((training.losses[2] + training.losses[3]) / 2)
    assert last[0].right == pytest.approx(torch.stack(training.accuracies[2:4]).mean(dim=0).min().item())


@pytest.mark.parametrize("more", [{}, {"task": "next character", "dropout": 0.5}])
def test_run_ends_where_it_did_before_and_the_notebooks_random_numbers_stay(ground, more):
    state = torch.get_rng_state()
    ground.set(**more)
    ground.run(6)
    first = ground.svg, ground.alt, ground.readout
    ground.restart()
    assert ground.arrays.step == 0
    ground.run(4)
    ground.run(2)
    assert (ground.svg, ground.alt, ground.readout) == first
    assert torch.equal(torch.get_rng_state(), state)


def test_held_out_examples_are_scored_without_dropout():
    plain, dropped = (TrainingRun("one question", 16, 1, dropout, 1e-2, "causal", seed=0) for dropout in (0.0, 0.8))
    dropped.take(3)
    model = dropped.model.eval()
    right = dropped.task.accuracy(model(dropped.x), dropped.answers).min().item()
    assert dropped.measured[-1].accuracy == pytest.approx(right)
    assert torch.equal(dropped.map(), dropped.map())
    plain.take(3)
    assert plain.measured[1].loss != dropped.measured[1].loss  # while dropout is there in training
    assert torch.equal(plain.x, dropped.x)


def test_learned_is_where_twenty_steps_began_that_were_all_right():
    run, seen = TrainingRun("one question", 8, 1, 0.0, 1e-2, "causal", seed=0), []
    run.since, drawn = None, iter([0.99] * 19 + [0.98] + [0.99] * 21 + [0.5])
    run.task = SimpleNamespace(accuracy=lambda *_: torch.tensor([next(drawn)]).double(), loss=lambda *_: torch.ones(()))
    for run.step in range(1, 43):
        run.measure([], [])
        seen.append(run.learned)
    assert seen == [None] * 40 + [21, 21]  # once learned it stays so


def test_the_honest_loss_comes_now_and_then_and_is_that_of_prefixes(ground):
    assert not shown(ground.controls["mask"])  # it does nothing there
    ground.set(task="next character", mask="leaky")
    assert shown(ground.controls["mask"])
    ground.run(20)
    run = ground.arrays.run
    assert [each.step for each in run.honest] == [20]
    assert run.honest[0].loss == pytest.approx(prefix_losses(run.model, run.x, run.answers).mean().item())
    ground.run(21)
    assert [each.step for each in ground.arrays.honest] == [20, 40]


def test_it_plays_once_a_page_shows_it_and_moved_controls_play_from_then_on(ground):
    ground.controls["seed"].value = 5
    assert not ground.view.playing
    ground._heard(ground.view, {"seen": True}, [])
    assert ground.view.playing
    ground.pause()
    ground._heard(ground.view, {"seen": True}, [])  # another page
    assert not ground.view.playing
    ground.controls["seed"].value = 6
    assert ground.view.playing


def test_a_control_moved_while_it_plays_begins_anew_and_plays_on_to_the_same_numbers(ground):
    ground.play()
    ask(ground, 6)
    ground.controls["num_heads"].value = 4
    assert (ground.arrays.step, ground.view.playing) == (0, True)
    ask(ground, 5)
    fresh = Playground()
    fresh.set(**SMALL | {"num_heads": 4})
    fresh.run(5)
    assert torch.equal(fresh.arrays.weights, ground.arrays.weights)
    assert fresh.arrays.measured[-1].held_loss == ground.arrays.measured[-1].held_loss


def test_the_failure_of_one_head_offers_a_second_which_then_plays(ground):
    remedy = ground.buttons[REMEDY]
    ground.set(num_heads=1, d_out=32, seed=0)
    ground.run(59)
    assert not shown(remedy)
    ground.run(1)
    assert shown(remedy)
    remedy.click()
    assert (ground.values["num_heads"], ground.view.playing) == (2, True)
    assert not shown(remedy)
    ask(ground, 100)
    assert ground.arrays.learned is not None
    assert ground.arrays.predicted == ground.arrays.answers


def test_it_pauses_after_its_longest_run_and_goes_on_or_begins_anew_with_a_moved_control(ground, monkeypatch):
    monkeypatch.setattr(playground, "LONGEST_RUN", 6)
    ground.lively = True
    for step in (6, 12):
        ground.play()
        ask(ground, 20)
        assert (ground.arrays.step, ground.view.playing) == (step, False)
    ground.controls["seed"].value = 9
    assert ground.view.playing
    ask(ground, 20)
    assert (ground.arrays.step, ground.arrays.run.seed) == (6, 9)

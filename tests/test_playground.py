"""The playground trains as the course does and as the page asks, and shows it; its trials hold for ten seeds."""

import math
from types import SimpleNamespace

import pytest
import torch
from explorer_page import SVG, figures, numbers, say, tooltips, tree_of, words_of

from attention_course.build import build_layer
from attention_course.explorers.playground import explorer as playground
from attention_course.explorers.playground.explorer import Playground
from attention_course.explorers.playground.runs import TrainingRun, prefix_losses
from attention_course.explorers.playground.trials import TRIAL_STEPS, TRIALS
from attention_helpers.training.lookup import LookupModel, LookupTask
from attention_helpers.training.loop import Training

SMALL = {"d_out": 8, "num_heads": 2, "seed": 3}
NEXT = {"task": "next character", "num_heads": 2}


@pytest.fixture
def ground():
    """A small playground."""
    made = Playground()
    made.set(**SMALL)
    return made


def shown(widget):
    return widget.layout.display != "none" and widget.layout.visibility != "hidden"


def test_it_trains_what_the_course_trains(ground):
    ground.speed.value = 2
    ground.run(5)
    task = LookupTask(2)
    training = Training(build_layer(LookupModel, 3, task, 32, 2, 8), task, learning_rate=1e-2, seed=3, keep=False)
    training.run(5)
    trained = ground.arrays.run.model.state_dict()
    assert all(torch.equal(trained[name], value) for name, value in training.model.state_dict().items())
    assert [each.step for each in ground.arrays.measured] == [0, 2, 4, 5]
    *_, before, last = ground.arrays.measured
    assert [before.loss, last.loss] == pytest.approx([sum(training.losses[2:4]) / 2, training.losses[4]])
    assert before.right == pytest.approx(torch.stack(training.accuracies[2:4]).mean(dim=0).min().item())


def test_run_ends_where_it_did_before_and_scores_without_dropout_and_the_notebooks_random_numbers_stay(ground):
    state = torch.get_rng_state()
    ground.set(**NEXT, dropout=0.5)
    ground.run(6)
    first, run = (ground.svg, ground.alt, ground.readout), ground.arrays.run
    assert run.measured[-1].held_loss == pytest.approx(run.task.loss(run.model.eval()(run.x), run.answers).item())
    ground.restart()
    assert ground.arrays.step == 0
    ground.run(4)
    ground.run(2)
    assert (ground.svg, ground.alt, ground.readout) == first
    assert torch.equal(torch.get_rng_state(), state)


def test_an_answer_is_read_from_the_head_without_which_it_is_lost(ground):
    """Once two heads have learned: a head's part of the context is taken away, and only its own answer changes."""
    ground.set(num_heads=2, d_out=32, seed=0)
    ground.run(100)
    state, model = ground.arrays, ground.arrays.run.model.eval()
    assert sorted(state.read_from) == [0, 1]
    for question, head in enumerate(state.read_from):
        mask = torch.ones(2, 16)
        mask[head] = 0
        off = lambda _, inputs, mask=mask: (inputs[0] * mask.flatten(),)  # noqa: E731
        hook = model.attention.out_proj.register_forward_pre_hook(off)
        answers = model(state.run.x).argmax(dim=-1)
        hook.remove()
        right = (answers == state.run.answers).float().mean(dim=0)
        assert right[question] < 0.5 < 0.9 < right[1 - question]


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
    run, [honest] = ground.arrays.run, ground.arrays.honest
    assert honest.loss == pytest.approx(prefix_losses(run.model, run.x, run.answers).mean().item())
    ground.run(21)
    assert [each.step for each in ground.arrays.honest] == [20, 40]


def test_it_waits_for_play_and_a_moved_control_begins_anew_and_plays_on_to_the_same_numbers(ground):
    ground.controls["seed"].value = 5
    assert not ground.view.playing
    ground.play()
    ground.controls["num_heads"].value = 4
    say(ground, 6, next=True)
    ground.controls["seed"].value = SMALL["seed"]
    assert (ground.arrays.step, ground.view.playing) == (0, True)
    say(ground, 5, next=True)
    fresh = Playground()
    fresh.set(**SMALL | {"num_heads": 4})
    fresh.run(5)
    assert torch.equal(fresh.arrays.weights, ground.arrays.weights)


def test_a_trial_asks_first_then_plays_to_step_100_says_what_was_seen_and_leads_on():
    ground = Playground()
    for number, trial in TRIALS.items():
        following = ground.buttons["Next trial"]
        assert (ground.tabs.value, ground.view.playing, ground.arrays.step) == (number, False, 0)
        assert ground.values == ground._first | trial.controls
        assert trial.watch in ground.readout
        assert trial.seen not in ground.readout
        assert not shown(following)
        ground.play()
        while ground.view.playing:
            say(ground, next=True)
        assert ground.arrays.step == TRIAL_STEPS
        assert trial.seen in ground.readout
        assert shown(following) == (number < 3)
        if number < 3:
            following.click()
    one, two, (usual, honest) = ground.results.values()
    assert {f"{one:.0%}", f"{two:.0%}", f"{usual:.1f}", f"{honest:.1f}"} <= {*figures(ground.readout)}
    assert one < 0.55 < 0.98 < two
    assert usual < 1 < honest


def test_a_moved_control_leads_to_free_play_and_a_tab_back_to_its_trial():
    ground = Playground()
    assert not shown(ground.free)
    ground.run(100)
    ground.set(num_heads=4)
    assert (ground.tabs.value, shown(ground.free)) == (0, True)
    assert shown(ground.buttons["Next trial"]) is False
    ground.run(100)
    ground.tabs.value = 2
    assert (ground.values["num_heads"], ground.arrays.step, shown(ground.free)) == (2, 0, False)
    assert [*ground.results] == [1]  # what's measured in free play is no trial's
    ground.run(3)
    ground.tabs.value = 0
    assert (ground.values["num_heads"], ground.arrays.step) == (2, 3)


def test_it_pauses_after_its_longest_run_and_then_goes_on(ground, monkeypatch):
    monkeypatch.setattr(playground, "LONGEST_RUN", 6)
    for step in (6, 12):
        ground.play()
        say(ground, 20, next=True)
        assert (ground.arrays.step, ground.view.playing) == (step, False)


@pytest.mark.parametrize("values", [SMALL, NEXT])
def test_answer_headline_and_curves_are_those_of_the_trained_model_and_the_picture_keeps_its_size(ground, values):
    sizes = [each.get("viewBox") for each in tree_of(ground).iter(f"{SVG}svg")]
    ground.set(**values)
    ground.run(21)
    state, run = ground.arrays, ground.arrays.run
    answers, (first, *_, now) = run.model.eval()(run.x[:1])[0].argmax(dim=-1).tolist(), state.measured
    said = [21, now.accuracy]
    if values == NEXT:  # there, each character is asked for the next; the picture asks one
        answers = [{" ": "␣", "\n": "↵"}.get(each, each) for each in [run.task.vocabulary[answers[state.asks]]]]
        said = [21, first.held_loss, now.held_loss, state.honest[-1].loss]
    assert state.predicted == [f"{each}" for each in answers]
    marks = [mark for mark in words_of(tree_of(ground)) if mark in ("✓", "✗")]
    assert marks == ["✓" if a == b else "✗" for a, b in zip(state.predicted, state.answers, strict=True)]
    assert numbers(ground.said)[: len(said)] == pytest.approx(said, rel=5e-3, abs=5.1e-3)
    assert values == NEXT or tooltips(ground, "new examples") == [f"new examples {now.accuracy:.0%}"]
    assert [each.get("viewBox") for each in tree_of(ground).iter(f"{SVG}svg")] == sizes
    ground.draw(state._replace(measured=[*state.measured, now._replace(loss=math.nan, held_loss=math.nan)]))
    assert ground.said.endswith("the loss isn't a number any more.")
    assert "nan" not in ground.svg.lower()


def train(steps, task="two questions", num_heads=1, mask="causal", seed=0):
    """A run, measured every ten steps."""
    run = TrainingRun(task, 32, num_heads, 0.0, 1e-2, mask, seed)
    for _ in range(0, steps, 10):
        run.take(10)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_one_head_fails_and_a_second_head_fixes_it(seed):
    """Trials 1 and 2; 500 steps are where a playing playground pauses."""
    one, two = train(100, seed=seed), train(100, num_heads=2, seed=seed)
    first, second = (run.map()[:, -1] for run in (one, two))  # by head, the question's weights
    wanted = one.example()["wanted"]
    assert sorted(first[0].topk(2).indices.tolist()) == sorted(second.argmax(dim=-1).tolist()) == sorted(wanted)
    assert max(each.accuracy for each in train(500, seed=seed).measured) < 0.55
    assert max(each.accuracy for each in two.measured) > 0.98


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("mask", ["causal", "leaky"])
def test_without_a_future_the_leaky_model_fails_and_the_causal_one_does_not(mask, seed):
    """Trial 3."""
    first, *_, last = train(100, **NEXT, mask=mask, seed=seed).honest
    assert last.usual < (1.0 if mask == "leaky" else 3.0)
    assert last.loss - last.usual > 1 if mask == "leaky" else abs(last.loss - last.usual) < 0.003
    assert (last.loss > first.loss) == (mask == "leaky")

"""The playground: it trains what the course trains, on one thread, disturbs nothing, and reports what it measured."""

import gc
import signal
import threading
import time
import weakref
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest
import torch
from ipywidgets.widgets import widget as all_widgets

from attention_helpers.explorers import Playground
from attention_helpers.explorers.playground import explorer as playground
from attention_helpers.explorers.playground import player as playing
from attention_helpers.explorers.playground.headline import headline, mends
from attention_helpers.explorers.playground.runs import HELD_OUT, Honest, Measured, Run
from attention_helpers.seeded import seeded
from attention_helpers.training.characters import prefix_losses
from attention_helpers.training.lookup import LookupModel, LookupTask
from attention_helpers.training.loop import FAR_APART, Training

SMALL = {"d_out": 8, "num_heads": 2, "seed": 3}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def ground(monkeypatch):
    """A small playground that draws as fast as it can, and is closed at the end."""
    monkeypatch.setattr(playing, "FRAME", 0.0)
    monkeypatch.setattr(playing, "REST", 0.001)
    made = Playground()
    made.set(**SMALL)
    yield made
    made.close()


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "playground"]


def wait_until(done, seconds=30):
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.002)


def test_it_trains_what_the_course_trains(ground):
    ground.run(5)
    task = LookupTask(2)
    training = Training(seeded(LookupModel, 3, task, 8, 2), task, learning_rate=1e-2, seed=3, keep=False)
    for _ in range(5):
        training.take_step()
    trained = ground.arrays.run.model.state_dict()
    assert all(torch.equal(trained[name], value) for name, value in training.model.state_dict().items())
    assert [each.step for each in ground.arrays.measured] == [0, 2, 4, 5]
    last = ground.arrays.measured[-2:]
    assert last[1].loss == pytest.approx(training.losses[4])
    assert last[0].loss == pytest.approx((training.losses[2] + training.losses[3]) / 2)


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
    plain, dropped = (Run("one question", 16, 1, dropout, 1e-2, "causal", seed=0) for dropout in (0.0, 0.8))
    dropped.take(3)
    model = dropped.model.eval()
    right = dropped.task.accuracy(model(dropped.x), dropped.answers).min().item()
    assert dropped.measured[-1].accuracy == pytest.approx(right)
    assert torch.equal(dropped.map(), dropped.map())
    plain.take(3)
    assert plain.measured[1].loss != dropped.measured[1].loss  # while dropout is there in training
    assert torch.equal(plain.x, dropped.x)


@pytest.mark.parametrize("seed", [0, 5])
def test_held_out_examples_are_drawn_from_a_seed_of_their_own(seed):
    x, answers = LookupTask(2).batch(torch.Generator().manual_seed(HELD_OUT))
    run = Run("two questions", 8, 1, 0.0, 1e-2, "causal", seed)
    assert torch.equal(run.x, x)
    assert torch.equal(run.answers, answers)


@pytest.mark.parametrize(("task", "rate"), [("one question", 1e-3), ("next character", 1e-2)])
def test_a_run_heeds_its_rate_and_its_dropout(task, rate):
    runs = [Run(task, 8, 2, dropout, speed, "causal", seed=0) for dropout, speed in ((0, 1e-2), (0, rate), (0.5, 1e-2))]
    for run in runs:
        run.take(2)
    usual, other_rate, dropped = (run.measured[-1].held_loss for run in runs)
    assert (usual == other_rate) == (rate == 1e-2)
    assert usual != dropped


def test_a_leaky_run_reads_the_future_and_a_causal_one_does_not():
    maps = {mask: Run("next character", 8, 2, 0.0, 1e-2, mask, seed=0).map() for mask in ("leaky", "causal")}
    assert (maps["leaky"].triu(1).sum(dim=-1)[:, 0] > 0.5).all()
    assert (maps["causal"].triu(1) == 0).all()


def test_right_answers_are_those_to_the_question_that_fares_worst():
    run = Run("two questions", 8, 1, 0.0, 1e-2, "causal", seed=0)
    run.task = SimpleNamespace(accuracy=lambda *_: torch.tensor([0.75, 0.25]), loss=lambda *_: torch.tensor(1.0))
    run.measure([1.0, 2.0], [torch.tensor([0.5, 1.0]), torch.tensor([0.25, 0.5])])
    assert (run.measured[-1].accuracy, run.measured[-1].right) == (0.25, 0.375)


def test_learned_is_the_step_from_which_on_all_is_right():
    run = Run("one question", 8, 1, 0.0, 1e-2, "causal", seed=0)
    shares = [0.5, 0.99, 1.0, 0.98, 1.0, 0.99]
    drawn = iter(shares)
    run.task = SimpleNamespace(
        accuracy=lambda *_: torch.tensor([next(drawn)]).double(), loss=lambda *_: torch.tensor(1.0)
    )
    learned = []
    for run.step in range(1, 1 + len(shares)):
        run.measure([], [])
        learned.append(run.learned)
    assert learned == [None, 2, 2, None, 5, 5]


def test_no_step_of_any_seed_trains_on_the_held_out_examples():
    drawn_at = [(HELD_OUT - seed * FAR_APART) % 2**32 for seed in range(1000)]  # the step whose batch it would be
    assert min(drawn_at) >= 10_000


def test_the_honest_loss_comes_now_and_then_and_is_that_of_prefixes(ground):
    ground.set(task="next character", mask="leaky")
    ground.run(20)
    run = ground.arrays.run
    assert [each.step for each in run.honest] == [20]
    assert run.honest[0].loss == pytest.approx(prefix_losses(run.model, run.x, run.answers).mean().item())
    ground.run(21)
    assert [each.step for each in ground.arrays.honest] == [20, 40]


def test_a_long_run_keeps_a_bounded_number_of_points(monkeypatch):
    from attention_helpers.explorers.playground import runs

    monkeypatch.setattr(runs, "MOST_MEASURED", 6)
    run = Run("one question", 4, 1, 0.0, 1e-2, "causal", seed=0)
    for _ in range(12):
        run.take(1)
    steps = [each.step for each in run.measured]
    assert len(steps) <= 7
    assert (steps[0], steps[-1]) == (0, 12)
    assert steps == sorted(steps)
    assert run.training.losses == []


def test_seven_fast_presses_start_one_thread_and_an_eighth_ends_it(ground):
    button = ground.buttons["Play"]
    for _ in range(7):
        button.click()
    wait_until(lambda: ground.arrays.step > 0)
    assert len(threads()) == 1
    assert button.description == "Pause"
    button.click()
    still = ground.svg
    assert button.description == "Play"
    wait_until(lambda: threads() == [])
    assert ground.svg == still


def test_a_control_moved_while_it_plays_begins_anew_and_plays_on_to_the_same_numbers(ground):
    ground.play()
    wait_until(lambda: ground.arrays.step >= 6)
    ground.controls["num_heads"].value = 4
    wait_until(lambda: ground.arrays.weights.shape[0] == 4 and ground.arrays.step >= 4)
    assert ground.playing
    ground.pause()
    shown = ground.arrays
    fresh = Playground()
    fresh.set(**SMALL | {"num_heads": 4})
    fresh.run(shown.step)
    assert torch.equal(fresh.arrays.weights, shown.weights)
    assert fresh.arrays.measured[-1].held_loss == shown.measured[-1].held_loss
    fresh.close()


def test_step_takes_as_many_steps_as_there_are_between_two_pictures(ground):
    ground.speed.value = 5
    ground.buttons["Step"].click()
    assert ground.arrays.step == 5
    ground.buttons["Restart"].click()
    assert (ground.arrays.step, ground.values["seed"]) == (0, 3)


def test_cells_and_the_thread_wait_for_each_other(ground):
    """Under fire from two threads, it neither hangs nor shows the picture of another state."""
    ground.play()
    for n in range(12):
        ground.set(num_heads=(1, 2, 4)[n % 3], seed=n)
        with ground._lock:
            assert ground.arrays.weights.shape[0] == ground.values["num_heads"]
            assert ground.arrays.run.seed == n
    ground.pause()
    assert f"step {ground.arrays.step}<" in ground.svg


def test_it_pauses_after_its_longest_run_and_can_go_on(ground, monkeypatch):
    monkeypatch.setattr(playground, "LONGEST", 6)
    ground.play()
    wait_until(lambda: threads() == [])
    assert ground.arrays.step == 6
    assert ground.buttons["Play"].description == "Play"
    ground.play()
    wait_until(lambda: threads() == [])
    assert ground.arrays.step == 12


def test_one_of_a_kernel_plays(ground):
    ground.play()
    other = Playground()
    assert not ground.playing
    ground.play()
    other.play()
    assert (ground.playing, other.playing) == (False, True)
    other.close()
    wait_until(lambda: threads() == [])


def test_several_in_a_row_leave_nothing_behind(monkeypatch):
    """Running a cell again closes its previous playground, even though the cell's output still refers to it."""
    gc.collect()
    before, outputs, runs = len(all_widgets._instances), [], []
    for execution in range(8):
        monkeypatch.setattr(playground, "this_cell", lambda execution=execution: ("the cell", execution))
        made = Playground()
        made.play()
        wait_until(lambda made=made: made.arrays.step > 0)
        outputs.append(made)
        runs.append(weakref.ref(made.arrays.run))
        made.restart()
        runs.append(weakref.ref(made.arrays.run))
    assert len(threads()) <= 2  # one that ends, one that plays
    outputs[-1].close()
    wait_until(lambda: threads() == [])
    made = None
    gc.collect()
    assert len(all_widgets._instances) == before
    assert [run for run in runs if run() is not None] == []


def test_two_in_one_run_of_a_cell_both_stay(monkeypatch):
    monkeypatch.setattr(playground, "this_cell", lambda: ("the cell", 1))
    first, second = Playground(), Playground()
    assert first.comm is not None
    first.close()
    second.close()


class Shell:
    """The parts of an IPython shell that deal with interrupts; its event loop runs when you call `turn`."""

    def __init__(self):
        self.heard, self.waiting = [], []
        self.kernel = SimpleNamespace(io_loop=SimpleNamespace(add_callback=self.waiting.append), get_parent=dict)
        self.events = SimpleNamespace(
            register=lambda event, callback: self.heard.append(callback),
            unregister=lambda event, callback: self.heard.remove(callback),
        )

    def turn(self):
        while self.waiting:
            self.waiting.pop(0)()


@pytest.mark.parametrize("when", ["in a cell", "between cells"])
def test_an_interrupt_stops_it_and_afterwards_all_is_as_before(ground, monkeypatch, when):
    shell, before = Shell(), signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(playing, "get_ipython", lambda: shell)
    ground.play()
    shell.turn()
    assert ground.playing
    if when == "in a cell":
        [after_cell] = shell.heard
        after_cell(SimpleNamespace(error_in_exec=ValueError()))
        assert ground.playing
        after_cell(SimpleNamespace(error_in_exec=KeyboardInterrupt()))
    else:
        signal.raise_signal(signal.SIGINT)
    shell.turn()
    assert not ground.playing
    assert shell.heard == []
    assert signal.getsignal(signal.SIGINT) is before


def test_the_picture_frames_the_questions_row_in_each_head_and_draws_what_it_reads(ground):
    ground.set(num_heads=4)
    root = ET.fromstring(ground.svg)
    frames = [
        rect
        for rect in root.iter(f"{SVG}rect")
        if rect.get("stroke") == "currentColor" and rect.get("stroke-width") == "2"
    ]
    assert len(frames) == 4
    told = [title.text for title in root.iter(f"{SVG}title")]
    question, weights = ground.arrays.tokens[-1], ground.arrays.weights[2, -1]
    for token, weight in zip(ground.arrays.tokens, weights.tolist(), strict=True):
        assert f"{question} reads {token} by head 3: {weight:.4f}" in told


def test_the_curves_end_where_the_numbers_are(ground):
    ground.run(10)
    root = ET.fromstring(ground.svg)
    paths = {path.find(f"{SVG}title").text: path.get("d") for path in root.iter(f"{SVG}path") if len(path)}
    spots = [tuple(map(float, spot.split())) for spot in paths["held-out"].removeprefix("M").split("L")]
    assert len(spots) == len(ground.arrays.measured) == 6
    x, y = spots[-1]  # of the last chart: right answers, from 0 at y = 122 to all at y = 26, steps to 100
    assert x == pytest.approx(46 + 10 / 100 * (410 - 46), abs=0.1)
    assert y == pytest.approx(122 - 96 * ground.arrays.measured[-1].accuracy, abs=0.1)


def test_what_it_stores_while_it_plays_is_its_first_picture(ground):
    first = ground._repr_mimebundle_()["image/svg+xml"]
    ground.play()
    wait_until(lambda: ground.arrays.step >= 4)
    assert ground._repr_mimebundle_()["image/svg+xml"] == first
    ground.pause()
    assert ground._repr_mimebundle_()["image/svg+xml"] != first


@pytest.mark.parametrize(("steps", "error"), [(0, ValueError), (2.5, TypeError)])
def test_steps_that_cannot_be_taken_are_refused(ground, steps, error):
    with pytest.raises(error, match="steps must be"):
        ground.run(steps)


SIZES = {"d_out": 32, "num_heads": 1, "dropout": 0.0, "learning_rate": 1e-2}


def said(step, right, task="two questions", learned=None, honest=(), **sizes):
    """The headline for a run with these measurements."""
    measured = [Measured(0, 2.3, 2.3, 0.1, 0.1), Measured(step, 1.0, 1.0, right, right)]
    run = SimpleNamespace(step=step, learned=learned, measured=measured, honest=list(honest))
    return headline(run, task, **SIZES | sizes)


def test_a_second_head_is_advised_only_where_it_alone_mends():
    advised = "After 60 steps 30 % of the held-out answers to the weaker question are right. One head hands out one "
    assert said(60, 0.3) == advised + "mixture: it cannot answer both. Give it a second."
    assert "Give it" not in said(40, 0.3)
    for sizes in ({"d_out": 4}, {"d_out": 8}, {"learning_rate": 1e-1}, {"dropout": 0.8}, {"num_heads": 2}):
        assert "second" not in said(300, 0.3, **sizes)
    assert said(60, 0.3, d_out=4).endswith("Try num_heads = 2 and d_out = 16.")
    assert "both" not in said(300, 0.3, task="one question")


def test_other_advice_waits_until_steps_alone_have_not_done():
    assert said(100, 0.3, num_heads=4, d_out=4).endswith("right.")
    assert said(150, 0.3, num_heads=4, d_out=4).endswith(" Try d_out = 16.")
    assert said(150, 0.98, num_heads=2).endswith("98 % of the held-out answers to the weaker question are right.")
    assert mends("two questions", **SIZES | {"num_heads": 2}) == {}


def test_learned_says_since_when_and_a_loss_that_is_lost_says_so():
    learned = "Learned: from step 26 on at least 99 % of the held-out answers are right."
    assert said(60, 1.0, learned=26, num_heads=2) == learned
    run = SimpleNamespace(step=9, measured=[Measured(9, 1.0, float("nan"), 0.1, 0.1)])
    assert "no number" in headline(run, "one question", **SIZES)


def test_the_leak_is_named_only_where_two_losses_tell_of_it():
    of_text = {"task": "next character"}
    assert said(10, 0.3, **of_text) == "After 10 steps 30 % of the held-out characters are guessed right."
    honest, leaky = Honest(20, 2.75, 2.5), Honest(40, 6.5, 0.25)
    assert said(20, 0.3, honest=[honest], **of_text) == (
        "After 20 steps the held-out loss is 2.50 nats; with no future to read it is 2.75."
    )
    assert said(40, 0.9, honest=[honest, leaky], **of_text) == (
        "It reads what it is to guess: after 40 steps its loss seems to be 0.25 nats, but with no future to read it is "
        "6.50."
    )

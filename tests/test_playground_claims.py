"""Claims about all runs, in the playground's headline and the notebooks, hold for ten seeds out of ten."""

import pytest

from attention_course.explorers.playground.explorer import HEAD_COUNTS, LONGEST_RUN, Playground
from attention_course.explorers.playground.headline import APART, SURE, headline, lacks_a_head
from attention_course.explorers.playground.runs import TrainingRun

SEEDS, EVERY = range(10), 10


def values_of(task, num_heads, d_out, learning_rate, dropout, seed, mask="causal"):
    names = ("task", "num_heads", "d_out", "learning_rate", "dropout", "seed", "mask")
    return dict(zip(names, (task, num_heads, d_out, learning_rate, dropout, seed, mask), strict=True))


def said(run, values):
    """The headline that the playground has for a run."""
    return headline(Playground.state_of(None, run, values), **values)


def best(run, steps=LONGEST_RUN):
    """The best held-out accuracy up to a step, or until the task is learned."""
    while run.step < steps and run.learned is None:
        run.take(EVERY)
    return max(each.accuracy for each in run.measured)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.001, 0.01])
@pytest.mark.parametrize("width", [8, 32])
def test_where_a_second_head_is_offered_one_is_not_enough(width, rate):
    for seed in SEEDS[:3]:
        values = values_of("two questions", 1, width, rate, 0.0, seed)
        run = TrainingRun(**values)
        assert best(run) < 0.7, seed
        assert lacks_a_head(Playground.state_of(None, run, values), **values)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_newcomer_sees_fail_fails_and_a_second_head_fixes_it_within_five_seconds(seed):
    """SURE steps take three, at 19 pictures a second; the answers on the screen are those to the first example."""
    values = values_of("two questions", 1, 32, 1e-2, 0.0, seed)
    one, two = TrainingRun(**values), TrainingRun(**values | {"num_heads": 2})
    for _ in range(SURE):
        one.take(1)
        two.take(1)
    assert 0.05 < one.measured[-1].accuracy < 0.4
    assert "both come out of one weighted average" in said(one, values)
    assert best(one) < 0.55
    assert two.predicted.tolist() == two.answers[0].tolist()
    best(two, steps=100)
    assert "Head 1 reads" in said(two, values | {"num_heads": 2})


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_start_page_asks_about_narrow_heads_and_dropout_what_its_sliders_answer(seed):
    narrow, wider, dropped = (
        TrainingRun(**values_of("one question", 1, d_out, 1e-2, dropout, seed))
        for d_out, dropout in ((1, 0.0), (2, 0.0), (32, 0.5))
    )
    for run, steps in (narrow, 60), (wider, 200), (dropped, 60):
        run.take(steps - 20)
        run.take(20)
    assert 0.1 < narrow.measured[-1].accuracy < 0.35
    assert wider.measured[-1].accuracy > 0.9
    assert 0.45 < dropped.measured[-1].right < 0.65
    assert dropped.measured[-1].accuracy > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("num_heads", HEAD_COUNTS)
@pytest.mark.parametrize("d_out", [16, 32])
@pytest.mark.parametrize("mask", ["causal", "leaky"])
def test_a_leak_is_named_where_there_is_one_and_nowhere_else(mask, d_out, num_heads):
    for seed in SEEDS[:: 1 if d_out == 32 else 3]:
        values = values_of("next character", num_heads, d_out, 1e-2, 0.0, seed, mask)
        run = TrainingRun(**values)
        run.take(240 if d_out == 16 else 120)  # a narrow model learns to read the future more slowly
        honest = run.honest[-1]
        assert said(run, values).startswith("It reads what it should predict") == (mask == "leaky")
        assert honest.loss - honest.usual > 1 if mask == "leaky" else abs(honest.loss - honest.usual) < APART / 100

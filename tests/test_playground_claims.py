"""Claims about all runs, in the playground's headline and the notebooks, hold for ten seeds out of ten."""

from itertools import product

import pytest

from attention_course.explorers.playground.explorer import LONGEST, Playground
from attention_course.explorers.playground.headline import (
    APART,
    HEADS,
    OFF,
    PATIENT,
    SURE,
    WIDTHS,
    fixes,
    good,
    headline,
)
from attention_course.explorers.playground.runs import QUESTIONS, Run

SEEDS, EVERY = range(10), 10
DROPOUTS = (0.0, 0.2, 0.5, 0.8)
LEARNED = [
    (task, heads, *sizes)
    for task in QUESTIONS
    for heads in good(task, 1)["num_heads"]
    for sizes in product(*list(good(task, heads).values())[1:])
]

MEAN, LINE = "One head makes one weighted average", "A head of width 1 can only find two ends of a line"
ADVICE = " after 500 steps; with learning rate 0.01 it would reach 99%."
FAILS = [
    *(("two questions", 1, width, 1e-2, dropout, MEAN) for width, dropout in ((2, 0.8), (32, 0.0))),
    ("two questions", 1, 32, 1e-3, 0.0, MEAN),
    *((task, heads, heads, 1e-2, 0.0, LINE) for task in QUESTIONS for heads in HEADS),
    ("two questions", 2, 32, 1e-4, 0.0, ADVICE),
]


def values_of(task, num_heads, d_out, learning_rate, dropout, seed, mask="causal"):
    names = ("task", "num_heads", "d_out", "learning_rate", "dropout", "seed", "mask")
    return dict(zip(names, (task, num_heads, d_out, learning_rate, dropout, seed, mask), strict=True))


def said(run, values):
    """The headline that the playground has for a run."""
    return headline(Playground.state_of(None, run, values), **values)


def best(run, steps=LONGEST):
    """The best held-out accuracy up to a step, or until the task is learned."""
    while run.step < steps and run.learned is None:
        run.take(EVERY)
    return max(each.accuracy for each in run.measured)


def test_the_settings_that_are_said_to_learn_are_told_nothing():
    for task, *sizes in LEARNED:
        assert fixes(task, **dict(zip(good(task, 1), sizes, strict=True))) == {}


def test_what_the_headline_advises_is_among_them():
    for task, heads, width, rate, dropout in product(QUESTIONS, HEADS, WIDTHS, [*OFF, 1e-3, 1e-2], DROPOUTS):
        sizes = dict(zip(good(task, 1), (heads, width, rate, dropout), strict=True))
        assert (task, *(sizes | fixes(task, **sizes)).values()) in LEARNED


def at_the_ends(task, heads):
    """Of what's learned with so many heads: the narrowest with each dropout, and the widest."""
    widths = good(task, heads)["d_out"]
    ends = {(widths[0], 0), (widths[0], 0.2), (widths[-1], 0)}
    return [each for each in LEARNED if each[:2] == (task, heads) and (each[2], each[4]) in ends]


ENDS = [case for task in QUESTIONS for heads in good(task, 1)["num_heads"] for case in at_the_ends(task, heads)]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "num_heads", "d_out", "learning_rate", "dropout"), ENDS)
def test_what_the_verdict_advises_is_learned(task, num_heads, d_out, learning_rate, dropout):
    for seed in SEEDS:
        values = values_of(task, num_heads, d_out, learning_rate, dropout, seed)
        run = Run(**values)
        best(run)
        assert said(run, values).startswith("Learned: 99% for 20 steps, from step "), seed


@pytest.mark.slow
@pytest.mark.parametrize(("task", "num_heads", "d_out", "learning_rate", "dropout", "words"), FAILS)
def test_what_is_said_to_fail_fails(task, num_heads, d_out, learning_rate, dropout, words):
    for seed in SEEDS:
        values = values_of(task, num_heads, d_out, learning_rate, dropout, seed)
        run = Run(**values)
        assert best(run) < 0.7, seed
        assert words in said(run, values)


@pytest.mark.slow
@pytest.mark.parametrize("num_heads", HEADS)
@pytest.mark.parametrize("rate", OFF)
def test_steps_that_are_said_to_be_too_small_or_too_large_are_not_learned_with(rate, num_heads):
    for seed in SEEDS:
        values = values_of("two questions", num_heads, 32, rate, 0.0, seed)
        run = Run(**values)
        assert best(run, steps=PATIENT - EVERY) < 0.9, seed
        assert f"they're too {OFF[rate]}" in said(run, values)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_newcomer_sees_fail_fails_and_a_second_head_fixes_it_within_five_seconds(seed):
    """SURE steps take three, at 19 pictures a second; the answers on the screen are those to the first example."""
    values = values_of("two questions", 1, 32, 1e-2, 0.0, seed)
    one, two = Run(**values), Run(**values | {"num_heads": 2})
    for _ in range(SURE):
        one.take(1)
        two.take(1)
    assert 0.05 < one.measured[-1].accuracy < 0.4
    assert said(one, values).startswith("One head makes one weighted average")
    assert best(one) < 0.55
    assert two.predicted.tolist() == two.answers[0].tolist()
    best(two, steps=100)
    assert "Head 1 reads" in said(two, values | {"num_heads": 2})


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_start_page_asks_about_narrow_heads_and_dropout_what_its_sliders_answer(seed):
    narrow, wider, dropped = (
        Run(**values_of("one question", 1, d_out, 1e-2, dropout, seed))
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
@pytest.mark.parametrize("num_heads", HEADS)
@pytest.mark.parametrize("d_out", [16, 32])
@pytest.mark.parametrize("mask", ["causal", "leaky"])
def test_a_leak_is_named_where_there_is_one_and_nowhere_else(mask, d_out, num_heads):
    for seed in SEEDS[:: 1 if d_out == 32 else 3]:
        values = values_of("next character", num_heads, d_out, 1e-2, 0.0, seed, mask)
        run = Run(**values)
        run.take(240 if d_out == 16 else 120)  # a narrow model learns to read the future more slowly
        honest = run.honest[-1]
        assert said(run, values).startswith("It reads what it should predict") == (mask == "leaky")
        assert honest.loss - honest.usual > 1 if mask == "leaky" else abs(honest.loss - honest.usual) < APART / 100

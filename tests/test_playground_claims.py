"""Claims about all runs, in the playground's headline and the notebooks, hold for ten seeds out of ten."""

import itertools

import pytest

from attention_helpers.explorers.playground.explorer import LONGEST
from attention_helpers.explorers.playground.headline import APART, SURE, cannot, good, headline, mends
from attention_helpers.explorers.playground.runs import LEARNED, QUESTIONS, Run

SEEDS, EVERY = range(10), 10
WIDTHS, HEADS, DROPOUTS, RATES = (4, 8, 16, 32, 64), (1, 2, 4), (0.0, 0.2, 0.5, 0.8), (1e-4, 1e-3, 1e-2, 1e-1)
MENDED = [(task, *sizes) for task in QUESTIONS for sizes in itertools.product(*good(task).values())]
ONE_HEAD = [
    *((width, dropout, 1e-2) for width in WIDTHS for dropout in DROPOUTS),
    *((width, 0.0, rate) for width in WIDTHS for rate in RATES if rate != 1e-2),
]


def run_of(task, num_heads, d_out, learning_rate, dropout, seed, mask="causal"):
    return Run(task, d_out, num_heads, dropout, learning_rate, mask, seed)


def best(run, steps=LONGEST, until=1.1):
    """The best held-out accuracy up to a step, or until it reaches `until`."""
    while run.step < steps and run.measured[-1].accuracy < until:
        run.take(EVERY)
    return max(each.accuracy for each in run.measured)


def test_the_settings_that_are_said_to_learn_are_told_nothing():
    for task, *sizes in MENDED:
        assert mends(task, **dict(zip(good(task), sizes, strict=True))) == {}


@pytest.mark.slow
@pytest.mark.parametrize(("task", "num_heads", "d_out", "learning_rate", "dropout"), MENDED)
def test_what_the_verdict_advises_is_learned(task, num_heads, d_out, learning_rate, dropout):
    for seed in SEEDS:
        run = run_of(task, num_heads, d_out, learning_rate, dropout, seed)
        assert best(run, until=LEARNED) >= LEARNED, seed
        assert headline(run, task, num_heads=num_heads, d_out=d_out).startswith("Learned: from step ")


@pytest.mark.slow
@pytest.mark.parametrize(("d_out", "dropout", "learning_rate"), ONE_HEAD)
def test_one_head_never_answers_both_questions(d_out, dropout, learning_rate):
    assert cannot("two questions", 1)
    for seed in SEEDS:
        run = run_of("two questions", 1, d_out, learning_rate, dropout, seed)
        assert best(run) < 0.9, seed
        sizes = {"num_heads": 1, "d_out": d_out, "learning_rate": learning_rate, "dropout": dropout}
        assert "it cannot answer both" in headline(run, "two questions", **sizes)


@pytest.mark.slow
@pytest.mark.parametrize("num_heads", [2, 4])
def test_what_the_start_page_says_fails_does(num_heads):
    for seed in SEEDS:
        run = run_of("two questions", num_heads, 32, 1e-4, 0.0, seed)
        assert best(run) < 0.9, seed
        sizes = {"num_heads": num_heads, "d_out": 32, "learning_rate": 1e-4, "dropout": 0.0}
        assert headline(run, "two questions", **sizes).endswith(" Try learning_rate = 0.01.")


@pytest.mark.slow
@pytest.mark.parametrize("num_heads", HEADS)
@pytest.mark.parametrize("d_out", [16, 32, 64])
@pytest.mark.parametrize("mask", ["causal", "leaky"])
def test_a_leak_is_named_where_there_is_one_and_nowhere_else(mask, d_out, num_heads):
    for seed in SEEDS[:: 1 if d_out == 32 else 3]:
        run = run_of("next character", num_heads, d_out, 1e-2, 0.0, seed, mask)
        run.take(240 if d_out == 16 else 120)  # a narrow model learns to read the future more slowly
        honest = run.honest[-1]
        sentence = headline(run, "next character", num_heads=num_heads, d_out=d_out)
        assert sentence.startswith("It reads what it is to guess") == (mask == "leaky")
        assert honest.loss - honest.usual > 1 if mask == "leaky" else abs(honest.loss - honest.usual) < APART / 100


def test_one_head_is_told_before_the_others():
    assert SURE < LONGEST

"""What the start page says of its trials holds for ten seeds out of ten."""

import pytest

from attention_course.explorers.playground.runs import TrainingRun

SEEDS = range(10)


def train(steps, task="two questions", num_heads=1, mask="causal", seed=0):
    """A run, measured every ten steps."""
    run = TrainingRun(task, 32, num_heads, 0.0, 1e-2, mask, seed)
    for _ in range(0, steps, 10):
        run.take(10)
    return run


def best(run):
    return max(each.accuracy for each in run.measured)


def looks_at_most(run, count):
    """For each head, the tokens to which the question gives its largest weights."""
    return [{*row.topk(count).indices.tolist()} for row in run.map()[:, -1]]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_one_head_fails_and_a_second_head_fixes_it(seed):
    """Trials 1 and 2; 500 steps are where a playing playground pauses."""
    one, two = train(100, seed=seed), train(100, num_heads=2, seed=seed)
    assert looks_at_most(one, 2) == [set(one.example()["wanted"])]
    assert [{token} for token in two.example()["wanted"]] == sorted(looks_at_most(two, 1), key=min)
    assert best(train(500, seed=seed)) < 0.55
    assert best(two) > 0.98


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mask", ["causal", "leaky"])
def test_without_a_future_the_leaky_model_fails_and_the_causal_one_does_not(mask, seed):
    """Trial 3."""
    first, *_, last = train(100, task="next character", num_heads=2, mask=mask, seed=seed).honest
    assert last.usual < (1.0 if mask == "leaky" else 3.0)
    assert last.loss - last.usual > 1 if mask == "leaky" else abs(last.loss - last.usual) < 0.003
    assert (last.loss > first.loss) == (mask == "leaky")

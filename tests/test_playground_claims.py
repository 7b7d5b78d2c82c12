"""What the start page says of its trials holds for ten seeds out of ten."""

import pytest

from attention_course.explorers.playground.runs import TrainingRun

SEEDS = range(10)


def train(steps, task="two questions", num_heads=1, d_out=32, dropout=0.0, mask="causal", seed=0):
    """A run, measured every ten steps."""
    run = TrainingRun(task, d_out, num_heads, dropout, 1e-2, mask, seed)
    for _ in range(0, steps, 10):
        run.take(10)
    return run


def best(run):
    return max(each.accuracy for each in run.measured)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_one_head_fails_and_a_second_head_fixes_it(seed):
    """Trials 1 and 2; 500 steps are where a playing playground pauses."""
    one, two = train(500, seed=seed), train(100, num_heads=2, seed=seed)
    assert 0.05 < one.measured[6].accuracy < 0.4
    assert best(one) < 0.55
    assert best(two) > 0.98


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mask", ["causal", "leaky"])
def test_without_a_future_the_leaky_model_fails_and_the_causal_one_does_not(mask, seed):
    """Trial 3."""
    run = train(120, task="next character", num_heads=2, mask=mask, seed=seed)
    (first, *_, last), usual = run.honest, run.measured[-1].held_loss  # both of step 120
    assert usual < (1.0 if mask == "leaky" else 3.0)
    assert last.loss - usual > 1 if mask == "leaky" else abs(last.loss - usual) < 0.003
    assert (last.loss > first.loss) == (mask == "leaky")


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_narrow_heads_and_dropout_do_what_the_start_page_says(seed):
    narrow, wider = (train(steps, "one question", d_out=d_out, seed=seed) for d_out, steps in ((1, 60), (2, 200)))
    dropped = train(60, "one question", dropout=0.5, seed=seed)
    assert 0.1 < narrow.measured[-1].accuracy < 0.35
    assert wider.measured[-1].accuracy > 0.9
    assert 0.4 < dropped.measured[-1].right < 0.7
    assert dropped.measured[-1].accuracy > 0.99

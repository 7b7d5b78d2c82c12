"""The playground's headline: one or two sentences on what was measured, and on what would fix it.

Claims about a single run come from its numbers. Claims about all runs with some settings (they can't learn, or others
can) are checked by a slow test with ten seeds each: see `cannot` and `mends`.
"""

import math

from .runs import NEXT

PATIENT = 150  # steps before a headline suggests a change, if more steps might be enough
SURE = 50  # steps before it says that one head isn't enough, since no number of steps is
APART = 0.3  # nats: if the honest loss exceeds the usual one by more, the model reads the future


def percent(share):
    return f"{100 * share:.0f} %"


def good(task):
    """By control, the values with which the lookup task is learned in at most 500 steps, for any seed."""
    two = task == "two questions"
    return {
        "num_heads": (2, 4) if two else (1, 2, 4),
        "d_out": (16, 32, 64) if two else (32, 64),  # one head of width 16 gets stuck from one seed in ten
        "learning_rate": (0.01,),
        "dropout": (0, 0.2),
    }


def mends(task, **sizes):
    """The nearest good value for each control that doesn't have one; with all of them, the task is learned."""
    apart = {name: values for name, values in good(task).items() if sizes[name] not in values}
    return {name: min(values, key=lambda value: abs(value - sizes[name])) for name, values in apart.items()}


def cannot(task, num_heads):
    """Whether the task can't be learned with any width, dropout or learning rate: one head, two ordered answers."""
    return task == "two questions" and num_heads == 1


def headline(run, task, **sizes):
    """The headline for a Run with these control values."""
    now, start = run.measured[-1], run.measured[0]
    if not math.isfinite(now.held_loss):
        return "The loss is no number any more: the steps were too large."
    if task == NEXT:
        return of_next_character(run, now, start)
    if run.step == 0:
        return f"Untrained: {percent(now.accuracy)} of the held-out answers are right; guesses give 10 %. Press Play."
    if run.learned is not None:
        return f"Learned: from step {run.learned} on at least 99 % of the held-out answers are right."
    fares = "answers to the weaker question" if task == "two questions" else "answers"
    so_far = f"After {run.step} steps {percent(now.accuracy)} of the held-out {fares} are right."
    mended, sure = mends(task, **sizes), cannot(task, sizes["num_heads"])
    why = " One head hands out one mixture: it cannot answer both." if sure else ""
    if run.step < (SURE if sure else PATIENT) or not mended:
        return so_far
    if mended == {"num_heads": 2}:
        return f"{so_far}{why} Give it a second."
    return f"{so_far}{why} Try {' and '.join(f'{name} = {value:g}' for name, value in mended.items())}."


def of_next_character(run, now, start):
    """The leak, if the two losses measured at one step reveal it; else how far the training got."""
    if run.step == 0:
        return f"Untrained: {percent(now.accuracy)} of the next characters are guessed. Press Play."
    if not run.honest:
        return f"After {run.step} steps {percent(now.accuracy)} of the held-out characters are guessed right."
    step, loss, usual = run.honest[-1]
    if loss - usual > APART:
        return (
            f"It reads what it is to guess: after {step} steps its loss seems to be {usual:.2f} nats, but with no "
            f"future to read it is {loss:.2f}."
        )
    return f"After {step} steps the held-out loss is {usual:.2f} nats; with no future to read it is {loss:.2f}."

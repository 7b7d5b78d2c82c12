"""The playground's words: a headline on what was measured and what would fix it, and the task in one example.

Claims about a single run come from its numbers. Claims about all runs with some settings (they can't learn, or others
can) are checked by a slow test with ten seeds each: see `cannot` and `fixes`.
"""

import math

from .charts import nats, percent
from .runs import LEARNED, NEXT, STEADY

PATIENT = 150  # steps before a headline names other settings, if more steps might be enough
SURE = 60  # steps before it says that one head isn't enough, since no number of steps is
OFF = {1e-4: "small", 1e-1: "large"}  # learning rates that are far from the good one
APART = 0.3  # nats: if the honest loss exceeds the usual one by more, the model reads the future
SAID = {"num_heads": "{} heads", "d_out": "d_out {}", "learning_rate": "learning rate {}", "dropout": "dropout {}"}
TRAINING = "Training: with every step, the question reads differently."
BLEND = "One head makes one weighted average: both answers come out of it, and {}."
OF_BOTH = ("here both are wrong", "one stays wrong", "are right here by luck")  # by the number of right answers


def good(task):
    """By control, the values with which the lookup task is learned in at most 500 steps, for any seed."""
    two = task == "two questions"
    return {
        "num_heads": (2, 4) if two else (1, 2, 4),
        "d_out": (16, 32, 64) if two else (32, 64),  # one head of width 16 gets stuck from one seed in ten
        "learning_rate": (0.01,),
        "dropout": (0, 0.2),
    }


def fixes(task, **sizes):
    """The nearest good value for each control that doesn't have one; with all of them, the task is learned."""
    apart = {name: values for name, values in good(task).items() if sizes[name] not in values}
    return {name: min(values, key=lambda value: abs(value - sizes[name])) for name, values in apart.items()}


def cannot(task, num_heads):
    """Whether the task can't be learned with any width, dropout or learning rate: one head, two ordered answers."""
    return task == "two questions" and num_heads == 1


def fails(state, task, num_heads, learning_rate, **_):
    """Whether a second head is what lacks, and the run has shown it."""
    return cannot(task, num_heads) and learning_rate not in OFF and state.step >= SURE and state.learned is None


def headline(state, task, **sizes):
    """The headline for a PlayState with these control values."""
    now = state.measured[-1]
    if not math.isfinite(now.held_loss):
        return "The loss isn't a number any more: the steps were too large."
    if task == NEXT:
        return of_next_character(state)
    if state.step == 0:
        return "Untrained: every answer is a guess."
    if state.learned is not None:
        return f"Learned: {percent(LEARNED)} for {STEADY} steps, from step {state.learned} on.{who_reads(state)}"
    if fails(state, task, **sizes):
        return BLEND.format(OF_BOTH[sum(a == b for a, b in zip(state.predicted, state.answers, strict=True))])
    rate, fixed = sizes["learning_rate"], fixes(task, **sizes)
    no_other = {*fixed} <= {"learning_rate", "num_heads"}
    if rate in OFF and no_other and SURE <= state.step < PATIENT and now.accuracy < 0.5:
        return f"{percent(now.accuracy)} after {state.step} steps of learning rate {rate}: they're too {OFF[rate]}."
    if state.step < PATIENT or not fixed or now.accuracy >= LEARNED:
        return TRAINING
    with_these = " and ".join(SAID[name].format(value) for name, value in fixed.items())
    return f"{percent(now.accuracy)} after {state.step} steps; with {with_these} it would reach {percent(LEARNED)}."


def who_reads(state):
    """Which of the wanted tokens each head reads most, if together these are all that's wanted."""
    most = state.weights[:, state.asks].argmax(dim=-1).tolist()
    if sorted(most) != sorted(state.wanted):
        return ""
    reads = [f"ead {head} reads “{state.tokens[token]}”" for head, token in enumerate(most, 1)]
    return f" H{', h'.join(reads)}." if len(reads) > 1 else f" It reads “{state.tokens[most[0]]}”."


def of_next_character(state):
    """The leak, if the two losses measured at one step reveal it; else how far the training got."""
    first, now = nats(state.measured[0].held_loss), nats(state.measured[-1].held_loss)
    if state.step == 0:
        return "Untrained: every character is a guess."
    if not state.honest:
        return TRAINING.replace("the question reads", "each character reads")
    _, loss, usual = state.honest[-1]
    if loss - usual > APART:
        return f"It reads what it should predict: its loss is {now}, but {nats(loss)} where it can't look ahead."
    return f"Training took its loss on new text from {first} to {now}."


def asked(state):
    """The question, or the characters before the one to predict."""
    if state.values["task"] == NEXT:
        return "".join(state.tokens[state.asks - 7 : state.asks + 1]).replace("␣", " ").replace("↵", " ")
    return state.tokens[state.asks]


def explained(state):
    """The task in terms of this very example, and how often it's solved; words between asterisks are bold."""
    task, right = state.values["task"], percent(state.measured[-1].accuracy)
    if task == NEXT:
        return f"Which character comes after “*{asked(state)}*”?", f"Step *{state.step}*: accuracy {right} on new text."
    letters = " and ".join(f"*{state.tokens[token][0]}*" for token in state.wanted)
    step = f"Step *{state.step}*: accuracy {right} on new examples"
    if len(state.wanted) == 1:
        return f"“{asked(state)}” asks which digit is next to {letters}.", f"{step}."
    counted = "on the less accurate of the two answers"
    return f"“{asked(state)}” asks which digits are next to {letters}.", f"{step}, {counted}."

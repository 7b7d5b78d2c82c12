"""The playground's words: a headline on what was measured and what would fix it, and the task in one example.

Claims about a single run come from its numbers. Claims about all runs with some settings (they can't learn, or others
can) are checked by a slow test with ten seeds each: see `cannot` and `fixes`.
"""

import math

from .charts import nats, percent
from .runs import LEARNED, NEXT, STEADY

HEADS, WIDTHS = (1, 2, 4), (1, 2, 4, 8, 16, 32)  # what the playground offers as num_heads and d_out
PATIENT = 150  # steps before a headline names other settings, if more steps might be enough
SURE = 60  # steps before it says that heads are too few or too narrow, since no number of steps is enough
OFF = {1e-4: "small", 1e-1: "large"}  # learning rates that are far from the good one
APART = 0.3  # nats: if the honest loss exceeds the usual one by more, the model reads the future
SAID = {"num_heads": "{} heads", "d_out": "d_out {}", "learning_rate": "learning rate {}", "dropout": "dropout {}"}
TRAINING = "Training: with every step, the question reads differently."
BLEND = "One head makes one weighted average"
BOTH = f"{BLEND}: both answers come out of it, and {{}}."
OF_BOTH = ("here both are wrong", "one stays wrong", "are right here by luck")  # by the number of right answers
LINE = "A head of width 1 can only find two ends of a line"


def good(task, num_heads):
    """By control, the values with which the lookup task is learned in at most 500 steps, for any seed.

    num_heads: a good one, or d_out is what's good for the nearest.
    """
    heads, least = ((2, 4), 4) if task == "two questions" else (HEADS, 2)  # least: the width of a head
    return {
        "num_heads": heads,
        "d_out": tuple(width for width in WIDTHS if width >= least * max(num_heads, heads[0])),
        "learning_rate": (0.01,),
        "dropout": (0, 0.2),
    }


def fixes(task, **sizes):
    """The nearest good value for each control that doesn't have one; with all of them, the task is learned."""
    known = good(task, sizes["num_heads"])
    apart = {name: values for name, values in known.items() if sizes[name] not in values}
    return {name: min(values, key=lambda value: abs(value - sizes[name])) for name, values in apart.items()}


def cannot(task, num_heads, d_out):
    """Why the task can't be learned, whatever dropout, learning rate and seed; None if it can."""
    if d_out == num_heads:
        return LINE
    return BLEND if task == "two questions" and num_heads == 1 else None


def fails(state, task, num_heads, d_out, learning_rate, **_):
    """Whether a task that can't be learned wasn't, after enough steps of a learning rate that isn't far off."""
    failed = state.step >= SURE and state.learned is None and learning_rate not in OFF
    return bool(cannot(task, num_heads, d_out)) and failed


def lacks_a_head(state, task, **sizes):
    """Whether a run has failed that only lacks a second head."""
    fixed = fixes(task, **sizes)
    return fails(state, task, **sizes) and "num_heads" in fixed and "d_out" not in fixed


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
    if lacks_a_head(state, task, **sizes):
        return BOTH.format(OF_BOTH[sum(a == b for a, b in zip(state.predicted, state.answers, strict=True))])
    rate, fixed = sizes["learning_rate"], fixes(task, **sizes)
    others = " and ".join(SAID[name].format(value) for name, value in fixed.items())
    if fails(state, task, **sizes):
        return f"{cannot(task, sizes['num_heads'], sizes['d_out'])}; {others} would reach {percent(LEARNED)}."
    no_other = {*fixed} <= {"learning_rate", "num_heads"}
    if rate in OFF and no_other and SURE <= state.step < PATIENT and now.accuracy < 0.5:
        return f"{percent(now.accuracy)} after {state.step} steps of learning rate {rate}: they're too {OFF[rate]}."
    if state.step < PATIENT or not fixed or now.accuracy >= LEARNED:
        return TRAINING
    return f"{percent(now.accuracy)} after {state.step} steps; with {others} it would reach {percent(LEARNED)}."


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

"""The playground's words: what was measured so far, and the task in terms of one example."""

import math

from .charts import nats, percent
from .runs import LEARNED, NEXT, STEADY

SURE = 60  # steps, after which one head that could have learned with another one offers it
APART = 0.3  # nats: if the honest loss exceeds the usual one by more, the model reads the future


def lacks_a_head(state, task, num_heads, d_out, learning_rate, **_):
    """Whether one head was asked for two answers, long enough, where a second head is all that's missing."""
    alone = task == "two questions" and num_heads == 1 and d_out >= 8 and learning_rate in (0.001, 0.01)
    return alone and state.step >= SURE and state.learned is None


def headline(state, **values):
    """The headline for a PlayState with these control values."""
    now = state.measured[-1]
    if not math.isfinite(now.held_loss):
        return f"After {state.step} steps the loss isn't a number any more."
    if state.step == 0:
        return "Untrained: every answer is a guess."
    if values["task"] == NEXT:
        return of_next_character(state)
    if state.learned is not None:
        return f"Learned: {percent(LEARNED)} for {STEADY} steps, from step {state.learned} on. {who_reads(state)}"
    said = f"After {state.step} steps the less accurate answer is right in {percent(now.accuracy)} of new examples"
    if lacks_a_head(state, **values):
        return f"{said}: both come out of one weighted average."
    return f"{said}. {who_reads(state)}"


def who_reads(state):
    """The token that each head reads most."""
    most = [state.tokens[token] for token in state.weights[:, state.asks].argmax(dim=-1).tolist()]
    if len(most) == 1:
        return f"It reads “{most[0]}” most."
    reads = [f"ead {head} reads “{token}”" for head, token in enumerate(most, 1)]
    return f"H{', h'.join(reads)} most."


def of_next_character(state):
    """The leak, if the two losses measured at one step reveal it; else how far the training got."""
    first, now = nats(state.measured[0].held_loss), nats(state.measured[-1].held_loss)
    if state.honest and state.honest[-1].loss - state.honest[-1].usual > APART:
        honest = nats(state.honest[-1].loss)
        return f"It reads what it should predict: its loss is {now}, but {honest} where it can't look ahead."
    return f"In {state.step} steps the loss on new text went from {first} to {now}."


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

"""The playground's words: what was measured so far, and the task in terms of one example."""

import math

from ..words import LOOKS, plural
from .charts import in_nats, in_percent
from .runs import LEARNED, NEXT, STEADY


def write_headline(state):
    """What was measured up to a PlayState."""
    first, now, steps = state.measured[0], state.measured[-1], f"{state.step} {plural('step', state.step)}"
    if not math.isfinite(now.held_loss):
        return f"After {steps} the loss isn't a number any more."
    if state.step == 0:
        return "Untrained: every answer is a guess."
    if state.values["task"] == NEXT:
        before, after = in_nats(first.held_loss), in_nats(now.held_loss)
        said = f"In {steps} the loss on new text went from {before} to {after}"
        ahead = f"; where it can't look ahead it's {in_nats(state.honest[-1].loss)}" if state.honest else ""
        return f"{said}{ahead}."
    if state.learned is not None:
        said = f"Learned: {in_percent(LEARNED)} for {STEADY} steps, from step {state.learned} on"
    else:
        which = "answer" if len(state.answers) == 1 else "less accurate answer"
        said = f"After {steps} the {which} is right in {in_percent(now.accuracy)} of new examples"
    most = [state.tokens[token] for token in state.weights[:, state.asks].argmax(dim=-1).tolist()]
    looks = [LOOKS.format(f"head {head}", f"“{token}”") for head, token in enumerate(most, 1)]
    return f"{said}. H{', '.join(looks)[1:]} most."


def question_of(state):
    """The question, or the characters before the one to predict."""
    if state.values["task"] == NEXT:
        return "".join(state.tokens[state.asks - 7 : state.asks + 1]).replace("␣", " ").replace("↵", " ")
    return state.tokens[state.asks]


def explain_task(state):
    """The task in terms of this very example; words between asterisks are bold."""
    question, now = question_of(state), f"Step *{state.step}*."
    if state.values["task"] == NEXT:
        return f"Which character comes after “*{question}*”? {now}"
    letters = " and ".join(f"*{state.tokens[token][0]}*" for token in state.wanted)
    which = "digit is" if len(state.wanted) == 1 else "digits are"
    return f"“{question}” asks which {which} next to {letters}. {now}"

"""The playground's three trials: what each sets, what to predict, what to watch, and what was measured."""

import html
from typing import NamedTuple

from .runs import NEXT

TRIAL_STEPS = 100  # after which a trial says what happened
FREE = "Move any control, and training begins again at step 0. It rests after 500 steps, until you press <i>Play</i>."


class Trial(NamedTuple):
    """A trial; its sentences are HTML. seen: what happened in the first TRIAL_STEPS steps, with the first seed."""

    name: str
    controls: dict
    question: str
    watch: str
    seen: str


ONE_HEAD = Trial(
    "one head",
    {"num_heads": 1},
    "Can one head learn both answers?",
    "Decide first. Then press <i>Play</i>, and watch which tokens the thickest arcs come from, and both answers.",
    "The thickest arcs come from E and I, so the head has found both digits. "
    "But it mixes them up, so the accuracy stays low.",
)
TWO_HEADS = Trial(
    "two heads",
    {"num_heads": 2},
    "Where will each of two heads look?",
    "Decide first. Then press <i>Play</i>, and watch both colours.",
    "One colour's arc comes from E, the other's from I. So no digits are mixed, and nearly every answer is right.",
)
LEAK = Trial(
    "a leak",
    {"num_heads": 2, "task": NEXT, "mask": "leaky"},
    "Will a model that sees the future look good on new text?",
    "It predicts a text's next character, and no mask hides the later ones. Decide first. Then press <i>Play</i>, and "
    "watch the curves <i>new text</i> and <i>can't look ahead</i>, where the text ends before what's predicted.",
    "The curve <i>new text</i> falls, so the model looks good. The curve <i>can't look ahead</i> rises: when a model "
    "writes, the next character isn't there yet, so there's nothing to copy.",
)
TRIALS = {1: ONE_HEAD, 2: TWO_HEADS, 3: LEAK}
TABS = {f"Trial {number}: {trial.name}": number for number, trial in TRIALS.items()} | {"Free play": 0}
BAR = '<span class="attention-bar"><span style="width:{share:.0%}"></span></span>'


def trial_of(first, values):
    """The trial that has these controls, or 0."""
    return next((n for n, trial in TRIALS.items() if first | trial.controls == values), 0)


def measured_result(state):
    """What a run's first TRIAL_STEPS steps led to: the accuracy, or both losses of a model that predicts a text."""
    if state.task == NEXT:
        honest = next(each for each in state.honest if each.step >= TRIAL_STEPS)
        return honest.usual, honest.loss
    return next(each for each in state.measured if each.step >= TRIAL_STEPS).accuracy


def write_panel(number, step, results):
    """What's beside the picture, as HTML: a trial's question, what to watch or what happened, and all results.

    number: the trial, or 0. results: by number, what was measured; None to write none.
    """
    if not number:
        return "" if results is None else f"<p><b>Free play</b></p><p>{FREE}</p>"
    trial, done = TRIALS[number], step >= TRIAL_STEPS
    kicker, words = ("You saw", trial.seen) if done else ("Predict", trial.watch)
    asked = f'<p class="attention-kicker">{kicker}</p><p><b>{html.escape(trial.question, quote=False)}</b></p>'
    return f"{asked}<p>{words}</p>" + ("" if results is None else write_results(number, results))


def write_results(number, results):
    rows = [write_row(trial.name, results.get(n), n == number) for n, trial in TRIALS.items()]
    return f'<p class="attention-kicker">Your trials, at step {TRIAL_STEPS}</p><table>{"".join(rows)}</table>'


def write_row(name, result, bold):
    said = "<td></td><td>not yet</td>"
    if isinstance(result, tuple):
        said = f'<td colspan="2">loss {result[0]:.1f}, but {result[1]:.1f} if it can\'t look ahead</td>'
    elif result is not None:
        said = f"<td>{BAR.format(share=result)}</td><td>{result:.0%}</td>"
    return f"<tr><th scope='row'>{f'<b>{name}</b>' if bold else name}</th>{said}</tr>"

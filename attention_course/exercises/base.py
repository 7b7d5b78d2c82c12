"""Exercises that answer back: a check says what's right, or names the mistake that was made, but never the answer.

`Exercise.check` is the way an answer goes. Is it still the stub (source.py)? It runs once on each of several inputs, as
it was written, next to the solution. What they return is compared (compare.py). If it differs, the known mistakes run
too, and the first one that returns the same is named. If none does, the reply gives the difference.
"""

import io
import textwrap
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import Any, NamedTuple

import torch

from attention_helpers.state import keep_state

from . import record
from .compare import find_fault, same_outcomes
from .reply import Progress, Reply
from .source import is_stub, stub_of, with_change

SEED = 20


def normal(generator, *shapes):
    """Tensors of these shapes with normally distributed entries, as a tuple: a case, or a part of one."""
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


class Mistake(NamedTuple):
    """A mistake that people make: its name, a function or class that makes it, and the check's reply."""

    name: str
    wrong: Any
    reply: str


class Outcome(NamedTuple):
    """What one call left: its value or its error, and its arguments before and after."""

    value: Any
    error: Exception | None
    before: tuple
    after: tuple


@dataclass(kw_only=True)
class Exercise:
    """One exercise.

    title, prompt: what the notebook asks, in Markdown. solution: a function or class that passes.
    cases(generator): the arguments of several calls, as tuples, drawn from the generator. call(answer, *case): how an
    answer is used; it returns tensors, numbers, strings, or tuples, lists or dictionaries of them.
    mistakes: the replies, by mistake. One is an edit of the solution, (name, old, new), which replaces `old` by `new`
    everywhere in its source, or (name, wrong), a function or class. The first one that fits is named, so order counts.
    hints: from gentle to plain. why: what makes the solution right. moral: what to say to someone who is right.
    stub: the text that the notebook ships for the learner to complete or fix; by default the solution's head.
    imports: what an answer needs besides `import torch`. tolerance: the largest difference that passes.
    """

    name: str
    title: str = ""
    prompt: str = ""
    solution: Any
    cases: Callable
    mistakes: dict = field(default_factory=dict)
    hints: list[str] = field(default_factory=list)
    why: str = ""
    call: Callable = lambda answer, *case: answer(*case)
    moral: str = ""
    stub: str = ""
    imports: str = ""
    tolerance: float = 1e-5

    def __post_init__(self):
        self.answer_name = self.solution.__name__
        self.stub = textwrap.dedent(self.stub).strip() or stub_of(self.solution)
        self.right_answer = None  # the last one that was right in this kernel
        self.last_checked = None

    @cached_property
    def known_mistakes(self):
        """All known mistakes in their order. Errors: ValueError for an edit that isn't in the solution's source."""
        return [
            Mistake(name, wrong[0] if len(wrong) == 1 else with_change(self.solution, *wrong), " ".join(reply.split()))
            for (name, *wrong), reply in self.mistakes.items()
        ]

    @property
    def done(self):
        """Whether an answer was right once, in this kernel or, in a workbook, in any (see `record`)."""
        return self.right_answer is not None or self.name in record.done()

    @property
    def cell(self):
        """The notebook's cell: the stub, and the check under it."""
        return f"{self.stub}\n\n\npractice.{self.name}.check({self.answer_name})"

    def check(self, answer):
        """Judge a learner's answer, a function or class. Errors: none."""
        self.last_checked = answer
        with keep_state(None):
            right, text, shown = self._judge(answer)
        if right:
            self.right_answer = answer
            return Reply(True, f"✓ **Right.** {text} {record.note(self.name)}".strip())
        verdict = "**Not attempted yet.**" if right is None else "✗ **Not yet.**"
        return Reply(right, f"{verdict} {text}", tuple(self.hints), shown)

    def or_ours(self, answer):
        """The answer if it's the one that was right in this kernel, and the solution otherwise. Errors: none."""
        if answer is self.right_answer:
            return answer
        if answer is not self.last_checked:
            print(f"This uses our {self.answer_name}, because its check hasn't run on yours as it is now.")
        return self.solution

    def _judge(self, answer):
        """Whether an answer is right (None: not attempted), what to say, and how many hints it shows."""
        if is_stub(answer, self.stub, self.answer_name):
            what_to_do = "Write" if "..." in self.stub else "Fix"
            return None, f"{what_to_do} `{self.answer_name}` above, then run this cell again.", 0
        if not callable(answer):
            return False, f"`{self.answer_name}` must be a function or class, and is {type(answer).__name__}.", 0
        given, expected = self.outcomes(answer), self.outcomes(self.solution)
        difference = self.first_difference(given, expected)
        if not difference:
            return True, f"Checked on {len(given)} inputs. {self.moral}".strip(), 0
        if mistake := self._reply_of_mistake(given, expected):
            return False, mistake, 0
        first_hint = "".join(f"\n\nHint 1 of {len(self.hints)}: {hint}" for hint in self.hints[:1])
        return False, difference + first_hint, 1

    def inputs(self):
        """The arguments of each call, as tuples: drawn again, and the same ones each time."""
        with keep_state(None):
            return list(self.cases(torch.Generator().manual_seed(SEED)))

    def outcomes(self, answer):
        """What an answer does with each of the inputs, each drawing from the same seed; only the first one prints."""
        outcomes = []
        for before, case in zip(self.inputs(), self.inputs(), strict=True):
            value = error = None
            with keep_state(None), redirect_stdout(io.StringIO()) if outcomes else nullcontext():
                torch.default_generator.manual_seed(0)
                try:
                    value = self.call(answer, *case)
                except Exception as raised:
                    error = raised
            outcomes.append(Outcome(value, error, before, case))
        return outcomes

    def first_difference(self, given, expected):
        """What the first call that went wrong shows, and how to get its input, in words, or ""."""
        for n, (got, right) in enumerate(zip(given, expected, strict=True)):
            if found := find_fault(right, got, self.tolerance):
                return f"{found} This was on input {n + 1} of {len(given)}, `practice.{self.name}.inputs()[{n}]`."
        return ""

    def _reply_of_mistake(self, given, expected):
        """The reply of the first known mistake that does what was given, or "".

        If none does in every call, then in those that ask for no error: people who make a mistake may forget the error.
        """
        for calls in [True] * len(expected), [right.error is None for right in expected]:
            got, right = list(compress(given, calls)), list(compress(expected, calls))
            if same_outcomes(got, right, right, self.tolerance):
                break  # only an error is missing
            for mistake in self.known_mistakes:
                if same_outcomes(compress(self.outcomes(mistake.wrong), calls), got, right, self.tolerance):
                    return mistake.reply
        return ""

    def wrong_ways(self):
        """What the check replies to each of the known mistakes, as a table. Errors: none."""
        rows = ["| {} | {} |".format(m.name, m.reply.replace("|", "\\|")) for m in self.known_mistakes]
        return Reply(None, "\n".join(["| if your answer … | the check says |", "| --- | --- |", *rows]))


__all__ = ["Exercise", "Progress", "Reply", "normal"]

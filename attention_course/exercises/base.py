"""Exercises that answer back: a check says what's right, or names the mistake that was made, but never the answer.

`Exercise.check` is the way an answer goes. Is it still the stub (source.py)? It runs once on each of several inputs, as
it was written, next to the solution. What they return is compared (compare.py). If it differs, the known mistakes run
too, and the first one that returns the same numbers is named. If none does, the reply says what was seen (seen.py): the
arguments that are never read, what differs and how (pattern.py), which of the solution's variables were computed
rightly, and the hint that belongs to the first one that wasn't.
"""

import io
import textwrap
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress, product
from typing import Any, NamedTuple

import torch

from attention_helpers.state import keep_state

from ..mistakes import MISTAKES
from . import MODULES, record, seen
from .compare import CLEAR, difference, find_fault, is_evidence, same_outcomes
from .pattern import common_pattern
from .reply import Progress, Reply
from .source import is_stub, source_of, stub_of, with_changes

SEEDS = 20, 21  # of the inputs, which are drawn twice


def normal(generator, *shapes):
    """Tensors of these shapes with normally distributed entries, as a tuple: a case, or a part of one."""
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


def verdict_of(answer, f, x):
    """What an answer says of f and x, True or False if it's one of them, and with what it called f."""
    calls = []

    def recorded(other):
        calls.append(other.clone())
        return f(other)

    said = answer(recorded, x)
    return said.item() if torch.is_tensor(said) and said.numel() == 1 else said, calls


def exercises_in(variables):
    """The exercises of a module, in order; each gets its variable's name."""
    found = {name: each for name, each in variables.items() if isinstance(each, Exercise)}
    for name, each in found.items():
        each.name = name
    return [*found.values()]


def name_of(mistake):
    """What a mistake does, in words."""
    if callable(mistake):
        return f"`{mistake.__name__}`"
    old, new = (" ".join(part.split()) for part in mistake[:2])
    if old == new:
        return f"`{old}` further in or out"
    return f"`{new}` for `{old}`" if new else f"without `{old}`"


def joined(*sentences):
    return " ".join(filter(None, sentences))


class Mistake(NamedTuple):
    """A mistake that people make: its name, a function or class that makes it, the check's reply, and where it leads.

    heading: that of the course which settles it, such as "03#Find-the-leak".
    """

    name: str
    wrong: Any
    reply: str
    heading: str

    @property
    def said(self):
        number, _, heading = self.heading.partition("#")
        where = f"[{heading.replace('-', ' ')}]({number}_{MODULES[number]}.ipynb#{heading})"
        return f"{self.reply} See {where}."


class Seen(NamedTuple):
    """What an exercise's `call` returns if it saw a fault: the result, the fault, and which hint is about it."""

    value: Any
    fault: str
    about: str = ""


class Outcome(NamedTuple):
    """What one call left: its value or its error, its arguments before and after, and what was seen meanwhile.

    fault, about: see Seen. seeds: torch's, before and after. made: see seen.Watch. variables: the solution's.
    """

    value: Any
    error: Exception | None
    before: tuple
    after: tuple
    fault: str = ""
    about: str = ""
    seeds: tuple = (0, 0)
    made: list = ()
    variables: dict = {}  # noqa: RUF012 (nobody changes it)


@dataclass(kw_only=True)
class Exercise:
    """One exercise.

    title, prompt: what the notebook asks, in Markdown. solution: a function or class that passes. forms: others.
    cases(generator): the arguments of several calls, as tuples, drawn from the generator. call(answer, *case): how an
    answer is used; it returns tensors, numbers, tuples, lists or dictionaries of them, or Seen. parts: a tuple's names.
    mistakes: the replies, by mistake: a function, or an edit of the solution, (old, new, ...), which puts `new` for
    `old` everywhere. The first one that fits is named, so order counts. "" replies with what's seen. After them come
    those of attention_course.mistakes that are edits of the solution or a form. heading: where a reply leads.
    hints: in the order of the steps, each by what it's about: a variable of the solution, a part of the result, or
    "result". why: what makes the solution right. moral: what to say to someone who is right.
    stub: the text that the notebook ships for the learner to complete or fix; by default the solution's head.
    imports: what an answer needs besides `import torch`. tolerance: the largest difference that passes.
    """

    title: str = ""
    prompt: str = ""
    solution: Any
    cases: Callable
    name: str = ""  # its variable's, from exercises_in
    mistakes: dict = field(default_factory=dict)
    heading: str = ""
    hints: dict[str, str] = field(default_factory=dict)
    why: str = ""
    call: Callable = lambda answer, *case: answer(*case)
    parts: str = ""
    forms: tuple = ()
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
        known = []
        for edit, reply in self.mistakes.items():
            wrong = edit if callable(edit) else with_changes(self.solution, zip(edit[::2], edit[1::2], strict=True))
            known.append(Mistake(name_of(edit), wrong, reply, self.heading))
        for form, row in product((self.solution, *self.forms), MISTAKES):
            source = source_of(form)
            edits = [(".T", ".mT"), *row.edits] if ".T" in source else row.edits
            if all(old in source.replace(".T", ".mT") for old, _ in row.edits):
                known.append(Mistake(row.name, with_changes(form, edits), row.reply, row.heading))
        return known

    @cached_property
    def expected(self):
        """What the solution does with each of the inputs."""
        return self.outcomes(self.solution)

    @cached_property
    def mistaken(self):
        """The known mistakes that make a difference by which they can be told, each with what it does."""
        pairs = []
        for mistake in self.known_mistakes:
            outcomes = self.outcomes(mistake.wrong)
            fault = self.first_difference(outcomes, self.expected)
            if fault and (not mistake.reply or is_evidence(outcomes, self.expected, self.tolerance)):
                pairs.append((mistake._replace(reply=mistake.reply or fault), outcomes))
        return pairs

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
            right, text, hint = self._judge(answer)
        if right:
            self.right_answer = answer
            return Reply(True, f"✓ **Right.** {text} {record.note(self.name)}".strip())
        verdict = "**Not attempted yet.**" if right is None else "✗ **Not yet.**"
        others = tuple(each for each in self.hints.values() if each != hint)
        return Reply(right, f"{verdict} {text}" + (f"\n\nHint: {hint}" if hint else ""), others)

    def or_ours(self, answer):
        """The answer if it's the one that was right in this kernel, and the solution otherwise. Errors: none."""
        if answer is self.right_answer:
            return answer
        if answer is not self.last_checked:
            print(f"This uses our {self.answer_name}, because its check hasn't run on yours as it is now.")
        return self.solution

    def _judge(self, answer):
        """Whether an answer is right (None: not attempted), what to say, and the hint that fits, or ""."""
        if is_stub(answer, self.stub, self.answer_name):
            what_to_do = "Write" if "..." in self.stub else "Fix"
            return None, f"{what_to_do} `{self.answer_name}` above, then run this cell again.", ""
        if not callable(answer):
            return False, f"`{self.answer_name}` must be a function or class, and is {type(answer).__name__}.", ""
        given = self.outcomes(answer)
        fault = self.first_difference(given, self.expected)
        if not fault:
            return True, f"Checked on {len(given)} inputs. {self.moral}".strip(), ""
        unread, of_page = seen.unused(answer, self.solution)
        if not of_page and (mistake := self._mistake_of(given)):
            return False, joined(unread, mistake.said), ""
        about = next((outcome.about for outcome in given if outcome.fault), None)
        if of_page or about is not None or fault.startswith(CLEAR):
            return False, joined(unread, of_page, fault), self.hints.get(about, "")
        origin, how = seen.origin(given, self.expected), common_pattern(given, self.expected, self.tolerance)
        how_far, about = seen.steps(self.hints, given, self.expected, self.tolerance)
        if origin and how_far.startswith("Nothing"):
            how_far, about = "", ""
        if how.endswith("are right."):  # only a shape or a type isn't
            about = ""
        return False, joined(unread, fault, origin, how, how_far), self.hints.get(about, "")

    def inputs(self):
        """The arguments of each call, as tuples: drawn again, and the same ones each time."""
        with keep_state(None):
            first, second = (list(self.cases(torch.Generator().manual_seed(seed))) for seed in SEEDS)
        return first + second if difference(first, second, 0.0) else first

    def outcomes(self, answer):
        """What an answer does with each of the inputs, each with a seed of its own; only the first call prints."""
        outcomes = []
        for before, case in zip(self.inputs(), self.inputs(), strict=True):
            value = error = None
            with keep_state(None), redirect_stdout(io.StringIO()) if outcomes else nullcontext():
                torch.default_generator.manual_seed(seed := 1000 + len(outcomes))
                with seen.Watch(Exercise.outcomes) as watch, seen.own_variables(self.solution) as variables:
                    try:
                        value = self.call(answer, *case)
                    except Exception as raised:
                        error = raised
                seeds = seed, torch.initial_seed()
            value, fault, about = value if isinstance(value, Seen) else (value, "", "")
            parts = self.parts.split() if isinstance(value, (tuple, list)) else []
            value = dict(zip(parts, value, strict=True)) if parts and len(parts) == len(value) else value
            outcomes.append(
                Outcome(value, error, before, case, " ".join(fault.split()), about, seeds, watch.made, variables)
            )
        return outcomes

    def first_difference(self, given, expected):
        """What the first call that went wrong shows, and how to get its input, in words, or ""."""
        for n, (got, right) in enumerate(zip(given, expected, strict=True)):
            if found := find_fault(right, got, self.tolerance):
                return f"{found} This was on input {n + 1} of {len(given)}, `practice.{self.name}.inputs()[{n}]`."
        return ""

    def _mistake_of(self, given):
        """The first known mistake that does what was given, or None.

        If none does in every call, then in those that ask for no error: people who make a mistake may forget the error.
        """
        for calls in [True] * len(given), [right.error is None for right in self.expected]:
            got, right = list(compress(given, calls)), list(compress(self.expected, calls))
            if not is_evidence(got, right, self.tolerance):
                return None
            for mistake, outcomes in self.mistaken:
                if same_outcomes(compress(outcomes, calls), got, right, self.tolerance):
                    return mistake
        return None

    def wrong_ways(self):
        """What the check replies to each of the known mistakes, as a table. Errors: none."""
        rows = ["| {} | {} |".format(*(part.replace("|", "\\|") for part in m[::2][:2])) for m, _ in self.mistaken]
        return Reply(None, "\n".join(["| what's different | the check says |", "| --- | --- |", *rows]))


__all__ = ["Exercise", "Progress", "Reply", "Seen", "exercises_in", "normal", "verdict_of"]

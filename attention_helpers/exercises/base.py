"""Exercises that answer back: a check says what is right, or names the mistake that was made, and never the answer.

A check runs the learner's function on inputs of several sizes, beside the solution. Where the two differ, it runs the
known wrong solutions too: if one of them gives what the learner's function gives, that is the mistake.
"""

import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from . import record
from .compare import changed_input, difference, error_in_words, message
from .keeping import Kept
from .reply import Progress, Reply
from .running import Outcome, as_shipped, compiled, interrupted, kept_random_state, outcome, own_line, same_code

SEED = 20


@dataclass(frozen=True)
class Misconception:
    """A mistake that people make: its name, a wrong solution that has it, and what to say to someone who has it."""

    name: str
    wrong: Any
    says: str


def call_directly(answer, *case):
    return answer(*case)


@dataclass
class Exercise:
    """One exercise. Shapes: those of its prompt.

    title, prompt: what the notebook asks, in Markdown. solution: a function or class that passes.
    cases(generator): the arguments of several calls, the same each time, as a list of tuples; random ones are drawn
    from the generator.
    call(answer, *case): how an answer is used; it returns tensors, numbers, strings, or tuples of them.
    misconceptions: at least three. hints: from gentle to plain. why: what makes the solution right, for those who
    look it up. moral: what to say to someone who is right.
    stub: the text that the notebook ships for the learner to fill in or mend; by default the solution's head.
    as_text: the learner's answer is a string of Python that defines the solution's name, to be mended as a text.
    rows_sum_to_one: say so when the learner's rows do not. tolerance: largest difference that passes.
    """

    name: str
    title: str
    prompt: str
    solution: Any
    cases: Callable
    misconceptions: list[Misconception]
    hints: list[str]
    why: str
    call: Callable = call_directly
    moral: str = ""
    stub: str = ""
    as_text: bool = False
    rows_sum_to_one: bool = False
    tolerance: float = 1e-5
    right_here: bool = field(default=False, init=False)  # once, in this kernel

    def __post_init__(self):
        self.answer_name = self.solution.__name__
        self.stub = textwrap.dedent(self.stub).strip() or stub_of(self.solution)

    @property
    def done(self):
        """Whether an answer was right once, in this kernel or, in a workbook, in any (see `record`)."""
        return self.right_here or self.name in record.done()

    @property
    def cell(self):
        """The notebook's cell: the stub, and the check under it."""
        answer = f"my_{self.name}" if self.as_text else self.answer_name
        text = f'{answer} = """\n{self.stub}\n"""' if self.as_text else self.stub
        return f"{text}\n\n\npractice.{self.name}.check({answer})"

    def check(self, answer):
        """Judge a learner's answer: a function or class, or a text if the exercise ships one.

        What the answer leaves changed (see `keeping`) is put back and named. That alone makes no answer wrong: what was
        asked for is what it returns, and the next cell finds all as it was. What it prints shows for the first case.
        Errors: none, whatever the answer does, but KeyboardInterrupt where the learner stops the check.
        """
        kept = Kept()
        try:
            with kept_random_state():
                right, text = self._judge(answer, kept.put_back)
        except KeyboardInterrupt as error:
            raise interrupted(error, answer, kept.said) from None
        except BaseException as error:  # an object that fails wherever it is looked at
            right, text = False, f"What you passed cannot be judged: {error_in_words(error)}."
        finally:
            kept.put_back()
        text = " ".join([text, *kept.said])
        if not right:
            verdict = "**Not attempted yet.**" if right is None else "✗ **Not yet.**"
            return Reply(right, f"{verdict} {text}", tuple(self.hints))
        self.right_here = True
        return Reply(right, f"✓ **Right.** {text} {record.note(self.name)}".strip())

    def wrong_ways(self):
        """What the check says to each of the known mistakes, as a table. Errors: none."""
        with kept_random_state():
            says = [self._judge(misconception.wrong)[1].replace("|", "\\|") for misconception in self.misconceptions]
        rows = [f"| {m.name} | {text} |" for m, text in zip(self.misconceptions, says, strict=True)]
        return Reply(None, "\n".join(["| who … | is told |", "| --- | --- |", *rows]))

    def _judge(self, answer, afterwards=lambda: None):
        """Whether an answer is right (None: untouched), and what to say. afterwards: done after each of its calls."""
        if self._is_untouched(answer):
            what_to_do = "Write" if "..." in self.stub else "Mend"
            return None, f"{what_to_do} `{self.answer_name}` above, then run this cell again."
        if isinstance(answer, str) and self.as_text:
            made = outcome(compiled, answer, (self.answer_name,), afterwards)
            if made.error is not None:
                return False, own_line(made.error, None)
            answer = made.value
        if not callable(answer):
            return False, f"`{self.answer_name}` must be a function or class, and is {type(answer).__name__}."
        given, right = self._outcomes(answer, afterwards), self._outcomes(self.solution)
        finding = self._first_difference(given, right, answer)
        if finding is None:
            return True, f"Checked on {len(given)} {self._kind_of_inputs()}. {self.moral}".strip()
        mistake = self._mistake(given, right)
        return False, mistake.says if mistake else finding

    def _is_untouched(self, answer):
        if isinstance(answer, str):
            return answer.strip() == self.stub
        return answer is None or answer is ... or same_code(answer, as_shipped(self.stub, self.answer_name))

    def _cases(self):
        return self.cases(torch.Generator().manual_seed(SEED))

    def _outcomes(self, answer, afterwards=lambda: None):
        answer = compiled(answer, self.answer_name) if isinstance(answer, str) else answer
        cases = enumerate(self._cases())
        return [outcome(self.call, answer, case, afterwards, prints=number == 0) for number, case in cases]

    def _kind_of_inputs(self):
        generator = torch.Generator().manual_seed(SEED)
        before = generator.get_state()
        self.cases(generator)
        return "inputs" if torch.equal(before, generator.get_state()) else "random inputs"

    def _first_difference(self, given, right, answer):
        """What the first call that went wrong shows, in words, or None."""
        for fresh, got, expected in zip(self._cases(), given, right, strict=True):
            finding = self._difference(expected, got, fresh, answer)
            if finding:
                return f"{finding} This was with {self._in_words(fresh)}."
        return None

    def _difference(self, expected, got, fresh, answer):
        if got.error is not None and expected.error is None:
            return own_line(got.error, answer)
        if expected.error is not None:
            kind = type(expected.error).__name__
            if got.error is None:
                return f"This call should end in a {kind}, and it returned something."
            if not isinstance(got.error, type(expected.error)):
                return f"Not the {kind} that was asked for: {own_line(got.error, answer)}"
            return "" if message(got.error) else f"The {kind} is right. Let it say what is wrong: its message is empty."
        names = self._names(fresh)
        asked = changed_input(names, fresh, expected.case)
        changed = "" if asked else changed_input(names, fresh, got.case)
        return changed or difference(expected.value, got.value, self.tolerance, rows=self.rows_sum_to_one)

    def mistake_of(self, answer):
        """The misconception whose wrong solution gives what the answer gives in every call, or None.

        Errors: those of a text that does not define the answer.
        """
        with kept_random_state():
            return self._mistake(self._outcomes(answer), self._outcomes(self.solution))

    def _mistake(self, given, right):
        for misconception in self.misconceptions:
            wrong = self._outcomes(misconception.wrong)
            if self._alike(wrong, given, right) and not self._alike(wrong, right, right):
                return misconception
        return None

    def _alike(self, ones, others, right):
        three = zip(ones, others, right, strict=True)
        return all(one.alike(other, self.tolerance, asked.error) for one, other, asked in three)

    def _names(self, case):
        """A name for each argument of a case: the one that the solution, or `call`, gives it."""
        names = [*inspect.signature(self.solution).parameters]
        if self.call is not call_directly:
            names = [*inspect.signature(self.call).parameters][1:]
        names += names[-1:] * (len(case) - len(names))  # of *values, which take several
        return names[: len(case)]

    def _in_words(self, case):
        named = zip(self._names(case), case, strict=True)
        return ", ".join(f"{name} {in_words(value)}" for name, value in named)


def in_words(value):
    """An argument in a few words: a tensor by its shape."""
    if isinstance(value, torch.Tensor):
        return f"of shape {tuple(value.shape)}"
    if isinstance(value, torch.nn.Module):
        return f"a {type(value).__name__}"
    if isinstance(value, torch.Generator):
        return "a generator"
    return f"a list of {len(value)}" if isinstance(value, (list, tuple)) else f"= {value!r}"


def stub_of(function):
    """A function's head, what its docstring says, and a place to write."""
    head = re.match(r"def .*?:\n", textwrap.dedent(inspect.getsource(function)), flags=re.S).group()
    doc = textwrap.indent(f'"""{inspect.getdoc(function)}"""', "    ")
    return f"{head}{doc}\n    ...  # your code"


__all__ = ["Exercise", "Misconception", "Outcome", "Progress", "Reply"]

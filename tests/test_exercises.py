"""The exercises: solutions pass, known mistakes are named, checks change no kernel, notebooks ship them untouched."""

import inspect
import re
import textwrap
import time
import timeit
from functools import cache, wraps

import pytest
import torch
from course import FOLDER, LESSONS, printed_in, read

from attention_course.exercises import MODULES, practice
from attention_course.exercises.base import name_of
from attention_course.exercises.compare import difference
from attention_course.exercises.seen import functions_in

PRACTICE = {number: practice(number) for number in MODULES}
ALL = [pytest.param(e, number, id=f"{number}-{e.name}") for number, each in PRACTICE.items() for e in each.EXERCISES]
each_exercise = pytest.mark.parametrize(("exercise", "number"), ALL)


def test_every_lesson_has_a_module_and_each_exercises_name_is_there_once():
    """Progress is kept under the exercise's name."""
    assert [path.name[:2] for path in LESSONS] == [*MODULES]
    names = [exercise.values[0].name for exercise in ALL]
    assert len(set(names)) == len(names)


@each_exercise
def test_a_check_knows_right_from_every_known_wrong(exercise, number, monkeypatch):
    """The solution passes, and each known mistake gets its own reply."""
    random_state = torch.get_rng_state()
    reply = exercise.check(exercise.solution)
    assert reply.right is True, reply.text
    assert timeit.timeit(lambda: exercise.check(exercise.solution), timer=time.process_time, number=1) < 1
    # A check whose own code failed for every answer alike would call all of them right.
    errors = {type(outcome.error) for outcome in exercise.expected}
    assert type(None) in errors
    assert errors <= {type(None), ValueError, AssertionError}
    monkeypatch.setattr(exercise, "outcomes", cache(exercise.outcomes))  # so that each runs once
    own = {name_of(edit) for edit in exercise.mistakes}
    assert own <= {mistake.name for mistake, _ in exercise.mistaken}
    assert len(exercise.mistaken) >= 3
    for mistake, _ in exercise.mistaken:
        reply = exercise.check(mistake.wrong)
        assert reply.right is False
        assert mistake.name not in own or mistake.reply in reply.text, mistake.name
    assert torch.equal(torch.get_rng_state(), random_state)


def anchors_of(number):
    """The headings of a lesson, as links name them."""
    path = next(path for path in LESSONS if path.name[:2] == number)
    lines = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown").splitlines()
    return {line.lstrip("# ").replace(" ", "-") for line in lines if line.startswith("#")}


@each_exercise
def test_each_reply_leads_to_a_heading(exercise, number):
    for heading in {exercise.heading, *(mistake.heading for mistake in exercise.known_mistakes)}:
        assert heading.partition("#")[2] in anchors_of(heading[:2]), heading


def from_a_cell(solution):
    """As it's typed in a notebook."""
    names = {**vars(inspect.getmodule(solution)), "__name__": "__main__"}
    exec(textwrap.dedent(inspect.getsource(solution)), names)
    return names[solution.__name__]


def mapped(value, change):
    return type(value)(mapped(part, change) for part in value) if isinstance(value, (tuple, list)) else change(value)


def with_results(solution, change):
    return lambda *arguments, **named: mapped(solution(*arguments, **named), change)


def on_copies(solution):
    return lambda *arguments: solution(*(each.clone() if torch.is_tensor(each) else each for each in arguments))


def spread(value):
    """The same tensor, but that its numbers aren't next to each other in memory."""
    return torch.stack((value, value), dim=-1)[..., 0] if torch.is_tensor(value) else value


FORMS = [
    from_a_cell,
    on_copies,
    lambda solution: with_results(solution, spread),
    lambda solution: with_results(solution, lambda value: value.clone() if torch.is_tensor(value) else value),
    lambda solution: with_results(solution, lambda value: torch.tensor(value) if isinstance(value, bool) else value),
]


@each_exercise
def test_hints_come_in_the_order_of_the_steps(exercise, number):
    codes = [function.__code__ for function in functions_in(exercise.solution)]
    steps = [name for code in codes for name in code.co_varnames[code.co_argcount :]]
    hinted = [name for name in exercise.hints if name in steps]
    if not exercise.parts:
        assert hinted == sorted(hinted, key=steps.index)
    assert "result" not in [*exercise.hints][:-2]


@each_exercise
def test_a_right_answer_passes_in_whatever_form(exercise, number):
    for form in FORMS[:2] if inspect.isclass(exercise.solution) else FORMS:
        reply = exercise.check(form(exercise.solution))
        assert reply.right, reply.text


def without_argument(solution, n):
    """It takes the argument of its first call each time."""
    first = []

    def answer(*arguments):
        first.append(arguments[n])
        return solution(*arguments[:n], first[0], *arguments[n + 1 :])

    return answer


@each_exercise
def test_an_answer_that_ignores_an_argument_never_passes(exercise, number):
    for n, name in enumerate(inspect.signature(exercise.solution).parameters):
        assert exercise.check(without_argument(exercise.solution, n)).right is False, name


def slightly_off(answer):
    """The same answer, but that its tensors and numbers that aren't whole are 0.2% too large."""

    def off(part):
        if isinstance(part, (tuple, list)):
            return type(part)(map(off, part))
        return part * 1.002 if isinstance(part, float) or (torch.is_tensor(part) and part.is_floating_point()) else part

    return wraps(answer, updated=())(lambda *arguments, **named: off(answer(*arguments, **named)))


@each_exercise
def test_a_check_is_exact(exercise, number):
    """No tolerance that passes float16 or rounded numbers, which would hide a wrong factor."""
    answer = slightly_off(exercise.solution)
    both = zip(exercise.outcomes(exercise.solution), exercise.outcomes(answer), strict=True)
    if any(difference(right.value, off.value, 1e-9) for right, off in both):
        assert exercise.check(answer).right is False


@each_exercise
def test_what_an_exercise_says_to_two_decimals_is_printed_on_its_page(exercise, number):
    there = printed_in(next(path for path in LESSONS if path.name[:2] == number))
    texts = [
        exercise.prompt,
        exercise.why,
        *exercise.hints.values(),
        *(mistake.reply for mistake in exercise.known_mistakes),
    ]
    for said in re.findall(r"(?<![\d.,])\d+\.\d{2,}(?!\d)", " ".join(texts)):
        assert said in there | {f"{float(each):.{len(said.partition('.')[2])}f}" for each in there}, said


@each_exercise
def test_someone_who_jumps_to_an_exercise_needs_no_other_cell(exercise, number):
    """Its cell runs alone and says that it's a stub; what it imports is enough for the solution."""
    from tools.notebooks import place_exercises  # its nbformat costs a moment

    names = {}
    definition, check = place_exercises.code_of(exercise, number).rsplit("\n", 1)
    exec(compile(definition, "<cell>", "exec"), names)
    assert eval(check, names).right is None
    exec(textwrap.dedent(inspect.getsource(exercise.solution)), names)
    assert eval(check, names).right is True


def test_the_notebooks_hold_the_exercises_as_they_are():
    """Lessons and solutions hold what tools/notebooks/place_exercises.py would write: else, make exercises."""
    from tools.notebooks import place_exercises  # its nbformat costs a moment

    for path in LESSONS:
        number = path.name[:2]
        cells, names = read(path).cells, [exercise.name for exercise in PRACTICE[number].EXERCISES]
        turns = place_exercises.turns_in(cells)
        assert names[: len(turns)] == turns
        held = [(c.cell_type, c.source) for c in cells if c.id.startswith("exercise")]
        assert held == list(place_exercises.lesson_cells(number, turns))
        held = [(c.cell_type, c.source) for c in cells if c.id.startswith("turn-")]
        assert held == [cell[1:] for name in turns for cell in place_exercises.turn_cells(number, name)]
        cells = read(FOLDER / "solutions" / f"{number}_solutions.ipynb").cells
        assert [(c.cell_type, c.source) for c in cells] == list(place_exercises.solution_cells(number))


@pytest.mark.slow
@each_exercise
def test_machine_made_mutants_are_caught(exercise, number):
    """All but a few: no input can tell some of them from the solution."""
    from tools import mutants

    total, lived = mutants.survivors(exercise, every=3)
    assert total > 5
    assert len(lived) <= 1 + 0.08 * total, lived


def kernel():
    """What the next cell could find changed."""
    return torch.get_rng_state().tolist(), torch.is_grad_enabled(), torch.get_default_dtype()


def careless(answer):
    """An answer that also changes what it's given and what torch does next."""

    @wraps(answer, updated=())
    def changes_much(*arguments, **named):
        result = answer(*arguments, **named)
        torch.manual_seed(7)
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        for argument in arguments:
            parts = argument.eval().parameters() if isinstance(argument, torch.nn.Module) else [argument]
            for part in filter(torch.is_tensor, parts):
                part.detach().zero_()
        return result

    return changes_much


@pytest.mark.parametrize(("exercise", "number"), ALL[::4])
def test_no_check_changes_the_kernel(exercise, number):
    before = kernel()
    for answer in careless(exercise.solution), exercise.solution:
        reply = exercise.check(answer)
        assert kernel() == before
    assert reply.right  # whatever the careless one did
    exercise.wrong_ways()
    assert kernel() == before

"""The exercises: solutions pass, every known mistake is named, and the notebooks ship them untouched."""

import importlib
import inspect
import shutil
import textwrap
import time
import timeit
from functools import partial
from itertools import chain
from types import SimpleNamespace

import pytest
import torch
from course import FOLDER, LESSONS, read

from attention_course.exercises import NUMBERS

PRACTICE = {number: importlib.import_module(f"attention_course.exercises.lesson_{number}") for number in NUMBERS}
ALL = [pytest.param(e, id=f"{number}-{e.name}") for number, practice in PRACTICE.items() for e in practice.EXERCISES]
each_exercise = pytest.mark.parametrize("exercise", ALL)

# What only this mistake's reply says, for each mistake in its exercise's order: two exchanged replies are noticed.
SAYS = {
    "one_query": "negative, positive, are right, by the sum, entry by entry, cosines, root, context, distances",
    "contexts_at_once": "columns, raw, negative, average with, next notebook, compare features, together",
    "read_the_digit": "first token, four, divide, letters, slice, raw, too late, is right, The digits, three of, own",
    "softmax_that_survives": "divided by inf, Almost, columns, same maximum, equal weights, small number",
    "keys_by_hand": "`B 1`, blurred, subtract 1, row after, adds to, digits change, transposed, three letters",
    "weights_that_are_scaled": "itself, plain, multiply, tokens, a 2, transposed, columns, no longer, brackets, "
    "scaled scores",
    "step_by_hand": "slope, grad_fn, caller, one number, the rate, itself",
    "weights_into_v1": "You copy, You use, reshaping, memory, created",
    "hide_the_future": "diagonal too, still, the past, False, e^0, sign, already, paper, copy, -100, by 100, Your col",
    "find_leaks": "rows after, token itself, all the wrong, only the last",
    "mend_the_leak": "itself, past is hidden, gets scores, shorter, sum to 1, scaling",
    "window_mask": "too many, too few, upside down, as back, Nothing, is open, causal mask",
    "a_random_mask": "as in a causal, draw < p, draw > p, float32, normal, per row, per column",
    "dropout_by_hand": "didn't grow, Every weight, You divide by p, survivors shrink, where `keep`, this mask, its sum",
    "dropout_in_its_place": "masked. Minus, of 0 isn, sums, hide any, columns, is dropped, the values, text v, zeros",
    "how_far_rows_stray": "twice, without scaling, means of the squares, standard deviation, weights of a row",
    "heads_side_by_side": "batch, sentences, the heads. Which, fourth, add, average, one before, take turns, the list",
    "width_from_heads": "too wide, single head, rounds",
    "parameters_of_heads": "single head, one matrix, besides, with biases, one per head, one head only, masks",
    "two_lookups": "close together, both letters, Both heads, wrong order, queries and keys, multiply the "
    "values, return their letters",
    "splitting": "first tokens, head_dim parts, take turns, are transposed, matrix of its own, complains",
    "merging": "you read, refuses, exchange, never copies, take turns, add, average",
    "transplanting": "head's rows, then transpose, three matrices, at random, of ones, its bias, `qkv_bias`, weights "
    "of the queries, reversed",
    "repair": "nothing hidden, Nothing leaks, a second softmax, nobody uses, rows, removed, width of `x`, d_out",
    "from_an_empty_cell": "root, the scale, leaks, score of 0, the past, never cut, fewer tokens, columns, counts the "
    "heads, view straight, change places, side by side",
    "map_to_come": "different symbol, answer's digit, share, for every token, positions, softmax",
    "one_training_step": "never forget, Forgetting after, before this batch, after `zero_grad`, nothing moves the, no "
    "gradients, after the step. When, graph",
    "control_run": "the original one, whole pairs, move the letters, one order, other sentences, other way round, "
    "overwrite, follow, shuffle",
    "too_few_heads": "both values, column, heads alternate, between the answers, either position, both answers, per "
    "sentence, single number",
    "cut_the_future": "the past, last token of the prefix, rounded, token id 0, only the last token, only the first, "
    "most likely, average",
    "how_much_too_low": "each time, token id 0, all positions, last position, one character at a time, last target, "
    "after next, sign, That's the honest loss., sum, `range`",
    "shifted_targets": "are the inputs, by itself, tokens before, two tokens, first. Which, overlap, carries, "
    "leave out",
    "counting": "each term, score matrices, for one head, all FLOPs, one more product, stop at the heads, half, only "
    "the pairs, in between, queries meets, one sentence, adding the bias, where d_in is d_out, besides its matrix, "
    "bias for all",
    "step_with_cache": "key 0, looks at the cache, old cache, sees itself, counts the heads, width of a head, Without "
    "`dim`, comes before, changed places, context is 0, go into softmax as they are, twice, root of d_out, over "
    "dimension 2",
    "block_by_block": "still belong, sum of exponentials, weighted sum of values when, a different maximum, last "
    "block only, NaN from, starts at 0, small scores, count the same, three blocks, when the next, weighted sum of "
    "the values is, keep the blocks, second loop",
    "block_again": "which never saw, first block, scaled scores, own sum, been divided, not by the sum, own key",
    "turning": "clockwise, half-split, same angle, Which sign, too fast, count the rows, first entry",
    "scaled_frequencies": "every frequency, keep the slow, radians, above 1, a jump, wavelengths",
    "mended_window": "trim, see too much, see one too many, after them, -0:, for ever, keeps one token",
    "absorbed_matrices": "√d_latent, d_key itself, aren't scaled, as they came, that you return, over the heads, "
    "average of the latents",
    "overwriting": "comes twice, before it has decayed, new pair has, Nothing fades, complete difference, only "
    "decays, only the value, twice the old, this token adds, row per entry",
    "left_padding": "right padding, gradients, see the zeros, own future, hide the rows, upside down",
    "distance_bias": "divided by the root, 6 heads, add slope, the future, aren't scaled",
    "previous_token": "number of all tokens, to itself, everywhere, add up, largest, average over layers, column 0",
    "induction": "duplicate-token, too far back, too early, just before, number of all tokens, add up, everywhere",
    "shared_keys": "in turn, All your, average, How many query heads, last KV head, of all heads, too sharp, "
    "columns, the future",
    "ablating": "whole tokens, head before, keep these, first number of, every num_heads-th, remove",
    "placing": "different outputs, side by side, returns nothing, complete `x`",
    "merging_blocks": "average the two, already, until the, lacks it, other's share, multiplies",
    "zigzagging": "computes most, both kinds, doesn't exist",
    "sending": "nobody, each time, go round, if the split is by tokens, if the split is by heads, Twice",
}


def test_every_lesson_has_exercises_and_each_name_is_there_once():
    """Progress is kept under the exercise's name."""
    assert [path.name[:2] for path in LESSONS] == NUMBERS
    names = [exercise.values[0].name for exercise in ALL]
    assert len(set(names)) == len(names)
    assert all(practice.EXERCISES for practice in PRACTICE.values())


@each_exercise
def test_a_check_knows_right_from_every_known_wrong(exercise):
    """The solution passes, and each known mistake gets its own reply."""
    random_state = torch.get_rng_state()
    reply = exercise.check(exercise.solution)
    assert reply.right is True, reply.text
    assert exercise.done
    check = partial(exercise.check, exercise.solution)
    assert min(timeit.repeat(check, timer=time.process_time, number=1, repeat=2)) < 1  # a machine may halt in one
    known = exercise.known_mistakes
    assert len(known) >= 3
    for mistake in known:
        assert exercise.check(mistake.wrong)[:2] == (False, f"✗ **Not yet.** {mistake.reply}"), mistake.name
    assert torch.equal(torch.get_rng_state(), random_state)


@each_exercise
def test_each_reply_is_that_of_its_mistake(exercise):
    known = exercise.known_mistakes
    for mistake, words in zip(known, SAYS[exercise.name].split(", "), strict=True):
        assert [each.name for each in known if words in each.reply] == [mistake.name], words


@each_exercise
def test_a_solution_fails_only_where_the_prompt_asks_for_an_error(exercise):
    """A check whose own code failed for every answer alike would call all of them right."""
    errors = [type(outcome.error) for outcome in exercise.outcomes(exercise.solution)]
    assert type(None) in errors
    assert {*errors} <= {type(None), ValueError, AssertionError}


LESSON_OF = {exercise.name: number for number, practice in PRACTICE.items() for exercise in practice.EXERCISES}


@each_exercise
def test_someone_who_jumps_to_an_exercise_needs_no_other_cell(exercise):
    """Its cell runs alone and says that it's a stub; what it imports is enough for the solution."""
    from tools.notebooks import place_exercises  # its nbformat costs a moment

    names = {}
    definition, check = place_exercises.code_of(exercise, LESSON_OF[exercise.name]).rsplit("\n", 1)
    exec(compile(definition, "<cell>", "exec"), names)
    assert eval(check, names).right is None
    if not exercise.as_text:
        exec(textwrap.dedent(inspect.getsource(exercise.solution)), names)
        assert eval(check, names).right is True


@each_exercise
def test_nobody_is_left_without_help(exercise):
    assert len(set(exercise.hints)) == len(exercise.hints) >= 3
    assert exercise.prompt
    assert exercise.why


@each_exercise
def test_cases_are_the_same_each_time_and_fresh(exercise):
    ones, others = exercise.inputs(), exercise.inputs()
    assert len(ones) >= 2
    for one, other in zip(ones, others, strict=True):
        for a, b in zip(one, other, strict=True):
            if isinstance(a, torch.Tensor):
                assert torch.equal(a, b)
                assert a is not b


def test_the_notebooks_hold_the_exercises_as_they_are():
    """Lessons and solutions hold what tools/notebooks/place_exercises.py would write: else, make exercises."""
    from tools.notebooks import place_exercises  # its nbformat costs a moment

    for path in LESSONS:
        number = path.name[:2]
        cells, names = read(path).cells, [exercise.name for exercise in PRACTICE[number].EXERCISES]
        turns = place_exercises.turns_in(cells)
        assert names[: len(turns)] == turns
        held = [(c.cell_type, c.source) for c in cells if c.id.startswith("exercise")]
        assert held == [*chain(*place_exercises.lesson_cells(number, turns))]
        held = [(c.cell_type, c.source) for c in cells if c.id.startswith("turn-")]
        assert held == [cell[1:] for name in turns for cell in place_exercises.turn_cells(number, name)]
        cells = read(FOLDER / "solutions" / f"{number}_solutions.ipynb").cells
        assert [(c.cell_type, c.source) for c in cells] == list(place_exercises.solution_cells(number))


def test_placing_a_lessons_exercises_again_changes_nothing(tmp_path, monkeypatch):
    from tools.notebooks import place_exercises

    lesson = place_exercises.lesson_of("10")  # which has some before and some behind "Going deeper"
    path = shutil.copy(lesson.path, tmp_path / lesson.file)
    placed = SimpleNamespace(path=path, name=lesson.name, file=lesson.file)
    monkeypatch.setattr(place_exercises, "NOTEBOOKS", tmp_path)
    monkeypatch.setattr(place_exercises, "lesson_of", lambda number: placed)
    place_exercises.place("10")
    assert read(path).cells == read(lesson.path).cells  # outputs, too


@pytest.mark.slow
@each_exercise
def test_machine_made_mutants_are_caught(exercise):
    """All but a few: no input can tell some of them from the solution."""
    from tools.mutants import exercise_mutants

    total, lived = exercise_mutants.survivors(exercise)
    assert total > 5
    assert len(lived) <= 1 + 0.14 * total, lived

"""The checks' own behaviour, on an exercise small enough to get wrong in every way."""

import random
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

from attention_helpers.exercises.base import Exercise, Misconception, Progress
from attention_helpers.exercises.compare import changed_input, difference

ONE = torch.ones(1)
ENTRIES = "1 of 2 entries of the result differ"


def halves(x, flip=False):
    """Rows of x (n, d), halved."""
    return x / 2 if not flip else x.flip(0) / 2


def cases(generator):
    return [(torch.randn(n, d, generator=generator), n > 2) for n, d in ((2, 3), (4, 1))]


@pytest.fixture
def exercise():
    wrong = Misconception("doubles", lambda x, flip: 2 * halves(2 * x, flip), "You double.")
    broken = Misconception("divides by nothing", lambda x, flip: x / None, "None is no number.")
    never = Misconception("forgets to flip", lambda x, flip: x / 2, "You do not flip.")
    hints = ["Half.", "Divide.", "`x / 2`"]
    return Exercise(
        "halving", "Halving", "Halve.", halves, cases, [wrong, broken, never], hints, "Because.", moral="Ah."
    )


def test_right(exercise):
    reply = exercise.check(lambda x, flip: 0.5 * (x.flip(0) if flip else x))
    assert reply == (True, "✓ **Right.** Checked on 2 random inputs. Ah.", ())
    assert exercise.done
    assert reply._repr_markdown_() == str(reply) == repr(reply) == reply.text


def test_inputs_that_are_not_drawn_are_not_called_random(exercise):
    exercise.cases = lambda generator: [(torch.ones(n, 2), n > 2) for n in (1, 3, 4)]
    assert exercise.check(halves).text == "✓ **Right.** Checked on 3 inputs. Ah."


def in_place(x, flip):
    return halves(x.mul_(2), flip) / 2


def helper_fails(x, flip):
    return inner(x, flip)


def inner(x, flip):
    raise KeyError("no head 3")


def deep(x, flip):
    return torch.cat([x, torch.ones(99)])


def nan_once(x, flip):
    result = halves(x, flip)
    result[1, 0] = torch.nan
    return result


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda x, flip: x * 2 if not flip else x.flip(0) * 2, "You double."),
        (lambda x, flip: x / None, "None is no number."),
        (lambda x, flip: x * 0.5, "You do not flip."),
        (lambda x, flip: None, r"The result should be a tensor, and is None: is there a `return`\?"),
        (lambda x, flip: 3, r"The result should be a tensor, and is an int\."),
        (lambda x, flip: halves(x, flip).numpy(), "The result should be a tensor, and is a numpy.ndarray"),
        (lambda x, flip: halves(x, flip)[None], r"should have the shape \(2, 3\), and has \(1, 2, 3\)\."),
        (lambda x, flip: halves(x, flip).double(), r"should be of dtype torch.float32, and is of torch.float64\."),
        (nan_once, r"The result is NaN at \[1, 0\], where a number belongs\."),
        (
            lambda x, flip: halves(x, flip) + 1,
            r"6 of 6 entries of the result differ, the first at \[0, 0\]: .* belongs",
        ),
        (in_place, "Your code changes its argument `x` in place: work on a copy"),
        (lambda x: x, r"The call failed, though not in a line of yours: `TypeError`: .*2 were given"),
        (deep, r"Your code stopped in line \d+, `return torch.cat\(\[x, torch.ones\(99\)\]\)`, with `RuntimeError`: "),
        (helper_fails, r"""stopped in line \d+, `raise KeyError\("no head 3"\)`, with `KeyError`: 'no head 3'"""),
        (7, "`halves` must be a function or class, and is int."),
    ],
)
def test_wrong_answers_and_what_is_said(exercise, answer, said):
    reply = exercise.check(answer)
    assert reply.right is False
    assert re.search(said, reply.text), reply.text
    assert reply.text.startswith("✗ **Not yet.** ")
    assert reply.hints == ("Half.", "Divide.", "`x / 2`")
    assert not exercise.done


def test_a_difference_says_with_which_input(exercise):
    reply = exercise.check(lambda x, flip: halves(x, flip) + 1)
    assert "This was with x of shape (2, 3), flip = False." in reply.text
    exercise.call = lambda answer, rows, turn: answer(rows, turn)
    reply = exercise.check(lambda x, flip: halves(x, flip) + 1)
    assert "This was with rows of shape (2, 3), turn = False." in reply.text


@pytest.mark.parametrize("answer", [None, ...])
def test_nothing_is_not_attempted(exercise, answer):
    says = "**Not attempted yet.** Write `halves` above, then run this cell again."
    assert exercise.check(answer) == (None, says, ("Half.", "Divide.", "`x / 2`"))


def test_the_stub_itself_is_not_attempted_and_ends_with_the_check(exercise):
    assert exercise.cell == (
        'def halves(x, flip=False):\n    """Rows of x (n, d), halved."""\n    ...  # your code\n\n\n'
        "practice.halving.check(halves)"
    )
    names = {}
    exec(exercise.stub, names)
    assert exercise.check(names["halves"]).right is None


def test_an_interrupt_goes_through_and_leaves_the_state(exercise):
    def interrupted(x, flip):
        raise KeyboardInterrupt

    exercise.check(exercise.solution)
    state = torch.get_rng_state()
    with pytest.raises(KeyboardInterrupt):
        exercise.check(interrupted)
    assert exercise.done
    assert torch.equal(torch.get_rng_state(), state)


def test_no_random_state_moves(exercise):
    def gambler(x, flip):
        torch.manual_seed(7), random.seed(7), np.random.seed(7)
        return x + torch.rand(()) + random.random() + np.random.rand()

    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    exercise.check(gambler)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert (np.random.get_state()[1] == before[2]).all()


def test_the_learners_own_tensors_stay(exercise):
    mine = torch.ones(2, 2)
    exercise.check(lambda x, flip: x.mul_(0))
    assert torch.equal(mine, torch.ones(2, 2))


def test_rows_that_do_not_sum_to_one():
    check = Exercise("rows", "", "", weights, cases_of_one, [], [], "", rows_sum_to_one=True)
    assert "the rows of the result should sum to 1: row [0] sums to 2.0000." in (
        check.check(lambda x: 2 * x.softmax(-1)).text.lower()
    )


@pytest.mark.parametrize(
    ("expected", "got", "said"),
    [
        (torch.tensor([0.5, 0.5]), torch.tensor([torch.inf, 0.5]), "The result should sum to 1, and sums to inf."),
        (torch.tensor([0.5, 0.5]), torch.tensor([0.5, 1.5]), "The result should sum to 1, and sums to 2.0000."),
        (torch.tensor(1.0), torch.tensor(2.0), "The result differs: 2 where 1 belongs."),
        (
            torch.ones(1, 2, 1),
            torch.ones(1, 2, 1) / 2,
            "The rows of the result should sum to 1: row [0, 0] sums to 0.5000.",
        ),
        (torch.ones(3, 0), torch.ones(3, 0), ""),
        (ONE * 1j, ONE * 2j, "1 of 1 entries of the result differ, the first at [0]: 0+2j where 0+1j belongs."),
    ],
)
def test_a_result_without_rows_gets_no_row_number(expected, got, said):
    assert difference(expected, got, 1e-5, rows=True) == said


def weights(x):
    """Rows that sum to 1."""
    return x.softmax(dim=-1)


def cases_of_one(generator):
    return [(torch.randn(3, 2, generator=generator),)]


def refuses(p):
    """p, below 1."""
    if p >= 1:
        raise ValueError(f"p must be below 1, got {p}")
    return p


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda p: p, "This call should end in a ValueError, and it returned something. This was with p = 2.0."),
        (lambda p: [][1] if p >= 1 else p, "Not the ValueError that was asked for: Your code stopped"),
        (lambda p: float("x") if p < 1 else refuses(p), "with `ValueError`: could not convert"),
        (lambda p: refuses_silently(p), "Let it say what is wrong: its message is empty."),
        (lambda p: refuses_silently(p, Unsayable), "Let it say what is wrong: its message is empty."),
    ],
)
def test_an_error_that_was_asked_for(answer, said):
    exercise = Exercise("refusing", "", "", refuses, lambda g: [(0.5,), (2.0,)], [], [], "")
    assert exercise.check(refuses).right
    reply = exercise.check(answer)
    assert reply.right is False
    assert said in reply.text


def refuses_silently(p, error=ValueError):
    if p >= 1:
        raise error
    return p


class Unsayable(ValueError):
    def __str__(self):
        raise RuntimeError


def test_the_words_of_an_error_that_is_asked_for_do_not_hide_a_mistake():
    def doubled(p):
        if p >= 1:
            raise ValueError("the learner's own words")
        return 2 * p

    mistake = Misconception("doubles", lambda p: 2 * refuses(p), "You double.")
    exercise = Exercise("refusing", "", "", refuses, lambda g: [(0.5,), (2.0,)], [mistake], [], "")
    assert exercise.mistake_of(doubled) is mistake
    assert exercise.mistake_of(lambda p: 2 * p) is None  # it refuses nothing


class Doubled(nn.Module):
    """Twice x."""

    def forward(self, x):
        return 2 * x


@pytest.fixture
def mending():
    stub = "class Doubled(nn.Module):\n    def forward(self, x):\n        return 2 * (x"
    return Exercise(
        "mending",
        "Mending",
        "Mend.",
        Doubled,
        cases_of_one,
        [Misconception("triples", stub.replace("2 * (x", "3 * x"), "You triple.")],
        [],
        "",
        call=lambda answer, x: answer()(x),
        stub=stub,
        as_text=True,
    )


def test_a_text_to_mend(mending):
    assert mending.cell.startswith('my_mending = """\nclass Doubled(nn.Module):')
    assert mending.cell.endswith('"""\n\n\npractice.mending.check(my_mending)')
    names = {}
    exec(mending.cell.rpartition("\n")[0], names)
    shipped = names["my_mending"]
    assert mending.check(shipped).text == "**Not attempted yet.** Mend `Doubled` above, then run this cell again."
    assert mending.check(shipped + "  )").right is True
    assert "You triple." in mending.check(shipped.replace("2 * (x", "3 * x")).text
    assert (
        "Python cannot read line 3, `return 4 * (x`: '(' was never closed."
        in mending.check(shipped.replace("2", "4")).text
    )
    assert (
        "line 3, `return 2 * y`, with `NameError`: name 'y' is not defined"
        in mending.check(shipped.replace("2 * (x", "2 * y")).text
    )
    assert "the text defines no Doubled" in mending.check("class Another: ...").text


def test_a_class_to_mend_that_is_no_text_says_mend_too():
    stub = "class Doubled(nn.Module):\n    def forward(self, x):\n        return 3 * x"
    exercise = Exercise("mending", "", "", Doubled, cases_of_one, [], [], "", call=lambda a, x: a()(x), stub=stub)
    names = {"nn": nn}
    exec(stub, names)
    assert exercise.check(names["Doubled"]).text.startswith("**Not attempted yet.** Mend `Doubled` above")


def test_hints_are_folded_one_inside_the_other(exercise):
    text = exercise.check(lambda x, flip: 3)._repr_markdown_()
    opened = re.findall(r"<details><summary>(.*?)</summary>\n\n(.*?)\n\n", text)
    assert opened == [("Hint 1 of 3", "Half."), ("Hint 2 of 3", "Divide."), ("Hint 3 of 3", "`x / 2`")]
    assert text.endswith("`x / 2`\n\n</details>\n\n</details>\n\n</details>")
    assert text.count("</details>") == 3


def test_a_print_shows_for_the_first_case_alone(exercise, capsys):
    def answer(x, flip):
        print("shape", tuple(x.shape))
        return halves(x, flip)

    assert exercise.check(answer).text == "✓ **Right.** Checked on 2 random inputs. Ah."
    assert capsys.readouterr().out == "shape (2, 3)\n"


def test_wrong_ways_are_a_table(exercise):
    lines = exercise.wrong_ways().text.splitlines()
    assert lines[2:] == ["| doubles | You double. |", "| divides by nothing | None is no number. |", lines[-1]]
    assert lines[-1] == "| forgets to flip | You do not flip. |"


def test_progress_counts_what_was_right_once(exercise):
    progress = Progress([exercise, Exercise("other", "Other", "", halves, cases, [], [], "")])
    assert progress().text == "**0 of 2 done.** ○ Halving · ○ Other"
    exercise.check(halves)
    assert progress().text == "**1 of 2 done.** ✓ Halving · ○ Other"
    exercise.check(lambda x, flip: x)
    assert progress().text.startswith("**1 of 2 done.**")


@pytest.mark.parametrize(
    ("expected", "got", "said"),
    [
        (3, 3.0, ""),
        (3, torch.tensor(3), ""),
        (0.3, 0.3 + 1e-9, ""),
        (1000000.0, 1000000.1, ""),
        (10**9, 10**9 + 1, "The result is 1000000001, and should not be."),
        (1179648, 1769472, "The result is 1769472, and should not be."),
        (1179648, 1769472.0, "The result is 1769472, and should not be."),  # from a division
        (1179648, torch.tensor(1769472), "The result is 1769472, and should not be."),
        (1179648, np.int64(1769472), "The result is 1769472, and should not be."),
        pytest.param(
            3, 10**400, "The result cannot be read: `OverflowError`: int too large to convert to float.", id="10^400"
        ),
        (3, 10 / 3, "The result is 3.33333, and should not be."),
        (0.5, Fraction(1, 3), "The result is 0.333333, and should not be."),
        (0.5, Decimal("0.5"), "The result should be a float, and is a decimal.Decimal."),
        (3, 3 + 0j, "The result should be an int, and is a complex."),
        (3.0, 1j, "The result should be a float, and is a complex."),
        (1j, 1j, ""),
        (1j, 1j + 1e-9, ""),
        (1j, 2j, "The result is 0+2j, and should not be."),
        (3, 4, "The result is 4, and should not be."),
        (True, 1, "The result should be a bool, and is an int."),
        (True, False, "The result is False, and should not be."),
        (1.5, "1.5", "The result should be a float, and is a str."),
        (float("nan"), float("nan"), ""),
        (2.0, float("inf"), "The result is inf, and should not be."),
        ("a", "b", "The result should be another than 'b'."),
        ((ONE, 2), [ONE, 2], ""),
        ((ONE, 2), (ONE, 2, 3), "The result should be 2 things together, and is a tuple of 3."),
        ((ONE, 2), (ONE, 3), "Part 2 of the result is 3, and should not be."),
        ({"a": ONE}, {"a": ONE}, ""),
        ({"a": ONE}, {"b": ONE}, "The result should have the names a."),
        ({"a": ONE}, {"a": 2 * ONE}, "1 of 1 entries of the result's a differ, the first at [0]: 2 where 1 belongs."),
        (ONE > 0, ONE < 0, "1 of 1 entries of the result differ, the first at [0]: False where True belongs."),
        (torch.tensor([1, 2]), torch.tensor([1, 1769472]), f"{ENTRIES}, the first at [1]: 1769472 where 2 belongs."),
        (ONE * 1j, ONE * 1j, ""),
        (ONE * 1j, ONE * 2j, "1 of 1 entries of the result differ, the first at [0]: 0+2j where 0+1j belongs."),
        (ONE, ONE * 1j, "The result should be of dtype torch.float32, and is of torch.complex64."),
        (ONE, ONE.to_sparse(), "The result should be an ordinary tensor, and is of the layout torch.sparse_coo."),
        (ONE, ONE.to("meta"), "The result should be on the device cpu, and is on meta."),
        (
            2.0,
            ONE.to("meta"),
            "The result cannot be read: `RuntimeError`: Tensor.item() cannot be called on meta tensors.",
        ),
        (ONE.sum(), 3 * ONE.sum(), "The result differs: 3 where 1 belongs."),
        (ONE.sum(), torch.nan * ONE.sum(), "The result is NaN, where a number belongs."),
        (torch.ones(0), torch.ones(0), ""),
        (torch.ones(0), torch.ones(1, 0), "The result should have the shape (0,), and has (1, 0)."),
        (torch.tensor(torch.inf), torch.tensor(torch.inf), ""),
        (torch.tensor(torch.nan), torch.tensor(torch.nan), ""),
    ],
)
def test_a_difference_in_words(expected, got, said):
    assert difference(expected, got, 1e-5) == said


def test_a_changed_input_is_found_in_a_list_too():
    assert changed_input("ab", ([ONE], 2), ([ONE + 1], 2)).startswith("Your code changes its argument `a` in place")
    assert changed_input("ab", (2, ONE), (2, ONE + 1e-7)).startswith("Your code changes its argument `b` in place")
    assert changed_input("abc", ([ONE], 2, nn.Linear(1, 1)), ([ONE.clone()], 2, nn.Linear(1, 1))) == ""


def test_an_argument_among_several_under_one_name_has_that_name():
    exercise = Exercise("sums", "", "", sum_of, lambda g: [(ONE.clone(), ONE.clone())], [], [], "")
    assert "changes its argument `parts` in place" in exercise.check(lambda a, b: a + b.mul_(1 / 2) * 2).text


def sum_of(*parts):
    return sum(parts)

"""The checks' own behaviour, on an exercise small enough to get wrong in every way."""

import re

import pytest
import torch
from torch import nn

from attention_helpers.exercises.base import Exercise, Progress
from attention_helpers.exercises.compare import difference

ONE = torch.ones(1)
ENTRIES = "1 of 2 entries of the result differ"
MOST_OF = {"title": "", "prompt": "", "hints": [], "why": ""}


def halves(x, flip=False):
    """Rows of x (n, d), halved."""
    return x / 2 if not flip else x.flip(0) / 2


def cases(generator):
    return [(torch.randn(n, d, generator=generator), n > 2) for n, d in ((2, 3), (4, 1))]


@pytest.fixture
def exercise():
    exercise = Exercise(
        name="halving",
        title="Halving",
        prompt="Halve.",
        solution=halves,
        cases=cases,
        mistakes={
            ("doubles", "/ 2", "* 2"): "You double.",
            "divides by nothing": ...,
            ("forgets to flip", "x.flip(0)", "x"): """
                You don't
                | flip.""",
        },
        hints=["Half.", "Divide.", "`x / 2`"],
        why="Because.",
        moral="Ah.",
    )

    @exercise.mistake
    def divides_by_nothing(x, flip):
        """None is
        no number."""
        return x / None

    @exercise.mistake("halves x's own numbers")
    def in_place(x, flip):
        """The caller still needs x."""
        return x.div_(2) if not flip else x.div_(2).flip(0)

    return exercise


def exercise_of(solution, cases, **fields):
    return Exercise(**MOST_OF | {"name": solution.__name__, "solution": solution, "cases": cases} | fields)


def test_right(exercise):
    reply = exercise.check(lambda x, flip: 0.5 * (x.flip(0) if flip else x))
    assert reply == (True, "✓ **Right.** Checked on 2 random inputs. Ah.", ())
    assert exercise.done
    exercise.cases = lambda generator: [(torch.ones(n, 2), n > 2) for n in (1, 3, 4)]
    assert exercise.check(halves).text == "✓ **Right.** Checked on 3 inputs. Ah."
    assert reply._repr_markdown_() == str(reply) == repr(reply) == reply.text


def changing(x, flip):
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
        (lambda x, flip: x * 0.5, "You don't | flip."),
        (lambda x, flip: x.mul_(0.5).flip(0) if flip else x.mul_(0.5), "The caller still needs x."),
        (lambda x, flip: None, r"The result should be a tensor, but is None: did you forget the `return`\?"),
        (lambda x, flip: halves(x, flip).numpy(), "The result should be a tensor, but is a numpy.ndarray"),
        (lambda x, flip: halves(x, flip)[None], r"should have the shape \(2, 3\), and has \(1, 2, 3\)\."),
        (lambda x, flip: halves(x, flip).double(), r"should be of dtype torch.float32, and is of torch.float64\."),
        (nan_once, r"The result is NaN at \[1, 0\], where a number belongs\."),
        (
            lambda x, flip: halves(x, flip) + 1,
            r"6 of 6 entries of the result differ, the first at \[0, 0\]: .* belongs",
        ),
        (changing, "Your code changes its argument `x` in place: work on a copy"),
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


def filled(rows):
    """Every row becomes 1; there's nothing to return."""
    for row in rows:
        row.fill_(1)


def test_what_changes_in_a_list_of_arguments_is_compared_unless_the_solution_changes_it_too():
    exercise = exercise_of(filled, lambda g: [([ONE / 2, 2 * ONE],)])
    assert exercise.check(lambda rows: [row.fill_(1) for row in rows] and None).right is True
    exercise = exercise_of(sum, lambda g: [([ONE, 2 * ONE],)], stub="def sum(rows):")
    assert "changes its argument" in exercise.check(lambda rows: rows[0] + rows[1] + 0 * rows[1].add_(1e-6)).text


def test_known_mistakes_keep_the_order_of_the_list_and_those_it_lacks_come_last(exercise):
    lines = exercise.wrong_ways().text.splitlines()
    assert lines[2:] == [
        "| doubles | You double. |",
        "| divides by nothing | None is no number. |",
        "| forgets to flip | You don't \\| flip. |",
        "| halves x's own numbers | The caller still needs x. |",
    ]


def test_an_edit_of_a_class_reaches_its_methods_and_leaves_the_class_alone():
    exercise = exercise_of(Doubled, cases_of_one, call=lambda answer, x: answer()(x), stub="class Doubled:")
    exercise.mistakes = {("triples", "2 * x", "3 * x"): "You triple."}

    @exercise.mistake
    class AddsOneToX(Doubled):
        """You add."""

        def forward(self, x):
            return x + 1

    triples, adds = exercise.known_mistakes
    assert (adds.name, adds.wrong) == ("adds one to x", AddsOneToX)
    assert torch.equal(triples.wrong()(ONE), 3 * ONE)
    assert torch.equal(Doubled()(ONE), 2 * ONE)


def test_an_edit_that_is_not_in_the_solution_is_an_error_at_the_first_use():
    exercise = exercise_of(halves, cases, mistakes={("triples", "* 3", "/ 3"): "You triple."})
    assert exercise.check(None).right is None
    with pytest.raises(ValueError, match=r"source of halves, got '\* 3'"):
        exercise.wrong_ways()


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
        torch.set_grad_enabled(False)
        torch.rand(1)
        raise KeyboardInterrupt

    exercise.check(exercise.solution)
    state = torch.get_rng_state()
    with pytest.raises(KeyboardInterrupt):
        exercise.check(interrupted)
    assert exercise.done
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()


def test_what_an_answer_leaves_changed_is_put_back_after_each_call(exercise):
    """So neither the solution nor the learner's next cell meets it."""

    def careless(x, flip):
        assert torch.is_grad_enabled()
        assert torch.ones(1).dtype == torch.float32
        result = halves(x, flip)
        torch.manual_seed(7)
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        torch.set_printoptions(precision=2)
        return result

    state, shown = torch.get_rng_state(), repr(torch.tensor(1 / 3))
    assert exercise.check(careless).right is True
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() == torch.float32
    assert repr(torch.tensor(1 / 3)) == shown


def cases_of_one(generator):
    return [(torch.randn(3, 2, generator=generator),)]


@pytest.mark.parametrize(
    ("expected", "got", "said"),
    [
        (torch.tensor([0.5, 0.5]), torch.tensor([0.5, 1.5]), "The result should sum to 1, and sums to 2.0000."),
        (
            torch.ones(1, 2, 1),
            torch.ones(1, 2, 1) / 2,
            "The rows of the result should sum to 1: row [0, 0] sums to 0.5000.",
        ),
    ],
)
def test_rows_that_do_not_sum_to_one(expected, got, said):
    assert difference(expected, got, 1e-5, rows=True) == said


def refuses(p):
    """p, below 1."""
    if p >= 1:
        raise ValueError(f"p must be below 1, got {p}")
    return p


def refuses_silently(p):
    if p >= 1:
        raise ValueError
    return p


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda p: p, "This call should raise a ValueError, but it returned something. This was with p = 2.0."),
        (lambda p: [][1] if p >= 1 else p, "Not the ValueError that was asked for: Your code stopped"),
        (lambda p: float("x") if p < 1 else refuses(p), "with `ValueError`: could not convert"),
        (refuses_silently, "its message is empty. Let it say what's wrong."),
    ],
)
def test_an_error_that_was_asked_for(answer, said):
    exercise = exercise_of(refuses, lambda g: [(0.5,), (2.0,)])
    assert exercise.check(refuses).right
    reply = exercise.check(answer)
    assert reply.right is False
    assert said in reply.text


def test_the_words_of_an_error_that_is_asked_for_do_not_hide_a_mistake():
    def doubled(p):
        if p >= 1:
            raise ValueError("the learner's own words")
        return 2 * p

    doubles = {("doubles", "return p", "return 2 * p"): "You double."}
    exercise = exercise_of(refuses, lambda g: [(0.5,), (2.0,)], mistakes=doubles)
    assert exercise.check(doubled).text == "✗ **Not yet.** You double."
    assert "You double." not in exercise.check(lambda p: 2 * p).text  # it refuses nothing
    assert "You double." not in exercise.check(lambda p: 2 * p if p < 1 else [][0]).text  # nor does this


class Doubled(nn.Module):
    """Twice x."""

    def forward(self, x):
        return 2 * x


@pytest.fixture
def mending():
    return exercise_of(
        Doubled,
        cases_of_one,
        name="mending",
        mistakes={("triples", "2 * x", "3 * x"): "You triple."},
        call=lambda answer, x: answer()(x),
        stub="class Doubled(nn.Module):\n    def forward(self, x):\n        return 2 * (x",
        as_text=True,
    )


def test_a_text_to_mend(mending):
    assert mending.cell.startswith('my_mending = """\nclass Doubled(nn.Module):')
    assert mending.cell.endswith('"""\n\n\npractice.mending.check(my_mending)')
    names = {}
    exec(mending.cell.rpartition("\n")[0], names)
    shipped = names["my_mending"]
    assert mending.check(shipped).text == "**Not attempted yet.** Fix `Doubled` above, then run this cell again."
    assert mending.check(shipped + "  )").right is True
    for changed, said in (
        ("3 * x", "You triple."),
        ("4 * (x", "Python cannot read line 3, `return 4 * (x`: '(' was never closed."),
        ("2 * y", "line 3, `return 2 * y`, with `NameError`: name 'y' is not defined"),
    ):
        assert said in mending.check(shipped.replace("2 * (x", changed)).text
    assert "the text defines no Doubled" in mending.check("class Another: ...").text


def test_a_class_to_mend_is_not_attempted_until_something_in_it_changes():
    stub = "class Doubled(nn.Module):\n    def forward(self, x):\n        return sum(3 * x for _ in range(1))"
    exercise = exercise_of(Doubled, cases_of_one, call=lambda answer, x: answer()(x), stub=stub)
    for text, right in ((stub, None), (stub.replace("3", "4"), False), (stub.replace("3", "2"), True)):
        names = {"nn": nn}
        exec("\n\n" + text, names)
        assert exercise.check(names["Doubled"]).right is right


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


def test_progress_counts_what_was_right_once(exercise):
    progress = Progress([exercise, exercise_of(halves, cases, title="Other")])
    assert progress().text == "**0 of 2 done.** ○ Halving · ○ Other"
    exercise.check(halves)
    assert progress().text == "**1 of 2 done.** ✓ Halving · ○ Other"
    exercise.check(lambda x, flip: x)
    assert progress().text.startswith("**1 of 2 done.**")


@pytest.mark.parametrize(
    ("expected", "got", "said"),
    [
        (3, 3.0, ""),
        (10**9, 10**9 + 1, "The result is 1000000001; it shouldn't be."),
        (1179648, 1769472.0, "The result is 1769472; it shouldn't be."),  # from a division
        (True, 1, "The result should be a bool, but is an int."),
        (float("nan"), float("nan"), ""),
        ("a", "b", "The result should be another than 'b'."),
        ((ONE, 2), (ONE, 2, 3), "The result should be 2 things together, but is a tuple of 3."),
        ((ONE, 2), (ONE, 3), "Part 2 of the result is 3; it shouldn't be."),
        ({"a": ONE}, {"b": ONE}, "The result should have the names a."),
        ({"a": ONE}, {"a": 2 * ONE}, "1 of 1 entries of the result's a differ, the first at [0]: 2 where 1 belongs."),
        (ONE > 0, ONE < 0, "1 of 1 entries of the result differ, the first at [0]: False where True belongs."),
        (torch.tensor([1, 2]), torch.tensor([1, 1769472]), f"{ENTRIES}, the first at [1]: 1769472 where 2 belongs."),
        (ONE.sum(), 3 * ONE.sum(), "The result differs: 3 where 1 belongs."),
        (torch.tensor(torch.nan), torch.tensor(torch.nan), ""),
        (nn.Linear(1, 1), nn.ReLU(), "The result should be a Linear, but is a ReLU."),
    ],
)
def test_a_difference_in_words(expected, got, said):
    assert difference(expected, got, 1e-5) == said

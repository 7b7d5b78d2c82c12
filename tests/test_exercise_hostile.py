"""No answer gets an error out of a check, and none leaves the learner's next cell another world."""

import functools
import math
import os
import re
import signal
import sys
import traceback

import pytest
import torch
from needs import needs_alarm
from torch import nn

from attention_helpers.exercises.base import Exercise, Misconception
from attention_helpers.exercises.keeping import Kept


def halves(x):
    """x (n, 2), halved."""
    return x / 2


def cases(generator):
    return [(torch.randn(n, 2, generator=generator),) for n in (1, 3)]


def exercise_of(solution=halves, **fields):
    mistakes = [Misconception("raises", raising(HostileError()), "You raise.")]
    return Exercise("halving", "", "", solution, cases, mistakes, [], "", **fields)


def said_to(answer, **fields):
    reply = exercise_of(**fields).check(answer)
    assert reply.right is False
    return reply.text.removeprefix("✗ **Not yet.** ")


class Hostile(list):
    """Raises wherever it is looked at."""

    def fail(self, *_):
        raise RuntimeError("hands off")

    __len__ = __repr__ = __str__ = __eq__ = __bool__ = __iter__ = __getitem__ = fail
    __hash__ = None


class HostileTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise RuntimeError("hands off")


class Harmless(torch.Tensor):
    pass


class HostileCall:
    def __call__(self, x):
        return x / 2

    def __getattribute__(self, name):
        raise RuntimeError("hands off")


class HostileText(str):
    def strip(self):
        raise RuntimeError("hands off")


class HostileError(BaseException):
    def __str__(self):
        raise RuntimeError("hands off")


def raising(error):
    def answer(x):
        raise error

    return answer


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda x: 1j, "The result should be a tensor, and is a complex."),
        (lambda x: x / 2 + 0j, "The result should be of dtype torch.float32, and is of torch.complex64."),
        (lambda x: (x / 2).to_sparse(), "should be an ordinary tensor, and is of the layout torch.sparse_coo."),
        (lambda x: (x / 2).to("meta"), "The result should be on the device cpu, and is on meta."),
        (lambda x: torch.nested.nested_tensor([x]), "an ordinary tensor, and is nested."),
        (lambda x: (x / 2).as_subclass(HostileTensor), "The result cannot be read: `RuntimeError`: hands off."),
        (lambda x: Hostile(), "The result cannot be read: `RuntimeError`: hands off."),
        (raising(SystemExit(3)), "`raise error`, with `SystemExit`: 3."),
        (raising(GeneratorExit()), "`raise error`, with `GeneratorExit`."),
        (raising(HostileError()), "You raise."),
        (raising(BaseException("enough")), "`raise error`, with `BaseException`: enough."),
        (raising(KeyError(Hostile())), "`raise error`, with `KeyError`."),
    ],
)
def test_every_answer_gets_a_reply(answer, said):
    assert said in said_to(answer)


@pytest.mark.parametrize("wrap", [nn.Parameter, lambda x: x.as_subclass(Harmless)])
def test_a_result_of_a_class_of_its_own_is_a_tensor_too(wrap):
    assert exercise_of().check(lambda x: wrap(x / 2)).right is True


@pytest.mark.parametrize("kind", [HostileCall, HostileText])
def test_an_object_that_fails_wherever_it_is_looked_at_gets_a_reply(kind):
    assert said_to(kind()) == "What you passed cannot be judged: `RuntimeError`: hands off."


@pytest.mark.parametrize(
    ("solution", "said"),
    [
        (lambda x: (x, x), "The result cannot be read: `RuntimeError`: hands off."),
        (lambda x: {"a": x}, "The result should have the names a."),
        (lambda x: 3, "The result cannot be read: `RuntimeError`: hands off."),
        (lambda x: "three", "The result cannot be read: `RuntimeError`: hands off."),
    ],
)
def test_a_result_that_fails_wherever_it_is_looked_at_is_no_error_of_the_check(solution, said):
    solution.__name__ = "halves"
    stub = "def halves(x):\n    ...  # your code"
    assert said in said_to(lambda x: Hostile(), solution=solution, stub=stub)


def test_an_input_filled_with_what_cannot_be_read_was_changed_in_place():
    def fill(xs):
        xs[0] = Hostile()

    exercise = exercise_of(call=lambda answer, x: answer([x]))
    exercise.cases = lambda g: [([torch.ones(1)],)]
    exercise.call = lambda answer, xs: answer(xs)
    exercise.solution = lambda xs: None
    assert "Your code changes its argument `xs` in place" in exercise.check(fill).text


@pytest.mark.parametrize("text", ["exit()", "raise GeneratorExit", "import sys; sys.exit(1)", "1 +", "halves = 3"])
def test_a_text_that_does_not_even_run_is_no_error_of_the_check(text):
    assert "You passed" not in said_to(text, as_text=True, stub="def halves(x):")


@pytest.mark.parametrize(
    ("passed", "named"),
    [
        (pow, "`pow` of Python"),
        (math.sqrt, "`sqrt` of math"),
        (torch.softmax, "`softmax` of torch"),
        (torch.Tensor.softmax, "`softmax` of torch"),
        (nn.functional.softplus, None),
        (nn.Linear, "`Linear` of torch"),
        (nn.Linear(7, 7), "an object of `Linear` of torch"),
        (functools.partial(torch.softmax, 0, 1, 2), "`softmax` of torch"),
    ],
)
def test_what_is_not_the_learners_own_is_named_where_its_call_fails(passed, named):
    if named is None:  # it runs, and is judged as any answer
        assert "entries of the result differ" in said_to(passed)
    else:
        assert re.search(rf"^You passed {named}, no code of your own, and the call failed: `\w+`: ", said_to(passed))


class Halves:
    def __call__(self, x):
        return [][7]


def inner(x):
    return [][7]


@pytest.mark.parametrize("answer", [Halves(), functools.partial(inner), functools.cache(inner)])
def test_a_learners_own_line_is_found_in_an_object_and_under_a_wrapper(answer):
    assert re.match(r"Your code stopped in line \d+, `return \[\]\[7\]`, with `IndexError`", said_to(answer))


def leave(what):
    def answer(x):
        what()
        return x / 2

    return answer


def replace(space, name):
    return lambda: setattr(space, name, lambda *args, **kwargs: Hostile())


LEFT = {
    "gradients": (
        lambda: torch.set_grad_enabled(False),
        "Your code left gradients switched off; they are on again.",
    ),
    "no_grad": (lambda: torch.no_grad().__enter__(), "Your code left gradients switched off; they are on again."),
    "dtype": (
        lambda: torch.set_default_dtype(torch.float64),
        "Your code left the default dtype at torch.float64; it is torch.float32 again.",
    ),
    "device": (
        lambda: torch.set_default_device("meta"),
        "Your code left the default device at meta; it is cpu again.",
    ),
    "threads": (
        lambda: torch.set_num_threads(torch.get_num_threads() + 3),
        r"Your code left torch with \d+ threads; it has \d+ again.",
    ),
    "folder": (lambda: os.chdir("/"), "Your code left the working directory at .*; it is .* again."),
    "recursion": (
        lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 7),
        r"Your code left the recursion limit at \d+; it is \d+ again.",
    ),
    "stdout": (replace(sys, "stdout"), "Your code left `sys.stdout` replaced; it is the old one again."),
    "stderr": (
        lambda: setattr(sys, "stderr", Hostile()),
        "Your code left `sys.stderr` replaced; it is the old one again.",
    ),
    "softmax": (replace(torch, "softmax"), "Your code left `torch.softmax` replaced; it is the old one again."),
    "isclose": (replace(torch, "isclose"), "Your code left `torch.isclose` replaced; it is the old one again."),
    "functional": (
        replace(nn.functional, "dropout"),
        "Your code left `nn.functional.dropout` replaced; it is the old one again.",
    ),
    "layer": (replace(nn, "Linear"), "Your code left `nn.Linear` replaced; it is the old one again."),
    "method": (replace(torch.Tensor, "softmax"), "Your code left `Tensor.softmax` replaced; it is the old one again."),
    "deleted": (lambda: delattr(math, "sqrt"), "Your code left `math.sqrt` replaced; it is the old one again."),
}


def world():
    """What a next cell could trip over, read by other means than those of the package."""
    return {
        "gradients": (torch.ones(1, requires_grad=True) * 2).requires_grad,
        "dtype and device": (torch.ones(1).dtype, torch.ones(1).device, torch._C._len_torch_function_stack()),
        "threads": torch.get_num_threads(),
        "folder": os.getcwd(),
        "streams": (sys.stdout, sys.stderr),
        "recursion": sys.getrecursionlimit(),
        "functions": (torch.softmax, torch.isclose, nn.functional.dropout, nn.Linear, torch.Tensor.softmax, math.sqrt),
    }


@pytest.fixture(autouse=True)
def _the_world_as_it_was():
    """So that one test that fails here does not make others fail."""
    kept = Kept()
    yield
    kept.put_back()


@pytest.mark.parametrize(("what", "said"), LEFT.values(), ids=LEFT)
def test_what_an_answer_leaves_changed_is_put_back_and_named(what, said):
    before = world()
    reply = exercise_of().check(leave(what))
    assert world() == before
    assert reply.right is True  # what was asked for is what it returns
    assert re.fullmatch(rf"✓ \*\*Right.\*\* Checked on 2 random inputs. {said}", reply.text), reply.text


@pytest.mark.parametrize("ending", [lambda: 7, lambda: 1 / 0, sys.exit], ids=["wrong", "error", "exit"])
def test_it_is_put_back_and_named_after_a_wrong_answer_too(ending):
    def answer(x):
        torch.set_grad_enabled(False)
        torch.softmax = None
        return ending()

    before = world()
    says = said_to(answer)
    assert world() == before
    assert says.endswith(
        "Your code left `torch.softmax` replaced; it is the old one again. "
        "Your code left gradients switched off; they are on again."
    )


def test_it_is_put_back_after_each_call_so_that_no_other_code_is_judged_by_it():
    """The solution, the mistakes and the comparison run as ever, and so does the answer's next call."""

    def answer(x):
        assert torch.isclose(torch.ones(1), torch.ones(1))
        torch.isclose = torch.softmax = lambda *args, **kwargs: torch.ones(())
        torch.set_default_dtype(torch.float64)
        return x * 9

    assert said_to(answer).startswith("2 of 2 entries of the result differ")


def test_a_text_that_changes_the_world_when_it_is_read_is_named():
    """It is put back before the first call: there it would make the result one of float64."""
    text = "def halves(x):\n    return x * torch.full((1,), 0.5)\n\ntorch.set_default_dtype(torch.float64)"
    reply = exercise_of(as_text=True, stub="def halves(x):").check(text)
    assert (reply.right, torch.get_default_dtype()) == (True, torch.float32)
    assert "Your code left the default dtype at torch.float64; it is torch.float32 again." in reply.text


def test_what_a_result_changes_when_it_is_looked_at_is_put_back():
    class Sly(list):
        def __len__(self):
            torch.set_grad_enabled(False)
            return 2

    assert "gradients switched off; they are on again" in said_to(lambda x: Sly(), solution=pair, stub="def pair(x):")
    assert torch.is_grad_enabled()


def pair(x):
    return x, x


def test_what_a_learner_had_changed_before_stays_so():
    own = torch.softmax
    with torch.no_grad():
        torch.set_default_dtype(torch.float64)
        torch.softmax = lambda *args, **kwargs: own(*args, **kwargs)
        changed = torch.softmax
        reply = exercise_of().check(leave(lambda: torch.set_grad_enabled(True)))
        assert not torch.is_grad_enabled()
        assert torch.get_default_dtype() == torch.float64
        assert torch.softmax is changed
    assert reply.text.endswith("Your code left gradients switched on; they are off again.")


def test_a_folder_that_is_gone_cannot_be_put_back(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")

    def move_out():
        os.chdir(tmp_path)
        os.rmdir(tmp_path / "mine")

    says = exercise_of().check(leave(lambda: (tmp_path / "mine").exists() and move_out())).text
    assert re.search(r"left the working directory at .*, and that cannot be put back: restart the kernel\.", says)


def test_many_replaced_functions_are_one_sentence():
    def vandal():
        torch.exp = torch.log = torch.sin = torch.cos = torch.tan = None

    says = exercise_of().check(leave(vandal)).text
    assert says.count("Your code left") == 1
    assert re.search(
        r"left `torch\.\w+`, `torch\.\w+`, `torch\.\w+` and 2 more replaced; they are the old ones again", says
    )


@pytest.mark.slow  # a first compile takes seconds
def test_what_torch_does_to_itself_is_not_said_of_the_learner():
    """torch.compile wraps two functions of torch, the first time that it is called."""
    reply = exercise_of().check(torch.compile(halves, backend="eager"))
    assert reply.text == "✓ **Right.** Checked on 2 random inputs."


def test_no_two_checks_say_what_one_of_them_found():
    exercise = exercise_of()
    exercise.check(leave(lambda: torch.set_grad_enabled(False)))
    assert exercise.check(halves).text == "✓ **Right.** Checked on 2 random inputs."


def endless(x):
    while True:
        x = x + 1


@needs_alarm
def test_an_endless_loop_that_is_stopped_is_one_sentence_in_a_notebook():
    """As the stop button does it: an interrupt in the middle of the learner's loop."""
    from IPython.core.interactiveshell import InteractiveShell

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 1)  # again and again: a check that goes on must not take for ever
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            exercise_of().check(endless)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert re.fullmatch(r"The check was interrupted: your code was in line \d+, `.*`\.", str(caught.value))
    assert caught.value.__suppress_context__
    assert len(traceback.extract_tb(caught.value.__traceback__)) == 2  # this test, and check

    shown = []

    class Shell(InteractiveShell):
        call_pdb = False

        def _showtraceback(self, etype, evalue, lines):
            shown.extend(lines)

    shell = Shell.__new__(Shell)  # a whole one would set hooks, and write a history
    shell.showtraceback((type(caught.value), caught.value, caught.value.__traceback__))
    assert shown == [f"KeyboardInterrupt: {caught.value}"]


def test_what_an_interrupted_answer_left_changed_is_put_back_and_named():
    def answer(x):
        torch.set_grad_enabled(False)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="gradients switched off; they are on again"):
        exercise_of().check(answer)
    assert torch.is_grad_enabled()


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "answer",
    [
        lambda x: type("Slow", (list,), {"__len__": interrupt})(),
        raising(type("Slow", (Exception,), {"__str__": interrupt})()),
    ],
)
def test_an_interrupt_while_a_result_is_looked_at_comes_out_too(answer):
    with pytest.raises(KeyboardInterrupt, match="The check was interrupted"):
        exercise_of(pair, stub="def pair(x):").check(answer)

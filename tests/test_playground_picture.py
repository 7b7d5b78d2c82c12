"""What the playground's picture, headline and alternative text say is what was measured."""

import math
import re
from types import SimpleNamespace

import pytest
import torch
from explorer_page import SVG, check_arcs, check_maps, near, numbers, tree_of

from attention_helpers import causal_mask
from attention_helpers.explorers.playground.explorer import PlaygroundExplorer
from attention_helpers.explorers.playground.headline import headline
from attention_helpers.explorers.playground.runs import Honest, Measured

NEXT = {"task": "next character", "num_heads": 2}


@pytest.fixture(scope="module")
def explorer():
    made = PlaygroundExplorer()
    yield made
    made.close()


@pytest.fixture
def run(explorer):
    """Trains with some values and returns the explorer."""

    def run(steps, **values):
        explorer.set(**explorer._first | values)
        if steps:
            explorer.run(steps)
        return explorer

    return run


def elements(explorer, kind):
    return list(tree_of(explorer).iter(f"{SVG}{kind}"))


def texts(explorer, **attributes):
    found = elements(explorer, "text")
    return ["".join(each.itertext()) for each in found if attributes.items() <= each.attrib.items()]


@pytest.mark.parametrize("num_heads", [1, 4])
def test_cells_and_arcs_are_the_weights_of_the_trained_model(run, num_heads):
    explorer = run(17, num_heads=num_heads)
    state = explorer.arrays
    check_maps(explorer, state.weights, state.tokens, hidden=causal_mask(7), limit=1)
    check_arcs(explorer, [state.weights[:, 6]], state.tokens, 6)


def test_the_future_is_hatched_unless_it_can_be_read(run):
    hatched = 'stroke-opacity="0.3"'
    assert hatched in run(0).svg
    assert hatched in run(0, **NEXT).svg
    assert hatched not in run(0, **NEXT, mask="leaky").svg


@pytest.mark.parametrize("values", [{}, {"task": "one question"}, {"num_heads": 2, "learning_rate": 0.1}, NEXT])
@pytest.mark.parametrize("steps", [0, 17])
def test_the_answer_is_what_the_model_answers_and_is_marked(run, steps, values):
    explorer = run(steps, **values)
    state, signs = explorer.arrays, {" ": "␣", "\n": "↵"}
    outputs = state.run.model.eval()(state.run.x[:1])[0]
    answers, right = outputs.argmax(dim=-1).tolist(), state.run.answers[0].tolist()
    if values == NEXT:  # there, each character is asked for the next; the picture asks one
        names = state.run.task.vocabulary
        answers, right = [names[answers[20]]], [names[state.run.x[0, 21]]]
    else:
        assert [state.tokens[token][2] for token in state.wanted] == state.answers
    answers, right = ([signs.get(str(each), str(each)) for each in either] for either in (answers, right))
    assert texts(explorer, **{"font-size": "48"}) == answers
    marks = [mark for mark in texts(explorer) if mark in ("✓", "✗")]
    assert marks == ["✓" if a == b else "✗" for a, b in zip(answers, right, strict=True)]


def test_the_figures_below_the_headline_are_those_of_the_less_accurate_answer(run):
    explorer = run(30)
    run_, now = explorer.arrays.run, explorer.arrays.measured[-1]
    right = (run_.model.eval()(run_.x).argmax(dim=-1) == run_.answers).float().mean(dim=0)
    assert now.accuracy == pytest.approx(right.min().item())
    assert right.min() < right.max()
    found = numbers(" ".join(texts(explorer, **{"font-size": "12"})))
    assert found == near(30, now.accuracy)


@pytest.mark.parametrize("values", [{}, {"num_heads": 4}, NEXT | {"mask": "leaky", "d_out": 4}])
def test_the_curves_end_where_their_numbers_are_and_the_picture_keeps_its_size(run, values):
    sizes = [each.get("viewBox") for each in elements(run(0), "svg")]
    explorer = run(25, **values)
    now = explorer.arrays.measured[-1]
    ends = {"new examples": f"{now.accuracy:.0%}", "training": f"{now.right:.0%}"}
    if "task" in values:
        honest = explorer.arrays.honest[-1].loss
        ends = {"new text": f"{now.held_loss:.3g}", "training": f"{now.loss:.3g}", "no future": f"{honest:.3g}"}
    assert {" ".join(end) for end in ends.items()} <= {*texts(explorer)}
    assert [each.get("viewBox") for each in elements(explorer, "svg")] == sizes


def test_a_loss_that_is_lost_is_not_drawn(run):
    explorer = run(2)
    measured = [*explorer.arrays.measured, Measured(3, math.nan, math.nan, 0.1, 0.1)]
    explorer._draw(explorer.arrays._replace(measured=measured))
    assert explorer.said == "The loss isn't a number any more: the steps were too large."
    assert "nan" not in explorer.svg.lower()


SIZES = {"d_out": 32, "num_heads": 1, "dropout": 0.0, "learning_rate": 1e-2}


def said(
    step, accuracy, task="two questions", learned=None, honest=(), predicted="00", reads=(1, 3), loss=1.0, **sizes
):
    """The headline for a state with these measurements; reads: what each head reads most."""
    weights = torch.zeros(len(reads), 7, 7)
    weights[range(len(reads)), 6, list(reads)] = 1.0
    state = SimpleNamespace(
        step=step, learned=learned, honest=list(honest), predicted=list(predicted), answers=["9", "0"],
        measured=[Measured(0, 2.3, 2.3, 0.1, 0.1), Measured(step, 1.0, loss, accuracy, accuracy)],
        weights=weights, asks=6, wanted=[1, 3], tokens=["H 4", "E 9", "A 5", "I 0", "J 6", "D 7", "EI ?"],
    )  # fmt: skip
    return headline(state, task, **SIZES | sizes)


OF_TEXT, ADVICE = {"task": "next character"}, {"num_heads": 2, "learning_rate": 0.1, "dropout": 0.8}
HEADLINES = [
    ((0, 0.1), {}, "Untrained"),
    ((59, 0.3), {}, "Training"),
    ((60, 0.3), {"predicted": "00"}, "One head .* one stays wrong"),
    ((60, 0.3), {"predicted": "09"}, "One head .* both are wrong"),
    ((60, 0.3), {"predicted": "90"}, "One head .* by luck"),
    ((100, 0.3), {"num_heads": 2}, "Training"),
    ((60, 0.12), {"learning_rate": 1e-4}, "12% after 60 steps of learning rate 0.0001: they're too small"),
    ((149, 0.2), {"num_heads": 2, "learning_rate": 0.1}, "20% after 149 .* too large"),
    ((149, 0.3), {"num_heads": 4, "d_out": 4}, "Training"),
    ((150, 0.3), {"num_heads": 4, "d_out": 4}, "30% after 150 steps; with d_out 16 it would reach 99%"),
    ((200, 0.62), ADVICE, "62% after 200 steps; with learning rate 0.01 and dropout 0.2 "),
    ((200, 0.99), ADVICE, "Training"),
    ((60, 0.98), {"learned": 26, "num_heads": 2}, "Learned.* step 26 .* Head 1 .*“E 9”, head 2 .*“I 0”"),
    ((60, 1.0), {"learned": 26, "num_heads": 2, "reads": (3, 1)}, "Learned.* Head 1 .*“I 0”, head 2 .*“E 9”"),
    ((60, 1.0), {"learned": 26, "num_heads": 2, "reads": (3, 3)}, "Learned[^“]*$"),
    ((60, 1.0), {"learned": 26, "loss": math.nan}, "The loss isn't a number"),
    ((20, 0.3), OF_TEXT | {"honest": [Honest(20, 2.75, 2.5)]}, "[^2]*2.50, and 2.75 with no future"),
    ((40, 0.9), OF_TEXT | {"honest": [Honest(40, 6.5, 0.25)]}, "It reads what it should predict: .*0.25, but 6.50 "),
]


@pytest.mark.parametrize(("measured", "more", "expected"), HEADLINES)
def test_the_headline_tells_what_was_measured(measured, more, expected):
    assert re.match(expected, said(*measured, **more))

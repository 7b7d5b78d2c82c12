"""What the playground's picture, headline and alternative text say is what was measured."""

import math
import re
from types import SimpleNamespace

import pytest
import torch
from explorer_page import SVG, told, tree_of

from attention_course.explorers.playground.explorer import Playground
from attention_course.explorers.playground.headline import headline
from attention_course.explorers.playground.runs import Honest, Measured

NEXT = {"task": "next character", "num_heads": 2}


@pytest.fixture(scope="module")
def explorer():
    made = Playground()
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


@pytest.mark.parametrize("values", [{}, {"task": "one question"}, {"num_heads": 2, "learning_rate": 0.1}, NEXT])
def test_the_answer_is_what_the_model_answers_and_is_marked(run, values):
    explorer = run(17, **values)
    state, signs = explorer.arrays, {" ": "␣", "\n": "↵"}
    outputs = state.run.model.eval()(state.run.x[:1])[0]
    answers, right = outputs.argmax(dim=-1).tolist(), state.run.answers[0].tolist()
    if values == NEXT:  # there, each character is asked for the next; the picture asks one
        names = state.run.task.vocabulary
        answers, right = [names[answers[20]]], [names[state.run.x[0, 21]]]
        assert state.tokens == [signs.get(names[each], names[each]) for each in state.run.x[0].tolist()]
    else:
        assert [state.tokens[token][2] for token in state.wanted] == state.answers
    answers, right = ([signs.get(str(each), str(each)) for each in either] for either in (answers, right))
    assert texts(explorer, **{"font-size": "48"}) == answers
    assert f" is answered with {' '.join(answers)}; right is {' '.join(right)}. " in explorer.alt
    marks = [mark for mark in texts(explorer) if mark in ("✓", "✗")]
    assert marks == ["✓" if a == b else "✗" for a, b in zip(answers, right, strict=True)]


@pytest.mark.parametrize("values", [{"num_heads": 4}, NEXT])
def test_the_alternative_text_tells_the_figures_and_what_each_head_reads(run, values):
    explorer = run(9, **values)
    state, now = explorer.arrays, explorer.arrays.measured[-1]
    assert f" Step 9: accuracy {now.accuracy:.0%} on new" in explorer.alt
    for head, row in enumerate(state.weights[:, state.asks], 1):
        assert f" head {head}: {state.tokens[row.argmax()]} {row.max():.2f}, " in explorer.alt


@pytest.mark.parametrize("values", [{}, {"num_heads": 4}, NEXT | {"mask": "leaky", "d_out": 4}])
def test_the_curves_end_where_their_numbers_are_and_the_picture_keeps_its_size(run, values):
    sizes = [each.get("viewBox") for each in elements(run(0), "svg")]
    explorer = run(25, **values)
    now = explorer.arrays.measured[-1]
    ends = {"new examples": f"{now.accuracy:.0%}", "training": f"{now.right:.0%}"}
    if "task" in values:
        honest = explorer.arrays.honest[-1].loss
        ends = {"new text": f"{now.held_loss:.3g}", "training": f"{now.loss:.3g}", "can't look ahead": f"{honest:.3g}"}
    assert {" ".join(end) for end in ends.items()} <= {*texts(explorer)}
    assert [each.get("viewBox") for each in elements(explorer, "svg")] == sizes


@pytest.mark.parametrize(("value", "of"), [("accuracy", 1), ("loss", 6)])
def test_curves_are_where_the_axes_say(run, value, of):
    explorer = run(0, **NEXT if value == "loss" else {})
    measured = [Measured(0, math.nan, 0.8, math.nan, 0.1), Measured(200, 1.2, 0.4, 0.75, 0.5)]
    explorer.draw(explorer.arrays._replace(measured=measured, honest=[Honest(140, 4.8, 0.4)], step=200, learned=100))
    drawn = elements(explorer, "svg")[-1]
    at = {"".join(text.itertext()): text for text in drawn.iter(f"{SVG}text")}
    left, right = (float(at[step].get("x")) for step in ("0", "200"))
    low, high = float(at["200"].get("y")) - 14, float(at["100%" if of == 1 else "6"].get("y")) - 4
    spots = {
        "new examples 50%": [(0, 0.1), (200, 0.5)], "training 75%": [(200, 0.75)],
        "new text 0.4": [(0, 0.8), (200, 0.4)], "training 1.2": [(200, 1.2)], "can't look ahead 4.8": [(140, 4.8)],
    }  # fmt: skip
    curves = {words: path for words, path in told(drawn) if path.tag == f"{SVG}path"}
    ends = [tuple(float(circle.get(name)) for name in ("cx", "cy")) for circle in drawn.iter(f"{SVG}circle")]
    assert len(curves) == len(ends) == (2 if of == 1 else 3)
    for (words, path), end in zip(curves.items(), ends, strict=True):
        found = [tuple(map(float, spot.split())) for spot in path.get("d")[1:].split("L")]
        expected = [(left + step / 200 * (right - left), low + part / of * (high - low)) for step, part in spots[words]]
        assert [*sum([*found, end], ())] == pytest.approx([*sum([*expected, expected[-1]], ())], abs=0.2)


def test_a_loss_that_is_lost_is_not_drawn(run):
    explorer = run(2)
    measured = [*explorer.arrays.measured, Measured(3, math.nan, math.nan, 0.1, 0.1)]
    explorer.draw(explorer.arrays._replace(measured=measured))
    assert explorer.said == "After 2 steps the loss isn't a number any more."
    assert "nan" not in explorer.svg.lower()


SIZES = {"d_out": 32, "num_heads": 1, "dropout": 0.0, "learning_rate": 1e-2}


def said(
    step, right, task="two questions", learned=None, honest=(), predicted="00", of=(1, 3), reads=(1, 3), loss=1, **more
):
    """The headline for a state with these measurements; reads: what each head reads most; of: the wanted tokens."""
    weights = torch.zeros(len(reads), 7, 7)
    weights[range(len(reads)), 6, list(reads)] = 1.0
    state = SimpleNamespace(
        step=step, learned=learned, honest=list(honest), predicted=list(predicted), answers=["9", "0"],
        measured=[Measured(0, 2.3, 2.3, 0.1, 0.1), Measured(step, 1.0, loss, right, right)],
        weights=weights, asks=6, wanted=of, tokens=["H 4", "E 9", "A 5", "I 0", "J 6", "D 7", "EI ?"],
    )  # fmt: skip
    return headline(state, task=task, **SIZES | more)


OF_TEXT = {"task": "next character"}
HEADLINES = [
    ((0, 0.1), {}, "Untrained"),
    ((60, 0.31), {}, "After 60 steps the less accurate .* right in 31% .*: both come out of one weighted average"),
    ((60, 0.2), {"num_heads": 2}, "After 60 steps .* 20% of new examples. Head 1 reads “E 9”, head 2 reads “I 0” most"),
    ((60, 0.98), {"learned": 26, "num_heads": 2}, "Learned.* step 26 .* Head 1 .*“E 9”, head 2 .*“I 0”"),
    ((60, 1.0), {"task": "one question", "learned": 9, "reads": (3,), "of": (3,)}, ".* step 9 on. It reads “I 0”"),
    ((60, 1.0), {"learned": 26, "loss": math.nan}, "After 60 steps the loss isn't a number"),
    ((40, 0.9), OF_TEXT | {"loss": 0.253, "honest": [Honest(20, 6.52, 0.3)]}, "It reads what .* 0.253, but 6.52 where"),
    ((40, 0.9), OF_TEXT | {"loss": 0.253, "honest": [Honest(20, 0.4, 0.3)]}, "In 40 steps .* from 2.3 to 0.253"),
]


@pytest.mark.parametrize(("measured", "more", "expected"), HEADLINES)
def test_the_headline_tells_what_was_measured(measured, more, expected):
    assert re.match(expected, said(*measured, **more))

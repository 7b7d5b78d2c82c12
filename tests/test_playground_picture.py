"""What the playground's picture, headline and alternative text say is what was measured."""

import math

import pytest
from explorer_page import SVG, numbers, told, tree_of

from attention_course.explorers.playground.explorer import Playground
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


def texts(explorer):
    return ["".join(each.itertext()) for each in tree_of(explorer).iter(f"{SVG}text")]


@pytest.mark.parametrize("values", [{}, {"task": "one question"}, {"num_heads": 2, "learning_rate": 0.1}, NEXT])
def test_the_answer_and_what_heads_look_at_are_the_models_and_the_picture_keeps_its_size(run, values):
    sizes = [each.get("viewBox") for each in tree_of(run(0)).iter(f"{SVG}svg")]
    explorer = run(21, **values)
    state = explorer.arrays
    answers = state.run.model.eval()(state.run.x[:1])[0].argmax(dim=-1).tolist()
    if values == NEXT:  # there, each character is asked for the next; the picture asks one
        answers = [{" ": "␣", "\n": "↵"}.get(each, each) for each in [state.run.task.vocabulary[answers[state.asks]]]]
    else:
        assert [state.tokens[token][2] for token in state.wanted] == state.answers
    assert state.predicted == [f"{each}" for each in answers]
    marks = [mark for mark in texts(explorer) if mark in ("✓", "✗")]
    assert marks == ["✓" if a == b else "✗" for a, b in zip(state.predicted, state.answers, strict=True)]
    for head, row in enumerate(state.weights[:, state.asks], 1):
        assert f" head {head}: {state.tokens[row.argmax()]} {row.max():.2f}, " in explorer.alt
    assert [each.get("viewBox") for each in tree_of(explorer).iter(f"{SVG}svg")] == sizes


@pytest.mark.parametrize(("value", "of"), [("accuracy", 1), ("loss", 6)])
def test_curves_are_where_the_axes_say(run, value, of):
    explorer = run(0, **NEXT if value == "loss" else {})
    measured = [Measured(0, math.nan, 0.8, math.nan, 0.1), Measured(200, 1.2, 0.4, 0.75, 0.5)]
    explorer.draw(explorer.arrays._replace(measured=measured, honest=[Honest(140, 4.8, 0.4)], step=200, learned=100))
    drawn = [*tree_of(explorer).iter(f"{SVG}svg")][-1]
    at = {"".join(text.itertext()): text for text in drawn.iter(f"{SVG}text")}
    left, right = (float(at[step].get("x")) for step in ("0", "200"))
    low, high = float(at["200"].get("y")) - 14, float(at["100%" if of == 1 else "6"].get("y")) - 4
    spots = {"new examples 50%": (200, 0.5), "training 75%": (200, 0.75), "new text 0.4": (200, 0.4)}
    spots |= {"training 1.2": (200, 1.2), "can't look ahead 4.8": (140, 4.8)}
    curves = {words: path.get("d") for words, path in told(drawn) if path.tag == f"{SVG}path"}
    assert len(curves) == (2 if of == 1 else 3)
    for words, path in curves.items():
        (step, part), (x, y) = spots[words], map(float, path[1:].split("L")[-1].split())
        assert (x, y) == pytest.approx((left + step / 200 * (right - left), low + part / of * (high - low)), abs=0.2)


def test_the_headline_says_what_was_measured(run):
    state = run(20, **NEXT).arrays
    first, now = state.measured[0].held_loss, state.measured[-1].held_loss
    assert numbers(run(20, **NEXT).said) == pytest.approx([20, first, now, state.honest[-1].loss], rel=5e-3)
    explorer = run(30, num_heads=2)
    assert numbers(explorer.said)[:2] == pytest.approx([30, explorer.arrays.measured[-1].accuracy], abs=5.1e-3)
    explorer.draw(explorer.arrays._replace(learned=26))
    assert 26 in numbers(explorer.said)
    explorer.draw(
        explorer.arrays._replace(measured=[*explorer.arrays.measured, Measured(3, math.nan, math.nan, 0.1, 0.1)])
    )
    assert explorer.said.endswith("the loss isn't a number any more.")
    assert "nan" not in explorer.svg.lower()

"""What the playground's picture, headline and alternative text say is what was measured."""

import math
import re
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest
import torch

from attention_helpers.explorers.playground.explorer import PlaygroundExplorer
from attention_helpers.explorers.playground.headline import fixes, headline
from attention_helpers.explorers.playground.runs import Honest, Measured
from attention_helpers.plots import head_colour

SVG = "{http://www.w3.org/2000/svg}"
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
    return list(ET.fromstring(explorer.svg).iter(f"{SVG}{kind}"))


def texts(explorer, **attributes):
    found = elements(explorer, "text")
    return ["".join(each.itertext()) for each in found if attributes.items() <= each.attrib.items()]


def titled(explorer, kind):
    """Elements by tooltip."""
    return {each.find(f"{SVG}title").text: each for each in elements(explorer, kind) if len(each)}


def percent(share):
    return f"{round(100 * share)}%"


@pytest.mark.parametrize("num_heads", [1, 2, 4])
def test_each_cell_is_a_weight_and_what_the_mask_hides_has_none(run, num_heads):
    explorer = run(3, num_heads=num_heads)
    state = explorer.arrays
    cells = [each.find(f"{SVG}title").text for each in elements(explorer, "rect") if len(each)]
    expected = [
        f"{state.tokens[row]} reads {state.tokens[column]}: {state.weights[head, row, column]:.4f}"
        for head in range(num_heads)
        for row in range(7)
        for column in range(row + 1)
    ]
    assert cells == expected
    shades = [float(each.get("fill-opacity")) for each in elements(explorer, "rect") if len(each)]
    assert shades == pytest.approx([float(told.rpartition(" ")[2]) for told in cells], abs=0.01)  # full colour at 1


def test_the_question_reads_by_arcs_in_the_heads_colours(run):
    explorer = run(3, num_heads=4)
    state, arcs = explorer.arrays, titled(explorer, "path")
    widths = {}
    for head in range(4):
        for token, weight in zip(state.tokens, state.weights[head, -1].tolist(), strict=True):
            if weight < 0.005:  # less than can be seen
                continue
            arc = arcs[f"EI ? reads {token} by head {head + 1}: {weight:.4f}"]
            assert arc.get("stroke") == head_colour(head)
            widths[weight] = float(arc.get("stroke-width"))
    assert sorted(widths, key=widths.get)[-1] == max(widths)


def frames(explorer):
    return [
        rect for rect in elements(explorer, "rect") if rect.get("fill") == "none" and rect.get("stroke-width") != "0.5"
    ]


@pytest.mark.parametrize(("values", "asks"), [({"num_heads": 4}, 6), (NEXT, 20), (NEXT | {"mask": "leaky"}, 20)])
def test_the_asked_row_is_framed_in_each_head(run, values, asks):
    explorer = run(0, **values)
    n, found = len(explorer.arrays.tokens), frames(explorer)
    assert len(found) == values["num_heads"]
    for rect in found:
        room = 0 if n == 7 else 2
        cell = float(rect.get("height")) - 2 * room
        assert float(rect.get("y")) + room == pytest.approx(asks * cell, abs=0.2 + asks * 0.06)
        assert float(rect.get("width")) - 2 * room == pytest.approx(n * cell, abs=n * 0.06)


def test_the_future_is_hatched_unless_it_can_be_read(run):
    hatched = 'stroke-opacity="0.3"'
    assert hatched in run(0).svg
    assert hatched in run(0, **NEXT).svg
    assert hatched not in run(0, **NEXT, mask="leaky").svg


@pytest.mark.parametrize("values", [{}, {"task": "one question"}, {"num_heads": 2, "learning_rate": 0.1}])
@pytest.mark.parametrize("steps", [0, 17])
def test_the_answer_is_what_the_model_answers_and_is_marked(run, steps, values):
    explorer = run(steps, **values)
    state = explorer.arrays
    outputs = state.run.model.eval()(state.run.x[:1])[0]
    said, right = (
        [f"{digit}" for digit in outputs.argmax(dim=-1).tolist()],
        [f"{digit}" for digit in state.run.answers[0].tolist()],
    )
    assert texts(explorer, **{"font-size": "48"}) == said
    marks = [mark for mark in texts(explorer) if mark in ("✓", "✗")]
    assert marks == ["✓" if a == b else "✗" for a, b in zip(said, right, strict=True)]
    wrong = [text for text in texts(explorer) if text.startswith("should be ")]
    assert wrong == [f"should be {b}" for a, b in zip(said, right, strict=True) if a != b]
    assert f"is answered with {' '.join(said)}; right is {' '.join(right)}." in explorer.alt


def test_the_next_character_is_answered_likewise(run):
    explorer = run(3, **NEXT)
    task, x, targets = explorer.arrays.run.task, explorer.arrays.run.x, explorer.arrays.run.answers
    said = task.vocabulary[explorer.arrays.run.model.eval()(x[:1])[0, 20].argmax()]
    shown = {" ": "␣", "\n": "↵"}
    assert texts(explorer, **{"font-size": "48"}) == [shown.get(said, said)]
    right = task.vocabulary[targets[0, 20]]
    assert right == task.vocabulary[x[0, 21]]
    before = "".join(task.vocabulary[each] for each in x[0, 13:21].tolist())
    assert f"Which character comes after “{before}”?" in texts(explorer)


def test_the_wanted_tokens_are_those_with_the_asked_letters(run):
    state = run(0).arrays
    assert [state.tokens[token][0] for token in state.wanted] == list(state.tokens[-1][:2])
    assert [state.tokens[token][2] for token in state.wanted] == state.answers
    boxes = [rect for rect in elements(run(0), "rect") if rect.get("rx")]
    assert [n for n, box in enumerate(boxes) if float(box.get("fill-opacity")) > 0.1] == sorted(state.wanted)
    assert run(0, task="one question").arrays.wanted == state.wanted[:1]
    assert run(0, **NEXT).arrays.wanted == []


def test_the_sentence_below_the_headline_counts_the_less_accurate_answer(run):
    explorer = run(30)
    run_, now = explorer.arrays.run, explorer.arrays.measured[-1]
    right = (run_.model.eval()(run_.x).argmax(dim=-1) == run_.answers).float().mean(dim=0)
    assert now.accuracy == pytest.approx(right.min().item())
    assert right.min() < right.max()
    question, step = texts(explorer, **{"font-size": "12"})
    assert question == "“EI ?” asks which digits are next to E and I."
    assert (
        step == f"Step 30: accuracy {percent(now.accuracy)} on new examples, on the less accurate of the two answers."
    )
    assert f"{question} {step} In training: {percent(now.right)}." in explorer.alt
    assert "%" not in re.sub(r"\d%", "", explorer.svg + explorer.said)


def spots(explorer, name):
    """The points of the curve whose name begins so, as steps and shares of the axis."""
    [path] = [path.get("d") for title, path in titled(explorer, "path").items() if title.startswith(name)]
    return [tuple(map(float, spot.split())) for spot in path.removeprefix("M").split("L")]


@pytest.mark.parametrize("pace", [0, 20])
def test_the_curves_go_by_step_and_end_where_their_numbers_are(run, pace):
    explorer = run(0)
    explorer.speed.value = pace
    explorer.run(85)
    explorer.speed.value = 0
    measured = explorer.arrays.measured
    for name, kept in (("new examples", "accuracy"), ("training", "right")):
        told = [(each.step, getattr(each, kept)) for each in measured if math.isfinite(getattr(each, kept))]
        expected = [(38 + step / 100 * 182, 92 - 66 * share) for step, share in told]
        assert spots(explorer, name) == [pytest.approx(spot, abs=0.06) for spot in expected]
        assert f"{name} {percent(told[-1][1])}" in texts(explorer)


def test_the_curves_of_the_next_character_are_losses_also_without_a_future(run):
    explorer = run(25, **NEXT, mask="leaky")
    now, honest = explorer.arrays.measured[-1], explorer.arrays.honest[-1]
    named = {f"new text {now.held_loss:.3g}", f"training {now.loss:.3g}", f"no future {honest.loss:.3g}"}
    assert named <= {*texts(explorer)}
    assert spots(explorer, "no future")[-1] == pytest.approx((38 + 20 / 100 * 182, 92 - 66 * honest.loss / 6), abs=0.06)


def test_where_it_was_learned_is_marked(run):
    explorer = run(60, num_heads=2)
    marks = [path.get("d") for path in elements(explorer, "path") if path.get("stroke-opacity") == "0.4"]
    x = 38 + explorer.arrays.learned / 100 * 182
    assert marks == [f"M{x:.1f} 26.0L{x:.1f} 92.0"]
    assert explorer.said == (
        f"Learned: 99% for 20 steps, from step {explorer.arrays.learned} on. Head 1 reads “E 9”, head 2 reads “I 0”."
    )


def test_a_loss_that_is_lost_is_not_drawn(run):
    explorer = run(2)
    measured = [*explorer.arrays.measured, Measured(3, math.nan, math.nan, 0.1, 0.1)]
    explorer._draw(explorer.arrays._replace(measured=measured))
    assert explorer.said == "The loss isn't a number any more: the steps were too large."
    assert "nan" not in explorer.svg.lower()


@pytest.mark.parametrize(
    "values", [{"num_heads": 4}, {"task": "one question"}, NEXT, NEXT | {"mask": "leaky", "d_out": 4}]
)
def test_every_picture_has_the_same_size_and_fits_the_narrow_screen(run, values):
    first = [each.attrib for each in ET.fromstring(run(0).svg).iter(f"{SVG}svg")]
    sizes = [each.attrib for each in ET.fromstring(run(22, **values).svg).iter(f"{SVG}svg")]
    assert sizes == first
    rows = [[float(svg.get("width")) for svg in row] for row in ET.fromstring(run(0).svg)]
    assert max(sum(row) + 14 * (len(row) - 1) for row in rows) <= 592


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


def test_the_failure_of_one_head_is_explained_by_what_is_on_the_screen():
    why = "One head makes one weighted average: both answers come out of it, and "
    assert said(60, 0.3, predicted="00") == f"{why}one stays wrong."
    assert said(60, 0.3, predicted="09") == f"{why}here both are wrong."
    assert said(60, 0.3, predicted="90") == f"{why}are right here by luck."
    assert said(59, 0.3) == said(1, 0.2) == "Training: with every step, the question reads differently."
    assert said(0, 0.1) == "Untrained: every answer is a guess."
    for sizes in ({"num_heads": 2}, {"task": "one question"}):
        assert "One head" not in said(100, 0.3, **sizes)


def test_other_settings_are_named_only_where_steps_have_not_done_it():
    assert "with" not in said(149, 0.3, num_heads=4, d_out=4).removeprefix("Training: with")
    assert said(150, 0.3, num_heads=4, d_out=4) == "30% after 150 steps; with d_out 16 it would reach 99%."
    both = {"learning_rate": 0.1, "dropout": 0.8}
    named = "with learning rate 0.01 and dropout 0.2 it would reach 99%."
    assert said(200, 0.62, num_heads=2, **both) == f"62% after 200 steps; {named}"
    assert said(200, 0.62, num_heads=2).startswith("Training")
    assert said(200, 0.99, num_heads=2, **both).startswith("Training")
    assert fixes("two questions", **SIZES | {"num_heads": 2}) == {}


def test_learned_stays_said_and_heads_are_named_only_where_they_read_what_is_wanted():
    event = "Learned: 99% for 20 steps, from step 26 on."
    assert said(60, 0.98, learned=26, num_heads=2) == f"{event} Head 1 reads “E 9”, head 2 reads “I 0”."
    assert said(60, 1.0, learned=26, num_heads=2, reads=(3, 1)) == f"{event} Head 1 reads “I 0”, head 2 reads “E 9”."
    assert said(60, 1.0, learned=26, num_heads=2, reads=(3, 3)) == event
    assert said(60, 1.0, learned=26, num_heads=4, reads=(1, 3, 1, 3)) == event
    assert said(60, 1.0, learned=26, loss=math.nan) == "The loss isn't a number any more: the steps were too large."


def test_the_leak_is_named_only_where_two_losses_tell_of_it():
    of_text = {"task": "next character"}
    assert said(10, 0.3, **of_text) == "Training: with every step, each character reads differently."
    honest, leaky = Honest(20, 2.75, 2.5), Honest(40, 6.5, 0.25)
    assert said(20, 0.3, honest=[honest], **of_text) == "Its loss on new text is 2.50, and 2.75 with no future to read."
    assert said(40, 0.9, honest=[honest, leaky], **of_text) == (
        "It reads what it should predict: its loss is 0.25, but 6.50 with no future to read."
    )

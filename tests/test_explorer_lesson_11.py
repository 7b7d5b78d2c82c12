"""Notebook 11's explorer: what the stored model does past its training length, and where its curves lie."""

import pytest
from explorer_page import SVG, check_claim, readouts, tree_of

from attention_course import explorers
from attention_course.explorers.base import Markup


@pytest.fixture(scope="module")
def length():
    return explorers.LengthExplorer()


STATES = [  # state, headline, and what its second readout says of pair 2, which turns by 0.1 radians per token
    ({}, "… 32 characters. Loss on the first 32: ≈ 1.41, on the last 32 of 64: ≈ 2.75", "6.30 … 3.10"),
    ({"length": 32}, "… 32 characters. Loss on the first 32: ≈ 1.41", "3.10 … 3.10"),
    ({"length": 256}, "… 32 characters. … 32: ≈ 1.41, on the last 32 of 256: ≈ 4.38", "25.50 … 3.10"),
    ({"length": 256, "window": 32}, "… 32 characters. … 32: ≈ 1.41, on the last 32 of 256: ≈ 1.54", "3.10 … 3.10"),
    ({"length": 128, "factor": 4}, "… 32 characters. … 32: ≈ 1.95, on the last 32 of 128: ≈ 2.17", "3.18 … 3.10"),
]


@pytest.mark.parametrize(("state", "said", "turns"), STATES)
def test_what_the_stored_model_does(length, state, said, turns):
    length.set(**length._first | state)
    check_claim(length.said, said)
    check_claim(readouts(length)["pair 2"], f"turns by up to {turns.replace('…', 'radians, in training by')}")
    check_claim(Markup(length.message.value), "" if "factor" in state else "rule does nothing here: factor 1 …")


def test_a_window_no_narrower_than_the_text_is_said_to_do_nothing(length):
    for window in (16, 32):
        length.set(**length._first | {"length": 32, "window": window, "factor": 2})
        assert ("window does nothing here" in length.message.value) == (window == 32)


def curves(explorer):
    """The two charts' curves, as lists of (place, value), read with the labels on their axes."""
    for chart, (low, high) in zip(tree_of(explorer).iter(f"{SVG}svg"), (("0", "5"), ("-20", "15")), strict=True):
        labels = list(chart.iter(f"{SVG}text"))
        across = {each.text: float(each.get("x")) for each in labels if each.get("text-anchor") == "middle"}
        up = {each.text: float(each.get("y")) - 4 for each in labels if each.get("text-anchor") == "end"}
        [path] = [path for path in chart.iter(f"{SVG}path") if path.get("stroke-width") == "2"]
        spots = [map(float, spot.split()) for spot in path.get("d")[1:].split("L")]
        to_place = 224 / (across["256"] - across["32"])
        to_value = (float(high) - float(low)) / (up[high] - up[low])
        yield [(32 + (x - across["32"]) * to_place, float(low) + (y - up[low]) * to_value) for x, y in spots]


def test_the_curves_are_scores_by_distance_and_means_of_eight_losses(length):
    length.set(**length._first | {"length": 96, "window": 48, "pair": "2"})
    losses, scores = curves(length)
    assert scores == [pytest.approx((n, value), abs=0.1) for n, value in enumerate(length.arrays.scores.tolist())]
    means = length.arrays.losses.view(12, 8).mean(dim=1).tolist()
    assert losses == [pytest.approx((8 * n + 3.5, value), abs=0.1) for n, value in enumerate(means)]
    assert len(scores) == 48


def test_the_grey_ground_begins_where_training_ended_and_the_line_is_the_loss_of_knowing_nothing(length):
    length.set(**length._first)
    for chart in tree_of(length).iter(f"{SVG}svg"):
        [x] = [float(text.get("x")) for text in chart.iter(f"{SVG}text") if text.text == "32"]
        [ground] = [float(rect.get("x")) for rect in chart.iter(f"{SVG}rect")]
        assert ground == x
    chart = next(tree_of(length).iter(f"{SVG}svg"))
    y = {text.text: float(text.get("y")) for text in chart.iter(f"{SVG}text")}
    [level] = [path.get("d") for path in chart.iter(f"{SVG}path") if path.get("stroke-dasharray")]
    share = (float(level.rpartition(" ")[2]) + 4 - y["4"]) / (y["3"] - y["4"])
    assert 4 - share == pytest.approx(3.87, abs=0.01)  # 48 characters: e ** 3.87

"""Notebook 11's explorer: where its curves lie; explorer_checks_07_14.py says what they show."""

import pytest
from explorer_page import SVG, tree_of

from attention_course import explorers


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


def test_the_curves_are_scores_by_distance_and_means_of_eight_losses():
    length = explorers.LengthExplorer()
    length.set(length=96, window=48, pair="2")
    losses, scores = curves(length)
    assert scores == [pytest.approx((n, value), abs=0.1) for n, value in enumerate(length.arrays.scores.tolist())]
    means = length.arrays.losses.view(12, 8).mean(dim=1).tolist()
    assert losses == [pytest.approx((8 * n + 3.5, value), abs=0.1) for n, value in enumerate(means)]
    assert len(scores) == 48

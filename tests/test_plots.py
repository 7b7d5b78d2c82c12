"""Figures show the arrays they were given; we check the artists' data, because comparing pixels is fragile."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from attention_course import plots

TABLE = np.array([[0.1, 0.9], [0.75, 0.25]])
NAMES = ["a", "b"]


@pytest.fixture
def ax():
    return plots.new_figure()[1][0]


def test_a_heatmap_shows_its_table(ax):
    plots.draw_heatmap(ax, TABLE, NAMES, ["x", "y"], "title", limits=(0, 1))
    [image] = ax.images
    assert np.array_equal(image.get_array(), TABLE)
    assert [text.get_text() for text in ax.texts] == ["0.10", "0.90", "0.75", "0.25"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["x", "y"]
    assert [label.get_text() for label in ax.get_yticklabels()] == NAMES
    assert image.get_clim() == (0, 1)


def test_colours_start_at_zero_which_is_the_page(ax):
    plots.draw_heatmap(ax, [[1.0, 2.0], [3.0, 0.0]], NAMES, NAMES)
    plots.draw_heatmap(ax, torch.tensor([[1.0, -3.0], [2.0, 0.0]]), NAMES, NAMES)
    plain, signed = ax.images
    assert (plain.get_clim(), signed.get_clim()) == ((0, 3), (-3, 3))
    assert (plain.cmap(0.0)[3], signed.cmap(0.5)[3]) == (0, pytest.approx(0, abs=0.01))
    assert [to_hex(signed.cmap(end)).upper() for end in (0.0, 1.0)] == [plots.BELOW, plots.ABOVE]


def test_influence_is_grey_and_the_future_outlined(ax):
    values, names = np.linspace(0, 1, 25).reshape(5, 5), list("01234")
    plots.draw_influence(ax, values, names, "title", limits=(0, 2))
    [image] = ax.images
    assert np.array_equal(image.get_array(), values)
    assert image.get_clim() == (0, 2)
    assert len(set(image.cmap(1.0)[:3])) == 1
    assert {to_hex(patch.get_edgecolor()).upper() for patch in ax.patches} == {plots.ABOVE}
    for i, j in np.ndindex(values.shape):
        assert any(patch.get_path().contains_point((j, i)) for patch in ax.patches) == (j > i)


def test_bars_lines_and_arrows_show_their_numbers():
    _, axes = plots.new_figure(columns=3)
    plots.draw_bars(axes[0], {"one": [1, 2], "two": [3, 4]}, NAMES)
    assert [bar.get_height() for bar in axes[0].patches] == [1, 2, 3, 4]
    plots.draw_lines(axes[1], [1, 2, 8], {"y": torch.tensor([3.0, 2.0, 1.0])})
    assert axes[1].lines[0].get_xydata().tolist() == [[1, 3], [2, 2], [8, 1]]
    plots.draw_arrows(axes[2], [[1.0, 2.0]], ["v"])
    assert axes[2].lines[0].get_xydata().tolist() == [[0, 0], [1, 2]]

"""Figures show the arrays they were given; we check the artists' data, because comparing pixels is fragile."""

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from attention_helpers import causal_mask, plots

TABLE = np.array([[0.1, 0.9], [0.75, 0.25]])
NAMES = ["a", "b"]


@pytest.fixture
def ax():
    return plots.new_figure()[1][0]


def texts(heatmap):
    return [text.get_text() for text in heatmap.numbers]


def test_a_heatmap_shows_its_table(ax):
    heatmap = plots.draw_heatmap(ax, TABLE, NAMES, ["x", "y"], "title", limits=(0, 1))
    assert np.array_equal(heatmap.image.get_array(), TABLE)
    assert texts(heatmap) == ["0.10", "0.90", "0.75", "0.25"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["x", "y"]
    assert [label.get_text() for label in ax.get_yticklabels()] == NAMES
    assert heatmap.image.get_clim() == (0, 1)


def test_a_hidden_cell_is_not_drawn_as_zero(ax):
    heatmap = plots.draw_heatmap(ax, torch.zeros(2, 2), NAMES, NAMES, hidden=causal_mask(2), limits=(0, 1))
    assert np.ma.getmaskarray(heatmap.image.get_array()).tolist() == [[False, True], [False, False]]
    assert np.ma.getmaskarray(heatmap.hidden.get_array()).tolist() == [[True, False], [True, True]]
    assert texts(heatmap) == ["0.00", "", "0.00", "0.00"]


def test_limits_ignore_hidden_and_infinite_cells(ax):
    heatmap = plots.draw_heatmap(ax, [[1.0, -np.inf], [3.0, 99.0]], NAMES, NAMES, hidden=[[0, 0], [0, 1]])
    assert heatmap.image.get_clim() == (0, 3)  # zero is the page
    assert heatmap.image.cmap(0.0)[3] == 0
    signed = plots.draw_heatmap(ax, [[1.0, -3.0], [2.0, 0.0]], NAMES, NAMES)
    assert signed.image.get_clim() == (-3, 3)
    assert signed.image.cmap(0.5)[3] == pytest.approx(0, abs=0.01)
    assert [to_hex(signed.image.cmap(end)).upper() for end in (0.0, 1.0)] == [plots.BELOW, plots.ABOVE]


def test_influence_is_grey_and_the_future_outlined(ax):
    values, names = np.linspace(0, 1, 25).reshape(5, 5), list("01234")
    heatmap = plots.draw_influence(ax, values, names, "title", limits=(0, 2))
    assert np.array_equal(heatmap.image.get_array(), values)
    assert heatmap.image.get_clim() == (0, 2)
    assert len(set(heatmap.image.cmap(1.0)[:3])) == 1
    assert {to_hex(patch.get_edgecolor()).upper() for patch in ax.patches} == {plots.ABOVE}
    for i, j in np.ndindex(values.shape):
        assert any(patch.get_path().contains_point((j, i)) for patch in ax.patches) == (j > i)


def test_bars_lines_and_arrows_show_their_numbers():
    _, axes = plots.new_figure(columns=3)
    bars = plots.draw_bars(axes[0], {"one": [1, 2], "two": [3, 4]}, NAMES)
    assert [[bar.get_height() for bar in group] for group in bars] == [[1, 2], [3, 4]]
    [line] = plots.draw_lines(axes[1], [1, 2, 8], {"y": torch.tensor([3.0, 2.0, 1.0])}, log="x")
    assert line.get_xydata().tolist() == [[1, 3], [2, 2], [8, 1]]
    plots.draw_arrows(axes[2], [[1.0, 2.0]], ["v"])
    assert axes[2].lines[0].get_xydata().tolist() == [[0, 0], [1, 2]]

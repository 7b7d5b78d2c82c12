"""Figures show the arrays they were given; we check the artists' data, because comparing pixels is fragile."""

import numpy as np
import pytest
import torch

from attention_course import plots

TABLE = np.array([[0.1, 0.9], [0.75, 0.25]])


@pytest.fixture
def axes():
    return plots.new_figure(columns=3)[1]


def test_a_heatmap_shows_its_table_with_its_numbers_and_zero_is_the_page(axes):
    plots.draw_heatmap(axes[0], TABLE, ["a", "b"], ["x", "y"], "title", limits=(0, 1))
    plots.draw_heatmap(axes[1], torch.tensor([[1.0, -3.0], [2.0, 0.0]]), ["a", "b"], ["x", "y"])
    [image], [signed] = axes[0].images, axes[1].images
    assert np.array_equal(image.get_array(), TABLE)
    assert [text.get_text() for text in axes[0].texts] == ["0.10", "0.90", "0.75", "0.25"]
    labels = axes[0].get_xticklabels() + axes[0].get_yticklabels()
    assert [label.get_text() for label in labels] == ["x", "y", "a", "b"]
    assert (image.get_clim(), signed.get_clim()) == ((0, 1), (-3, 3))
    assert signed.cmap(0.5)[3] == pytest.approx(0, abs=0.01)


def test_the_future_is_outlined(axes):
    values, names = np.linspace(0, 1, 25).reshape(5, 5), list("01234")
    plots.draw_influence(axes[0], values, names, "title", limits=(0, 2))
    assert np.array_equal(axes[0].images[0].get_array(), values)
    for i, j in np.ndindex(values.shape):
        assert any(patch.get_path().contains_point((j, i)) for patch in axes[0].patches) == (j > i)


def test_bars_lines_and_arrows_show_their_numbers(axes):
    plots.draw_bars(axes[0], {"one": [1, 2], "two": [3, 4]}, ["a", "b"])
    assert [bar.get_height() for bar in axes[0].patches] == [1, 2, 3, 4]
    plots.draw_lines(axes[1], [1, 2, 8], {"y": torch.tensor([3.0, 2.0, 1.0])})
    assert axes[1].lines[0].get_xydata().tolist() == [[1, 3], [2, 2], [8, 1]]
    plots.draw_arrows(axes[2], [[1.0, 2.0]], ["v"])
    assert axes[2].lines[0].get_xydata().tolist() == [[0, 0], [1, 2]]

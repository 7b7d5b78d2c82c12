"""Figures show the arrays they were given; we check the artists' data, because comparing pixels is fragile."""

import numpy as np
import pytest
import torch

from attention_course import plots

TABLE = np.array([[0.1, 0.9], [0.75, 0.25]])


@pytest.fixture
def axes():
    return plots.new_figure(columns=2)[1]


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


def test_bars_and_lines_show_their_numbers(axes):
    plots.draw_bars(axes[0], {"one": [1, 2], "two": [3, 4]}, ["a", "b"])
    assert [bar.get_height() for bar in axes[0].patches] == [1, 2, 3, 4]
    plots.draw_lines(axes[1], [1, 2, 8], {"y": torch.tensor([3.0, 2.0, 1.0])})
    assert axes[1].lines[0].get_xydata().tolist() == [[1, 3], [2, 2], [8, 1]]

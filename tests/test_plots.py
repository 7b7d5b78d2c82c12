"""Figures show the arrays they were given; we check the artists' data, because comparing pixels is fragile."""

import pytest
import torch

from attention_course import plots


@pytest.fixture
def axes():
    return plots.new_figure(columns=2)[1]


def test_bars_and_lines_show_their_numbers(axes):
    plots.draw_bars(axes[0], {"one": [1, 2], "two": [3, 4]}, ["a", "b"])
    assert [bar.get_height() for bar in axes[0].patches] == [1, 2, 3, 4]
    plots.draw_lines(axes[1], [1, 2, 8], {"y": torch.tensor([3.0, 2.0, 1.0])})
    assert axes[1].lines[0].get_xydata().tolist() == [[1, 3], [2, 2], [8, 1]]

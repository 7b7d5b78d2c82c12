"""Figures show the arrays they were given; we check the artists' data, because comparing pixels is fragile."""

import torch

from attention_course import plots


def test_bars_and_lines_show_their_numbers():
    bars, lines = plots.new_figure(columns=2)[1]
    plots.draw_bars(bars, {"one": [1, 2], "two": [3, 4]}, ["a", "b"])
    assert [bar.get_height() for bar in bars.patches] == [1, 2, 3, 4]
    plots.draw_lines(lines, [1, 2, 8], {"y": torch.tensor([3.0, 2.0, 1.0])})
    assert lines.lines[0].get_xydata().tolist() == [[1, 3], [2, 2], [8, 1]]

"""`make bench` measures something. The times themselves aren't tested: other work on the machine moves them."""

from tools.bench import explorers


def test_a_new_explorer_and_each_of_its_controls_get_a_time(capsys):
    explorers.main(["ScoresExplorer"])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[:2] for row in rows] == [["ScoresExplorer", what] for what in ("new", "query", "temperature")]
    assert all(0 < float(median) <= float(most) for _, _, median, most, *_ in rows)

"""A notebook from before the course's parts were renamed says so in one sentence."""

import pytest
from IPython.core.interactiveshell import InteractiveShell


@pytest.mark.parametrize(("session", "number"), [("/home/ann/workbook/07_watch.ipynb", "07"), ("", "NN")])
@pytest.mark.parametrize(
    "cell",
    [
        "from attention_helpers.beyond.training import Training",
        "from attention_helpers.beyond import costs",
        "import torch; from attention_helpers import influence; influence(torch.sin, torch.ones(2, 3)).poke",
    ],
)
def test_an_old_import_shows_one_sentence_and_the_way_out(cell, session, number, monkeypatch, capsys):
    monkeypatch.setenv("JPY_SESSION_NAME", session)
    assert not InteractiveShell().run_cell(cell).success
    shown = capsys.readouterr().out.strip()
    assert "\n" not in shown
    assert f"`make reset NOTEBOOK={number}`" in shown

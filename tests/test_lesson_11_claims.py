"""Notebook 11's claims hold for ten models: the stored one and nine that are trained from other seeds."""

import contextlib
import io

import pytest
from course import FREE, LESSONS, code_cells, read, tags
from test_lesson_07_claims import claims, stored, with_seed

from attention_helpers import plots
from attention_helpers.training import rotary
from tools.training.train_rotary_models import trained_model

[NOTEBOOK] = [path for path in LESSONS if path.name.startswith("11")]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 10))
def test_the_claims_hold(seed, monkeypatch):
    made = {positions: trained_model(positions, seed).state_dict() for positions in rotary.BASES}

    def trained(positions="rotary"):
        model = rotary.RotaryModel(rotary.short_texts(), base=rotary.BASES[positions])
        model.load_state_dict(made[positions])
        return model.eval()

    captions, names, differ = [], {}, []
    monkeypatch.setattr(rotary, "trained", trained)
    monkeypatch.setattr(plots, "show_figure", lambda figure, caption: captions.append(f"{caption}"))
    for cell in code_cells(read(NOTEBOOK)):
        captions.clear()
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(with_seed(cell.source, seed), cell.id, "exec"), names)
        said = claims(printed.getvalue().splitlines(), captions)
        if FREE not in tags(cell) and said != stored(cell):
            differ.append((cell.id, said, stored(cell)))
    assert differ == []

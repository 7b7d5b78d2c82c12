"""Notebook 11's claims hold for ten models: the stored one and nine that are trained from other seeds."""

import pytest
from course import LESSONS
from test_watch_attention_learn_claims import differing

from attention_helpers.training import rotary
from tools.training.make_data import rotary_model

[NOTEBOOK] = [path for path in LESSONS if path.name.startswith("11")]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 10))
def test_the_claims_hold(seed, monkeypatch):
    made = {positions: rotary_model(positions, seed).state_dict() for positions in rotary.BASES}

    def trained(positions="rotary"):
        model = rotary.RotaryModel(rotary.short_texts(), base=rotary.BASES[positions])
        model.load_state_dict(made[positions])
        return model.eval()

    monkeypatch.setattr(rotary, "trained", trained)
    assert differing(NOTEBOOK, seed, monkeypatch) == []

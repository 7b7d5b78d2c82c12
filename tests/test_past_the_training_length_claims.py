"""Notebook 11's claims hold for ten models: the stored one and nine that are trained from other seeds."""

import pytest
from course import LESSONS
from test_watch_attention_learn_claims import differing

from attention_helpers.training import small_models
from tools.training import make_data

[NOTEBOOK] = [path for path in LESSONS if path.name.startswith("11")]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 10))
def test_the_claims_hold(seed, monkeypatch, tmp_path):
    monkeypatch.setattr(small_models, "FILE", tmp_path / "trained.npz")
    make_data.trained_models(small_models.FILE, names=["rotary"], seed=seed)
    assert differing(NOTEBOOK, seed, monkeypatch) == []

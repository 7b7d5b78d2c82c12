"""What explorers have stored is what the commands measure that are said to make it."""

import zlib

import numpy as np
import pytest
import torch

from attention_course.explorers import dropout, past_the_training_length
from attention_helpers.training import small_models
from attention_helpers.training.characters import load_text
from tools.training import make_data


def test_the_text_is_the_one_that_stored_models_were_trained_on():
    """After a change, train them again: make trained-models long-texts."""
    assert zlib.crc32(load_text().encode()) == 1832836634


@pytest.mark.slow
def test_the_losses_and_maps_of_notebook_04_are_trained_again(tmp_path):
    make_data.overfitting(tmp_path / "again.npz")
    with np.load(dropout.RUNS_FILE) as stored, np.load(tmp_path / "again.npz") as again:
        for name in stored:
            np.testing.assert_allclose(again[name], stored[name], rtol=0, atol=1e-4)


@pytest.mark.slow
def test_the_losses_and_scores_of_notebook_11_are_measured_again(tmp_path):
    """Two scalings of thirteen: none, and the rule that has a factor of its own, which multiplies scores."""
    some = [0, past_the_training_length.SCALINGS.index(("YaRN", 4))]
    make_data.long_texts(tmp_path / "again.npz", [past_the_training_length.SCALINGS[n] for n in some])
    with np.load(past_the_training_length.SCORES_FILE) as stored, np.load(tmp_path / "again.npz") as again:
        for name in stored:
            np.testing.assert_allclose(again[name], stored[name][some], rtol=1e-4, atol=2 * (name == "scores") or 1e-4)


def test_the_command_trains_what_notebooks_load(tmp_path, monkeypatch):
    """One step of each, from the same first weights; AdamW's first step moves no weight by more than its rate."""
    monkeypatch.setattr(small_models, "FILE", tmp_path / "few.npz")
    make_data.trained_models(small_models.FILE, steps=1)
    torch.manual_seed(0)
    first = small_models.WritingModel(48)
    again = small_models.load("writing")
    for name, part in again.named_parameters():
        assert (part - first.get_parameter(name)).abs().max() < 0.01
    assert not torch.allclose(again.embed.weight, first.embed.weight, atol=1e-3)
    assert small_models.load("leaky").attention.mask.sum() == 0

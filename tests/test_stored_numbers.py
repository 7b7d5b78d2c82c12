"""What explorers have stored is what the commands measure that are said to make it."""

import numpy as np
import pytest

from attention_course.explorers import dropout, past_the_training_length
from tools.training import make_data


@pytest.mark.slow
def test_the_losses_and_maps_of_notebook_04_are_trained_again(tmp_path):
    make_data.overfitting(tmp_path / "again.npz")
    with np.load(dropout.FILE) as stored, np.load(tmp_path / "again.npz") as again:
        for name in stored:
            np.testing.assert_allclose(again[name], stored[name], rtol=0, atol=1e-4)


@pytest.mark.slow
def test_the_losses_and_scores_of_notebook_11_are_measured_again(tmp_path):
    """Two scalings of thirteen: none, and the rule that has a factor of its own, which multiplies scores."""
    some = [0, past_the_training_length.SCALINGS.index(("YaRN", 4))]
    make_data.long_texts(tmp_path / "again.npz", [past_the_training_length.SCALINGS[n] for n in some])
    with np.load(past_the_training_length.FILE) as stored, np.load(tmp_path / "again.npz") as again:
        for name in stored:
            np.testing.assert_allclose(again[name], stored[name][some], rtol=1e-4, atol=2 * (name == "scores") or 1e-4)

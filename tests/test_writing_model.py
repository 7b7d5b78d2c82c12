"""The model with which notebook 10 writes, its stored weights, and the command that made them."""

import numpy as np
import pytest
import torch

from attention_helpers.training import writing
from tools.training import make_data

TEXT = writing.task().held_out[None, : writing.CONTEXT_LENGTH]


def test_in_chunks_of_any_length_it_predicts_as_at_once():
    model, past, caches, parts = writing.trained(), 0, None, []
    for chunk in TEXT.split((50, 1, 1, 76), dim=1):
        logits, caches = model(chunk, past, caches)
        past += chunk.shape[1]
        parts.append(logits)
    torch.testing.assert_close(torch.cat(parts, dim=1), model(TEXT)[0], atol=1e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="at most 128 characters, got 129"):
        model(TEXT[:, :1], past, caches)


def test_the_stored_model_has_learned_to_predict():
    x, targets = writing.task().unseen()
    assert writing.task().loss(writing.trained()(x)[0], targets) < 2  # equal probabilities: 3.9, pairs alone: 2.3


def test_a_text_comes_back_from_its_token_ids():
    model = writing.trained()
    assert model.text_of(model.ids_of("Anna gave")) == "Anna gave"


def test_the_command_writes_what_the_notebook_reads_and_trains(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "FILE", tmp_path / "few.npz")
    make_data.writing_model(path=writing.FILE, steps=2)
    with np.load(writing.FILE) as parts:
        assert {parts[name].dtype for name in parts} == {np.dtype("float16")}
    torch.manual_seed(0)
    untrained = writing.WritingModel(writing.task().vocabulary)
    for name, part in writing.trained().named_parameters():
        assert (part - untrained.get_parameter(name)).abs().max() < 0.02  # two steps of AdamW at 0.005
    assert not torch.allclose(writing.trained().embed.weight, untrained.embed.weight, atol=1e-3)

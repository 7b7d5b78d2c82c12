"""The course's language model against transformers: with its stored figures."""

import json
from pathlib import Path

import pytest
import torch

from attention_helpers import max_difference

FIGURES = json.loads(Path(__file__).with_name("language_model.json").read_text(encoding="utf-8"))


def test_texts_become_the_codes_of_another_implementation_and_come_back(language_model):
    for figures in FIGURES:
        token_ids = language_model.encode(figures["text"])
        assert token_ids[0].tolist() == figures["token_ids"]
        assert language_model.decode(token_ids) == figures["text"]


def test_a_character_that_no_tokens_spell_is_refused(language_model):
    with pytest.raises(ValueError, match="text must hold only what the model has tokens for, got"):
        language_model.encode("a\x04b")


def test_stored_figures_of_another_implementation(language_model):
    for figures in [FIGURES[n] for n in (0, 2, 9)]:  # the shortest, the longest and one with chat symbols
        look = language_model.look(language_model.encode(figures["text"]))
        assert max_difference(look.logits[0, -1, figures["next"]], torch.tensor(figures["logits"])) < 1e-3
        for name, row in figures["rows"].items():
            layer, head = map(int, name.split())
            assert max_difference(look.maps[0, layer, head, -1], torch.tensor(row)) < 1e-5, (figures["text"], name)

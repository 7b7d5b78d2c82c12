"""The course's language model against transformers: with its stored figures."""

import json
from pathlib import Path

import pytest
import torch

from attention_helpers import max_difference
from attention_helpers.language_model.model import generate

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


def test_the_toy_sentence_is_completed(language_model):
    text = language_model.encode("Your journey starts with one")
    shares, best = language_model(text)[0, -1].softmax(dim=-1).topk(2)
    assert language_model.words(best) == [" step", "."]
    assert shares[0].item() == pytest.approx(0.1037, abs=1e-3)
    assert generate(language_model, "Your journey starts with one", 4) == " step at a time"

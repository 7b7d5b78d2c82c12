"""The course's language model against transformers: with its stored figures."""

import json
from pathlib import Path

import pytest
import torch

from attention_helpers import max_difference
from attention_helpers.language_model.head_roles import best_heads, find_roles, loss, repeated_tokens, weight_at
from attention_helpers.language_model.model import generate, next_tokens

FIGURES = json.loads(Path(__file__).with_name("language_model.json").read_text(encoding="utf-8"))
INDUCTION = {(18, 6), (17, 3), (17, 4), (17, 5), (18, 7)}


def test_texts_become_the_codes_of_another_implementation_and_come_back(language_model):
    for figures in FIGURES:
        token_ids = language_model.encode(figures["text"])
        assert token_ids[0].tolist() == figures["token_ids"]
        assert language_model.decode(token_ids) == figures["text"]


def test_a_character_that_no_tokens_spell_is_refused(language_model):
    with pytest.raises(ValueError, match="text must hold only what the model has tokens for, got"):
        language_model.encode("a\x04b")


# The shortest, the longest and one with chat symbols; the slow run takes all of them, at 0.2 s each.
SOME, ALL = (0, 2, 9), pytest.param(range(len(FIGURES)), marks=pytest.mark.slow)


@pytest.mark.parametrize("chosen", [SOME, ALL], ids=["some", "all"])
def test_stored_figures_of_another_implementation(language_model, chosen):
    for figures in [FIGURES[n] for n in chosen]:
        look = language_model.look(language_model.encode(figures["text"]))
        assert max_difference(look.logits[0, -1, figures["next"]], torch.tensor(figures["logits"])) < 1e-3
        for name, row in figures["rows"].items():
            layer, head = map(int, name.split())
            assert max_difference(look.maps[0, layer, head, -1], torch.tensor(row)) < 1e-5, (figures["text"], name)


def test_the_toy_sentence_is_completed(language_model):
    (first, share), (second, _) = next_tokens(language_model, "Your journey starts with one", 2)
    assert (first, second) == (" step", ".")
    assert share == pytest.approx(0.1037, abs=1e-3)
    assert generate(language_model, "Your journey starts with one", 4) == " step at a time"


def test_heads_are_found_by_their_jobs_and_switched_off(language_model):
    """Ablating the five is a catastrophe for repeated text, but not for ordinary text."""
    token_ids = repeated_tokens(language_model)
    maps = language_model.look(token_ids).maps[0]
    found = best_heads(weight_at(maps, 31, start=32))
    assert set(found) == INDUCTION
    assert set(best_heads(weight_at(maps, 1), 2)) == {(16, 0), (11, 1)}
    assert best_heads(weight_at(maps, 32, start=32), 1) == [(14, 3)]
    assert set(find_roles(language_model, texts=2)[0].heads()[:5]) == INDUCTION
    assert loss(language_model, token_ids, 33, found) > loss(language_model, token_ids, 33) + 5
    ordinary = language_model.encode(FIGURES[2]["text"])
    assert abs(loss(language_model, ordinary, ablate=found) - loss(language_model, ordinary)) < 0.5

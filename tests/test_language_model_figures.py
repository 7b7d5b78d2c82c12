"""The course's language model, and small models of every family, against transformers: with its stored figures."""

import json
import unicodedata
import zlib
from pathlib import Path

import pytest
import torch
from random_models import drawn_strings, drawn_texts, write_family

from attention_helpers import max_difference
from attention_helpers.language_model.model import load_model
from attention_helpers.language_model.tokenizer import make_tokenizer


def stored(name):
    return json.loads(Path(__file__).with_name(f"{name}.json").read_text(encoding="utf-8"))


FIGURES = stored("language_model")


def test_texts_become_the_codes_of_another_implementation_and_come_back(language_model):
    for figures in FIGURES:
        token_ids = language_model.encode(figures["text"])
        assert token_ids[0].tolist() == figures["token_ids"]
        assert language_model.decode(token_ids) == figures["text"]


def test_stored_figures_of_another_implementation(language_model):
    for figures in [FIGURES[n] for n in (0, 2, 9)]:  # the shortest, the longest and one with chat symbols
        look = language_model.look(language_model.encode(figures["text"]))
        assert max_difference(look.logits[0, -1, figures["next"]], torch.tensor(figures["logits"])) < 1e-3
        for name, row in figures["rows"].items():
            layer, head = map(int, name.split())
            assert max_difference(look.maps[0, layer, head, -1], torch.tensor(row)) < 1e-5, (figures["text"], name)


FAMILIES = stored("language_model_families")


@pytest.mark.parametrize("figures", FAMILIES, ids=lambda figures: f"{figures['name']} {figures['kind']}")
def test_logits_and_greedy_tokens_are_those_of_another_implementation(figures, tmp_path):
    model = load_model(write_family(tmp_path / "random.gguf", figures["name"], figures["kind"]), tmp_path)
    for text, (written, best, logits) in zip(drawn_texts(), figures["texts"], strict=True):
        found, _, caches = model.run(torch.tensor([text]))
        assert max_difference(found[0, -1, best], torch.tensor(logits)) < 1e-4
        for token_id in written:
            assert found[0, -1].argmax() == token_id
            found, _, caches = model.run(torch.tensor([[token_id]]), caches)
        for cache, window in zip(caches, (block.attention.window for block in model.blocks), strict=True):
            assert cache.keys.shape[2] == min(cache.past, window - 1 if window else cache.past)


TOKENIZERS = stored("language_model_tokenizers")


def fields_of(figures):
    """A GGUF file's keys for a stored vocabulary."""
    name, tokens = figures["name"], figures["tokens"]
    made = {"tokens": tokens, "model": "gpt2", "pre": name, "merges": figures["merges"]}
    if not figures["merges"]:  # those over characters, named by their family, imply theirs
        scores = [-float(place) for place in range(len(tokens))]
        made = {"tokens": tokens, "model": "llama", "pre": "default", "scores": scores, "unknown_token_id": 0}
    return {"general.architecture": name} | {f"tokenizer.ggml.{key}": value for key, value in made.items()}


@pytest.mark.parametrize("figures", TOKENIZERS, ids=lambda figures: figures["name"])
def test_200_strings_become_the_token_ids_of_another_implementation_and_come_back(figures):
    tokenizer = make_tokenizer(fields_of(figures))
    for text, checksum in zip(drawn_strings(), figures["ids"], strict=True):
        ids = tokenizer.encode(text).ids
        assert zlib.crc32(json.dumps(ids).encode()) == checksum, text
        meant = unicodedata.normalize("NFC", text) if figures["name"] == "qwen2" else text
        assert tokenizer.decode(ids, skip_special_tokens=False) in (meant, f" {meant}")

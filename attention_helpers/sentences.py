"""Sentences in data/: toy ones, with an embedding per token, and real ones, with what a head of a real model reads."""

import json
from typing import NamedTuple

import torch

from ._data import data_file

REAL_SENTENCES = data_file("real_sentence.json")


class Sentence(NamedTuple):
    """A sentence's tokens (a list of str) and embeddings, float32 (num_tokens, d_in)."""

    tokens: list
    embeddings: torch.Tensor


def load_sentence(name):
    """Read one toy sentence by name: "journey" (6 tokens of width 3), "cat" (3 tokens of width 6), "lookup" or
    "two_lookups" (4 one-hot tokens of width 7 or 12; data/README.md names their entries).

    Returns a Sentence: tokens, and embeddings of shape (num_tokens, d_in). Source of the numbers: data/README.md.
    Errors: ValueError if there's no sentence of that name.
    """
    sentences = json.loads(data_file("sentences.json").read_text(encoding="utf-8"))
    if name not in sentences:
        raise ValueError(f"name must be one of {', '.join(sorted(sentences))}, got {name!r}")
    return Sentence(sentences[name]["tokens"], torch.tensor(sentences[name]["embeddings"], dtype=torch.float32))


def load_real_sentences():
    """What one head of notebook 13's model reads in real sentences: a dict, which data/README.md explains."""
    return json.loads(REAL_SENTENCES.read_text(encoding="utf-8"))

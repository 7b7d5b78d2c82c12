"""A toy sentence: its tokens and one embedding per token, read from data/."""

import json
from typing import NamedTuple

import torch

from ._data import data_file

SENTENCES = data_file("sentences.json")


class Sentence(NamedTuple):
    """A sentence's tokens (a list of str) and embeddings, float32 (num_tokens, d_in)."""

    tokens: list
    embeddings: torch.Tensor


def load_sentence(name):
    """Read one toy sentence by name: "journey" (6 tokens of width 3), "cat" (3 tokens of width 6), "lookup" or
    "two_lookups" (4 one-hot tokens of width 7 or 12; data/README.md names their entries).

    Returns a Sentence: tokens, and embeddings of shape (num_tokens, d_in).
    Errors: TypeError if name isn't a string; ValueError if there's no sentence of that name.
    Source of the numbers: data/README.md.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {name!r}")
    sentences = json.loads(SENTENCES.read_text(encoding="utf-8"))
    if name not in sentences:
        raise ValueError(f"name must be one of {', '.join(sorted(sentences))}, got {name!r}")
    return Sentence(sentences[name]["tokens"], torch.tensor(sentences[name]["embeddings"], dtype=torch.float32))

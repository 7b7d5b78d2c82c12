"""A toy sentence: its tokens and one embedding per token, read from data/."""

import json
from typing import NamedTuple

import torch

from ._data import data_file


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

"""A toy sentence: its tokens and one embedding per token, read from data/."""

import json
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import torch

from ._data import data_file

SENTENCES = data_file("sentences.json")


class Sentence(NamedTuple):
    """A sentence's tokens (a list of str) and embeddings, float32 (num_tokens, d_in)."""

    tokens: list
    embeddings: torch.Tensor


def load_sentence(name, path=SENTENCES):
    """Read one toy sentence by name: "journey" (6 tokens of width 3), "cat" (3 tokens of width 6), "lookup" or
    "two_lookups" (4 one-hot tokens of width 7 or 12; data/README.md names their entries).

    Returns a Sentence: tokens, and embeddings of shape (num_tokens, d_in).
    Errors: TypeError if name isn't a string or path isn't a path; ValueError if the file has no sentence of that name,
    or isn't valid (the message names the file and what was expected); FileNotFoundError if there is no such file.
    Source of the numbers: data/README.md.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {name!r}")
    if not isinstance(path, (str, PathLike)):
        raise TypeError(f"path must be a string or a path, got {path!r}")
    sentences = _read(path)
    if name not in sentences:
        raise ValueError(f"name must be one of {', '.join(sorted(sentences))}, got {name!r}")
    try:
        tokens = sentences[name]["tokens"]
        embeddings = torch.tensor(sentences[name]["embeddings"], dtype=torch.float32)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: sentence {name!r} must have tokens and a matrix of embeddings ({error!r})") from None
    if not isinstance(tokens, list) or embeddings.ndim != 2 or len(tokens) != len(embeddings):
        raise ValueError(
            f"{path}: sentence {name!r} must have a list of tokens and one row of embeddings for each, "
            f"got tokens {tokens!r} and embeddings of shape {tuple(embeddings.shape)}"
        )
    return Sentence(tokens, embeddings)


def _read(path):
    expected = "a JSON object: sentence name -> tokens and embeddings"
    try:
        sentences = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing; expected there: {expected}") from None
    except ValueError as error:  # not JSON, or not UTF-8
        raise ValueError(f"{path} is broken ({error}); expected: {expected}") from None
    if not isinstance(sentences, dict):
        raise ValueError(f"{path} is broken (it holds a {type(sentences).__name__}); expected: {expected}")
    return sentences

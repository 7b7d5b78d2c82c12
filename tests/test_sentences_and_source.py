"""The toy sentences, and the code that show_source shows."""

import inspect
import re

import pytest
import torch

import attention_helpers
from attention_helpers import MultiHeadAttention, attention_weights, load_sentence, show_source


def test_the_sentence_with_a_cat():
    tokens, embeddings = load_sentence("cat")
    assert (tokens[0], embeddings.shape, embeddings.dtype) == ("the", (3, 6), torch.float32)


@pytest.mark.parametrize("name", ["lookup", "two_lookups"])
def test_a_token_of_a_lookup_sentence_says_in_ones_what_its_name_says(name):
    """One entry for each symbol: a pair's letter and digit, then `?` or the first and the second letter asked for."""
    tokens, embeddings = load_sentence(name)
    asked = ["?"] if name == "lookup" else ["first A", "first B", "first C", "second A", "second B", "second C"]
    entries = ["A", "B", "C", "1", "2", "3", *asked]
    said = [{entries[place] for place in row.nonzero()} for row in embeddings]
    question = {"B", "?"} if name == "lookup" else {"first B", "second C"}
    assert said == [*(set(token.split()) for token in tokens[:-1]), question]
    assert embeddings.unique().tolist() == [0, 1]


SHOWN = [attention_helpers.SelfAttention_v1, MultiHeadAttention, attention_weights, MultiHeadAttention.split_heads]


@pytest.mark.parametrize("thing", SHOWN, ids=lambda thing: thing.__name__)
def test_source_is_shown_as_code_that_runs(thing):
    shown = show_source(thing).data
    title, code = re.fullmatch(r"`(.+)`\n\n```python\n(.+)\n```", shown, flags=re.S).groups()
    assert title == f"{thing.__module__}.{thing.__qualname__}"
    compile(code, title, "exec")  # its indentation is intact
    lines, expected = code.splitlines(), inspect.getsource(thing).rstrip().splitlines()
    assert [line.strip() for line in lines] == [line.strip() for line in expected]


def test_a_class_typed_in_a_cell_is_refused():
    scope = {"__name__": "__main__"}
    exec("class Typed: pass", scope)
    with pytest.raises(TypeError, match=r"defined in a file, got .*Typed"):
        show_source(scope["Typed"])

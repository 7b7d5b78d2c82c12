"""The toy sentences, and the code that show_source shows."""

import ast
import inspect
import textwrap

import pytest
import torch

import attention_helpers
from attention_helpers import MultiHeadAttention, causal_mask, load_sentence, show_source


def test_the_sentence_with_a_cat():
    tokens, embeddings = load_sentence("cat")
    assert (tokens[0], embeddings.shape, embeddings.dtype) == ("the", (3, 6), torch.float32)


SHOWN = [attention_helpers.SelfAttention_v1, MultiHeadAttention, causal_mask, MultiHeadAttention.forward]


@pytest.mark.parametrize("thing", SHOWN, ids=lambda thing: thing.__name__)
def test_source_is_shown_as_code_that_runs_and_is_the_same_but_for_its_docstring(thing):
    shown = show_source(thing).data
    code = shown.removeprefix("```python\n").removesuffix("\n```")
    assert shown == f"```python\n{code}\n```"
    [found], [expected] = (ast.parse(text).body for text in (code, textwrap.dedent(inspect.getsource(thing))))
    assert ast.get_docstring(found) is None
    if ast.get_docstring(expected):
        del expected.body[0]
    assert ast.dump(found) == ast.dump(expected)
    assert "\n\n" not in code.partition("\n    def")[0]

"""The stages of a MultiHeadAttention, and the lines of its code that compute them."""

import inspect
import re
from functools import lru_cache

from ..layers import MultiHeadAttention

PLACES = {  # the stages of the layer, and the beginnings of the code lines that compute them
    "tokens": "b, num_tokens",
    "queries": "queries",
    "keys": "keys",
    "values": "values",
    "scores": "scores",
    "mask": "mask",
    "softmax": "weights",
    "dropout": "context = context_vectors",
    "context": "context = context_vectors",
    "side by side": "context = context.",
    "output": "return",
}
ORDER = list(PLACES)
UNCOMMENTED = {  # the lines that don't say the shape of their result
    "b, num_tokens": "(b, num_tokens, d_in)",
    "weights": "(b, num_heads, num_tokens, num_tokens)",
    "return": "(b, num_tokens, d_out)",
}


@lru_cache
def code():
    """The lines that compute something: assignments in MultiHeadAttention.steps, and what forward returns."""
    text = inspect.getsource(MultiHeadAttention.steps) + inspect.getsource(MultiHeadAttention.forward)
    return [line for line in map(str.strip, text.splitlines()) if re.match(r"\w+(, \w+)* = |return self", line)]


def lines_at(where):
    return [line for line in code() if line.startswith(PLACES[where])]


def with_sizes(line, state):
    """A line of code with a comment that gives the present shape of its result."""
    num_heads, num_tokens, head_dim = state.steps.queries.shape[1:]
    sizes = {"b": 1, "num_heads": num_heads, "num_tokens": num_tokens, "head_dim": head_dim}
    sizes |= {"d_in": state.x.shape[1], "d_out": num_heads * head_dim}
    line, _, comment = line.partition("  # ")
    for start, shape in UNCOMMENTED.items():
        if line.startswith(start):
            comment = shape
    return f"{line}  # " + re.sub(r"\w+", lambda word: str(sizes[word[0]]), comment)


def reached(where, place):
    return ORDER.index(where) >= ORDER.index(place)

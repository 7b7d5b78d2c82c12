"""Malformed calls: each error names the argument, the value it got, and the rule."""

import inspect
import math

import pytest
import torch
from torch import ones

from attention_course.explorers import ScoresExplorer
from attention_helpers import (
    CausalAttention,
    Dropout,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttention_v1,
    SelfAttention_v2,
    Sentence,
    attention_scores,
    attention_weights,
    causal_mask,
    context_vectors,
    find_leak,
    influence,
    load_sentence,
    max_difference,
    plots,
    show_source,
)
from attention_helpers.modern.layers import ModernAttention
from attention_helpers.modern.positions import rope_frequencies, rotate
from attention_helpers.parallel.count import bytes_held
from attention_helpers.training import rotary
from attention_helpers.training.characters import CharacterModel, Characters, generate_text, load_text
from attention_helpers.training.lookup import LookupModel, LookupTask, ov_circuit
from attention_helpers.training.loop import Training

NAN, INF = math.nan, math.inf
WHOLE, LEAST, FLAG, NUMBER, SHARE = "whole number", "at least 1", "True or False", "a number", "at least 0 and below 1"
SIZES = {"d_in": 3, "d_out": 4, "context_length": 6, "dropout": 0.0, "num_heads": 2}
KINDS = SelfAttention_v1, SelfAttention_v2, CausalAttention, MultiHeadAttentionWrapper, MultiHeadAttention
ARGUMENTS = {kind: list(inspect.signature(kind).parameters) for kind in KINDS}
WRONG = {  # argument: (a value, the exception, the rule)
    "dropout": [(1.0, ValueError, SHARE), (NAN, ValueError, SHARE), ("0.1", TypeError, NUMBER)],
    "qkv_bias": [(1, TypeError, FLAG)],
}
WRONG_SIZES = [(0, ValueError, LEAST), (3.0, TypeError, WHOLE), (True, TypeError, WHOLE)]


def layer(layer_class, **changed):
    return layer_class(**{name: SIZES[name] for name in ARGUMENTS[layer_class] if name in SIZES} | changed)


def refused(call, exception, *parts):
    with pytest.raises(exception) as caught:
        call()
    assert caught.type is exception  # not a subclass
    assert [part for part in parts if part not in str(caught.value)] == []


@pytest.mark.parametrize(("layer_class", "name"), [(each, name) for each in ARGUMENTS for name in ARGUMENTS[each]])
def test_every_argument_of_every_constructor_is_checked(layer_class, name):
    for value, exception, rule in WRONG.get(name, WRONG_SIZES):
        refused(lambda value=value: layer(layer_class, **{name: value}), exception, name, f"got {value!r}", rule)


@pytest.mark.parametrize("layer_class", ARGUMENTS)
def test_every_layer_checks_what_it_is_given(layer_class):
    one, takes_one = layer(layer_class), "or (num_tokens, 3)"
    plain = layer_class in (SelfAttention_v1, SelfAttention_v2)
    refused(lambda: one([[1.0]]), TypeError, "x must", "torch.Tensor", "got list")
    refused(lambda: one(ones(1, 6, 3).long()), TypeError, "x must", "floating-point", "got torch.int64")
    rank = 1 if plain else 2
    refused(lambda: one(ones(*(6, 3)[-rank:])), ValueError, "x must have the shape (b, num_tokens, 3)", "got (")
    refused(lambda: one(ones(1, 2, 6, 3)), ValueError, takes_one if plain else "", "got (1, 2, 6, 3)")
    refused(lambda: one(ones(1, 6, 4)), ValueError, "width d_in=3", "got (1, 6, 4)")
    if not plain:
        refused(lambda: one(ones(2, 7, 3)), ValueError, "at most context_length=6", "got 7 in (2, 7, 3)")
    cures = "(numpy makes float64)", "x.to(torch.float32)", "layer.to(torch.float64)"
    refused(lambda: one(ones(1, 6, 3).double()), TypeError, "layer's dtype torch.float32, got torch.float64", *cures)
    refused(lambda: one(ones(1, 6, 3, device="meta")), ValueError, "x must", "device cpu", "got meta")


X, HIDE = ones(1, 2, 3), ones(3, 3) > 0
FLAT, MODERN = SelfAttention_v2(3, 2), ModernAttention(3, 8, 4, 2, window=3)
ROWS, TURNS, HEADS = torch.arange(2), rope_frequencies(2), ones(1, 2, 2, 2)
TASK, TEXT = LookupTask(letters=4, digits=3, pairs=2), Characters(load_text())
LOOKUP, WRITER = LookupModel(TASK, width=4), CharacterModel(TEXT, width=16)
AX = plots.new_figure()[1][0]
CALLS = [  # call, exception, argument, the value it got, the rule
    (lambda: Dropout(1), ValueError, "p must", "got 1", SHARE),
    (lambda: causal_mask(0), ValueError, "num_tokens", "got 0", LEAST),
    (lambda: attention_weights(ones(2, 2), ones(2, 2)), TypeError, "mask", "got torch.float32", "boolean"),
    (lambda: attention_weights(ones(2, 2), causal_mask(3)), ValueError, "mask", "got (3, 3)", "broadcast to scores"),
    (lambda: attention_scores(ones(4, 2), ones(4, 3)), ValueError, "keys", "got keys (4, 3)", "as wide as queries"),
    (lambda: attention_scores(ones(4, 2), ones(4, 2).half()), TypeError, "queries and keys", "float16", "one dtype"),
    (lambda: context_vectors(ones(2, 3), ones(2, 3)), ValueError, "values", "got values (2, 3)", "one row per key"),
    (lambda: influence(5, ones(2, 3)), TypeError, "layer", "got int", "callable"),
    (lambda: influence(FLAT, ones(2, 6, 3)), ValueError, "x must", "got (2, 6, 3)", "one sentence"),
    (lambda: find_leak(FLAT, ones(1, 3)), ValueError, "x must", "got (1, 3)", "at least 2 tokens"),
    (lambda: find_leak(FLAT, ones(2, 3) * INF), ValueError, "x must", "got 6", "finite"),
    (lambda: max_difference(ones(2), ones(1, 2)), ValueError, "a and b", "got (2,) and (1, 2)", "same shape"),
    (lambda: load_sentence("dog"), ValueError, "name", "got 'dog'", "one of cat, journey, lookup, two_lookups"),
    (lambda: show_source(len), TypeError, "thing", "built-in function len", "written in Python"),
    (lambda: MultiHeadAttention(3, 4, 6, 0.0, 3), ValueError, "num_heads=3, d_out=4", "possible here: 1, 2, 4"),
    (lambda: rotate(X, ROWS, ones(2)), ValueError, "frequencies", "got 2", "at most head_dim / 2 = 1.5"),
    (lambda: rotate(X, ROWS.float(), TURNS), TypeError, "positions", "got torch.float32", "whole numbers"),
    (lambda: rope_frequencies(3), ValueError, "head_dim", "got 3", "even"),
    (lambda: ModernAttention(3, 8, 4, 3), ValueError, "num_kv_heads", "got num_kv_heads=3", "divide num_heads"),
    (lambda: ModernAttention(3, 8, 4, 2, qk_norm="head"), TypeError, "qk_norm", "got 'head'", FLAG),
    (lambda: MODERN(X[..., :2]), ValueError, "x must", "got (1, 2, 2)", "width d_in=3"),
    (lambda: MODERN(X, HIDE), ValueError, "mask", "got (3, 3)", "broadcast to scores (1, 4, 2, 2)"),
    (lambda: MODERN.step(X, (HEADS, HEADS, 2)), TypeError, "cache", "got tuple", "RollingCache that step returned"),
    (lambda: LookupTask(questions=3), ValueError, "questions", "got 3", "1 or 2"),
    (lambda: LOOKUP(ones(1, 3, 2)), TypeError, "x must", "got torch.float32", "whole numbers"),
    (lambda: LOOKUP.maps(16 * ones(1, 3, 2).long()), ValueError, "x must", "got 16", "from 0 to 15"),
    (lambda: ov_circuit(LookupModel(TASK, hidden=4)), ValueError, "model", "got an MLP", "linear output layer"),
    (lambda: Characters("a" * 99, held_out=32), ValueError, "text", "got 67 and 32", "longer than window=32"),
    (lambda: generate_text(WRITER, TEXT, "Zoë", 5, None), ValueError, "start", "got 'Zoë'", "some characters of"),
    (lambda: Training(LOOKUP, LookupTask()), ValueError, "model", "came ValueError: x must", "fit the task"),
    (lambda: rotary.trained("learned"), ValueError, "positions", "got 'learned'", "one of rotary, none"),
    (lambda: rotary.trained()(torch.tensor([[48]])), ValueError, "x must", "got 48", "token ids from 0 to 47"),
    (lambda: bytes_held("rows", 1, 1, 1, 1), ValueError, "split", "got 'rows'", "'heads' or 'tokens'"),
    (lambda: plots.draw_heatmap(AX, [1.0, 2.0], "ab", "ab"), ValueError, "values", "got the shape (2,)", "a table"),
    (lambda: ScoresExplorer(Sentence(["a"] * 9, ones(9, 3))), ValueError, "sentence", "got 9 tokens", "1 to 8 tokens"),
    (lambda: ScoresExplorer("journey"), TypeError, "sentence", "got str: 'journey'", "a Sentence with str tokens"),
]


@pytest.mark.parametrize("case", CALLS, ids=lambda case: f"{case[0].__code__.co_names[0]}: {case[2]}, {case[3]}")
def test_error_names_argument_value_and_rule(case):
    refused(*case)

"""Malformed calls: each error names the argument, the value it got, and the rule."""

import numpy as np
import pytest
import torch

from attention_helpers import (
    CausalAttention,
    Dropout,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttention_v1,
    SelfAttention_v2,
    attention_scores,
    attention_weights,
    causal_mask,
    context_vectors,
    find_leak,
    influence,
    load_sentence,
    max_difference,
    show_source,
)
from attention_helpers.fast.attention import FusedMultiHeadAttention
from attention_helpers.modern.positions import rotate

NAN, INF = float("nan"), float("inf")
WHOLE, LEAST, FLAG, NUMBER, SHARE = "whole number", "at least 1", "True or False", "a number", "at least 0 and below 1"
SIZES = {"d_in": 3, "d_out": 4, "context_length": 6, "dropout": 0.0, "num_heads": 2}
ARGUMENTS = {
    SelfAttention_v1: ("d_in", "d_out"),
    SelfAttention_v2: ("d_in", "d_out", "qkv_bias"),
    CausalAttention: ("d_in", "d_out", "context_length", "dropout", "qkv_bias"),
    MultiHeadAttentionWrapper: ("d_in", "d_out", "context_length", "dropout", "num_heads", "qkv_bias"),
    MultiHeadAttention: ("d_in", "d_out", "context_length", "dropout", "num_heads", "qkv_bias"),
    FusedMultiHeadAttention: ("d_in", "d_out", "context_length", "dropout", "num_heads", "qkv_bias"),
}
WRONG = {  # argument: (a value, the exception, the rule)
    "dropout": [
        (1.0, ValueError, SHARE),
        (-0.1, ValueError, SHARE),
        (NAN, ValueError, SHARE),
        ("0.1", TypeError, NUMBER),
        (False, TypeError, NUMBER),
    ],
    "qkv_bias": [(1, TypeError, FLAG), (None, TypeError, FLAG)],
}
WRONG_SIZES = [(0, ValueError, LEAST), (-1, ValueError, LEAST), (3.0, TypeError, WHOLE), (True, TypeError, WHOLE)]


def ones(*shape, **kwargs):
    return torch.ones(*shape, **kwargs)


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


@pytest.mark.parametrize("layer_class", [MultiHeadAttention, FusedMultiHeadAttention])
def test_heads_that_do_not_divide_the_width_are_told_those_that_do(layer_class):
    refused(lambda: layer(layer_class, num_heads=3), ValueError, "num_heads=3, d_out=4", "possible here: 1, 2, 4")


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


def flat():
    return SelfAttention_v2(3, 2)


META = ones(4, 2, device="meta")
# call, exception, argument, the value it got, the rule
DROPOUT = [
    (lambda: Dropout(1), ValueError, "p must", "got 1", SHARE),
    (lambda: Dropout(0.5, 123), TypeError, "generator", "got int", "torch.Generator or None"),
    (lambda: Dropout(0.5)([1.0]), TypeError, "x must", "got list", "torch.Tensor"),
]
MASK = [
    (lambda: causal_mask(0), ValueError, "num_tokens", "got 0", LEAST),
    (lambda: causal_mask(2.0), TypeError, "num_tokens", "got 2.0", WHOLE),
    (lambda: attention_weights(ones(2, 2), ones(2, 2)), TypeError, "mask", "got torch.float32", "boolean"),
    (lambda: attention_weights(ones(2, 2), [[True]]), TypeError, "mask", "got list", "boolean"),
    (lambda: attention_weights(ones(2, 2), causal_mask(3)), ValueError, "mask", "got (3, 3)", "broadcast to scores"),
    (lambda: attention_weights(ones(2, 2), causal_mask(2, "meta")), ValueError, "mask", "got meta", "device of scores"),
    (lambda: attention_weights(ones(2, 2), causal_mask(2)[None]), ValueError, "mask", "(1, 2, 2)", "broadcast"),
]
VERBS = [
    (lambda: attention_scores([[1.0]], ones(2, 2)), TypeError, "queries", "got list", "torch.Tensor"),
    (lambda: attention_scores(ones(2, 2), ones(2)), ValueError, "keys", "got (2,)", "num_keys, d_k"),
    (lambda: attention_scores(ones(4, 2), ones(4, 3)), ValueError, "keys", "got keys (4, 3)", "as wide as queries"),
    (lambda: attention_scores(ones(4, 2), ones(4, 2).half()), TypeError, "queries and keys", "float16", "one dtype"),
    (lambda: attention_scores(META, META.half()), TypeError, "queries and keys", "float16", "one dtype"),
    (lambda: attention_scores(ones(4, 2), ones(4, 2).to("meta")), ValueError, "queries and keys", "meta", "device"),
    (lambda: attention_weights(ones(2)), ValueError, "scores", "got (2,)", "num_queries, num_keys"),
    (lambda: attention_weights(ones(2, 2), scale=NAN), ValueError, "scale", "got nan", "finite"),
    (lambda: attention_weights(ones(2, 2), scale=ones(2)), TypeError, "scale", "got tensor([1., 1.])", NUMBER),
    (lambda: attention_weights(ones(2, 2), scale="big"), TypeError, "scale", "got 'big'", NUMBER),
    (lambda: context_vectors(ones(2, 2), 5), TypeError, "values", "got int", "torch.Tensor"),
    (lambda: context_vectors(ones(2, 3), ones(2, 3)), ValueError, "values", "got values (2, 3)", "one row per key"),
]
PROBES = [
    (lambda: influence(5, ones(2, 3)), TypeError, "layer", "got int", "callable"),
    (lambda: influence(flat(), ones(3)), ValueError, "x must", "got (3,)", "(num_tokens, d_in)"),
    (lambda: influence(flat(), ones(0, 3)), ValueError, "x must", "got (0, 3)", "at least one token"),
    (lambda: influence(flat(), ones(2, 6, 3)), ValueError, "x must", "got (2, 6, 3)", "one sentence"),
    (lambda: influence(flat(), ones(6, 3), size=0), ValueError, "size", "got 0", "not be 0"),
    (lambda: influence(flat(), ones(6, 3), size=NAN), ValueError, "size", "got nan", "finite"),
    (lambda: influence(torch.sum, ones(6, 3)), ValueError, "layer", "got ()", "one row per token, 6"),
    (lambda: find_leak(flat(), ones(1, 3)), ValueError, "x must", "got (1, 3)", "at least 2 tokens"),
    (lambda: find_leak(flat(), ones(2, 3) * INF), ValueError, "x must", "got 6", "finite"),
    (lambda: find_leak(lambda x: x / 0, ones(2, 3)), ValueError, "layer(x) must", "got 6", "finite"),
    (lambda: max_difference(1.0, ones(1)), TypeError, "a must", "got float", "torch.Tensor"),
    (lambda: max_difference(ones(1), ones(1).to_sparse()), TypeError, "b must", "got torch.sparse_coo", "plain tensor"),
    (lambda: max_difference(ones(1), ones(1, device="meta")), ValueError, "b must", "got a tensor on the", "numbers"),
    (lambda: max_difference(ones(2), ones(1, 2)), ValueError, "a and b", "got (2,) and (1, 2)", "same shape"),
]
OTHERS = [
    (lambda: load_sentence("dog"), ValueError, "name", "got 'dog'", "one of cat, journey, lookup, two_lookups"),
    (lambda: load_sentence("cat", path=3), TypeError, "path", "got 3", "string or a path"),
    (lambda: show_source(5), TypeError, "thing", "got int: 5", "class or function"),
    (lambda: show_source(len), TypeError, "thing", "built-in function len", "written in Python"),
]
CALLS = DROPOUT + MASK + VERBS + PROBES + OTHERS


@pytest.mark.parametrize("case", CALLS, ids=lambda case: f"{case[0].__code__.co_names[0]}: {case[2]}, {case[3]}")
def test_error_names_argument_value_and_rule(case):
    refused(*case)


def test_whole_numbers_of_numpy_are_sizes():
    layer = MultiHeadAttention(np.int64(3), np.int32(4), np.int64(6), np.float32(0.5), np.int64(2))
    assert layer(ones(1, 2, 3)).shape == (1, 2, 4)


@pytest.mark.parametrize(
    "make", [torch.Tensor.to_sparse, torch.Tensor.to_mkldnn, lambda x: torch.nested.nested_tensor([x])]
)
def test_only_plain_tensors_are_taken(make):
    refused(lambda: SelfAttention_v2(3, 2)(make(ones(6, 3))), TypeError, "x must be a plain tensor, got")


def test_numbers_that_torch_stores_but_cannot_calculate_with_are_refused():
    tiny = ones(4, 4).to(torch.float8_e4m3fn)
    for call in (Dropout(0.5), attention_weights, lambda x: rotate(x, torch.arange(4), torch.ones(1))):
        refused(lambda call=call: call(tiny), TypeError, "must hold", "at least 16 bits", "got torch.float8_e4m3fn")


def test_sizes_that_torch_cannot_count_and_widths_of_billions_are_refused_at_once():
    refused(lambda: causal_mask(2**70), ValueError, "num_tokens", f"got {2**70}", "at most")
    heads = "possible here: 1, 2, 4, 5, 8, 10, 16, 20"
    refused(lambda: MultiHeadAttention(3, 2_000_000_000, 6, 0.0, 12), ValueError, "num_heads=12", heads)

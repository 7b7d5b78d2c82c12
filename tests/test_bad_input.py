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

NAN, INF = float("nan"), float("inf")
WHOLE, LEAST, FLAG, NUMBER, SHARE = "whole number", "at least 1", "True or False", "a number", "at least 0 and below 1"


def ones(*shape, **kwargs):
    return torch.ones(*shape, **kwargs)


def flat():
    return SelfAttention_v2(3, 2)


def causal():
    return CausalAttention(3, 2, 6, 0.0)


def wrapper():
    return MultiHeadAttentionWrapper(3, 2, 6, 0.0, 2)


def split():
    return MultiHeadAttention(3, 4, 6, 0.0, 2)


# call, exception, argument, the value it got, the rule
SIZES = [
    (lambda: SelfAttention_v1(0, 2), ValueError, "d_in", "got 0", LEAST),
    (lambda: SelfAttention_v1(3, -1), ValueError, "d_out", "got -1", LEAST),
    (lambda: SelfAttention_v1(3.0, 2), TypeError, "d_in", "got 3.0", WHOLE),
    (lambda: SelfAttention_v1(3, "2"), TypeError, "d_out", "got '2'", WHOLE),
    (lambda: SelfAttention_v2(None, 2), TypeError, "d_in", "got None", WHOLE),
    (lambda: SelfAttention_v2(3, 2.5), TypeError, "d_out", "got 2.5", WHOLE),
    (lambda: SelfAttention_v2(True, 2), TypeError, "d_in", "got True", WHOLE),
    (lambda: CausalAttention(3, 2, 0, 0.0), ValueError, "context_length", "got 0", LEAST),
    (lambda: CausalAttention(3, 2, 6.0, 0.0), TypeError, "context_length", "got 6.0", WHOLE),
    (lambda: CausalAttention(3, np.float64(2), 6, 0.0), TypeError, "d_out", "2.0", WHOLE),
    (lambda: CausalAttention(ones(2), 2, 6, 0.0), TypeError, "d_in", "got tensor", WHOLE),
    (lambda: MultiHeadAttentionWrapper(3, 2, 6, 0.0, 0), ValueError, "num_heads", "got 0", LEAST),
    (lambda: MultiHeadAttentionWrapper(3, 2, 6, 0.0, 1.5), TypeError, "num_heads", "got 1.5", WHOLE),
    (lambda: MultiHeadAttentionWrapper(0, 2, 6, 0.0, 2), ValueError, "d_in", "got 0", LEAST),
    (lambda: MultiHeadAttentionWrapper(3, 2, -6, 0.0, 2), ValueError, "context_length", "got -6", LEAST),
    (lambda: MultiHeadAttention(3, 4, 6, 0.0, 0), ValueError, "num_heads", "got 0", LEAST),
    (lambda: MultiHeadAttention(3, 4, 6, 0.0, -2), ValueError, "num_heads", "got -2", LEAST),
    (lambda: MultiHeadAttention(3, 4, 6, 0.0, "two"), TypeError, "num_heads", "got 'two'", WHOLE),
    (lambda: MultiHeadAttention(3, 4, None, 0.0, 2), TypeError, "context_length", "got None", WHOLE),
    (lambda: MultiHeadAttention(3, 4, 6, 0.0, 3), ValueError, "num_heads", "num_heads=3, d_out=4", "must divide d_out"),
    (lambda: MultiHeadAttention(3, 2, 6, 0.0, 4), ValueError, "num_heads", "num_heads=4, d_out=2", "must divide d_out"),
    (lambda: MultiHeadAttention(3, 4, 6, 0.0, 3), ValueError, "num_heads", "num_heads=3", "possible here: 1, 2, 4"),
    (lambda: causal_mask(0), ValueError, "num_tokens", "got 0", LEAST),
    (lambda: causal_mask(2.0), TypeError, "num_tokens", "got 2.0", WHOLE),
    (lambda: causal_mask([2]), TypeError, "num_tokens", "got [2]", WHOLE),
]
OPTIONS = [
    (lambda: SelfAttention_v2(3, 2, 1), TypeError, "qkv_bias", "got 1", FLAG),
    (lambda: CausalAttention(3, 2, 6, 0.0, "yes"), TypeError, "qkv_bias", "got 'yes'", FLAG),
    (lambda: MultiHeadAttentionWrapper(3, 2, 6, 0.0, 2, None), TypeError, "qkv_bias", "got None", FLAG),
    (lambda: MultiHeadAttention(3, 4, 6, 0.0, 2, 0), TypeError, "qkv_bias", "got 0", FLAG),
    (lambda: CausalAttention(3, 2, 6, 1.0), ValueError, "dropout", "got 1.0", SHARE),
    (lambda: CausalAttention(3, 2, 6, -0.1), ValueError, "dropout", "got -0.1", SHARE),
    (lambda: MultiHeadAttentionWrapper(3, 2, 6, 50, 2), ValueError, "dropout", "got 50", SHARE),
    (lambda: MultiHeadAttention(3, 4, 6, NAN, 2), ValueError, "dropout", "got nan", SHARE),
    (lambda: MultiHeadAttention(3, 4, 6, "0.1", 2), TypeError, "dropout", "got '0.1'", NUMBER),
    (lambda: MultiHeadAttention(3, 4, 6, None, 2), TypeError, "dropout", "got None", NUMBER),
    (lambda: Dropout(1), ValueError, "p must", "got 1", SHARE),
    (lambda: Dropout(INF), ValueError, "p must", "got inf", SHARE),
    (lambda: Dropout(False), TypeError, "p must", "got False", NUMBER),
    (lambda: Dropout(10**400), ValueError, "p must", "got 1000", NUMBER),
    (lambda: Dropout(0.5, 123), TypeError, "generator", "got int", "torch.Generator or None"),
    (lambda: Dropout(0.5)([1.0]), TypeError, "x must", "got list", "torch.Tensor"),
    (lambda: Dropout(0.5)(ones(2, dtype=torch.int64)), TypeError, "x must", "got torch.int64", "floating-point"),
]
INPUTS = [
    (
        lambda: SelfAttention_v1(3, 2)(ones(3)),
        ValueError,
        "x must",
        "got (3,)",
        "or (num_tokens, 3)",
    ),
    (lambda: flat()(ones(1, 2, 6, 3)), ValueError, "x must", "got (1, 2, 6, 3)", "shape (b, num_tokens, 3)"),
    (lambda: SelfAttention_v1(3, 2)(ones(6, 4)), ValueError, "x must", "got (6, 4)", "width d_in=3"),
    (lambda: flat()(ones(2, 6, 2)), ValueError, "x must", "got (2, 6, 2)", "width d_in=3"),
    (lambda: flat()(np.ones((6, 3))), TypeError, "x must", "got ndarray", "torch.Tensor"),
    (lambda: flat()(ones(6, 3, dtype=torch.int64)), TypeError, "x must", "got torch.int64", "floating-point"),
    (lambda: causal()(ones(6, 3)), ValueError, "x must", "got (6, 3)", "shape (b, num_tokens, 3)"),
    (lambda: causal()(ones(1, 6, 4)), ValueError, "x must", "got (1, 6, 4)", "width d_in=3"),
    (lambda: causal()(ones(1, 7, 3)), ValueError, "x must", "got 7 in (1, 7, 3)", "at most context_length=6"),
    (lambda: wrapper()(ones(6, 3)), ValueError, "x must", "got (6, 3)", "shape (b, num_tokens, 3)"),
    (lambda: wrapper()(ones(1, 9, 3)), ValueError, "x must", "got 9 in (1, 9, 3)", "at most context_length=6"),
    (lambda: split()(ones(6, 3)), ValueError, "x must", "got (6, 3)", "shape (b, num_tokens, 3)"),
    (lambda: split()(ones(1, 6, 4)), ValueError, "x must", "got (1, 6, 4)", "width d_in=3"),
    (lambda: split()(ones(2, 7, 3)), ValueError, "x must", "got 7 in (2, 7, 3)", "at most context_length=6"),
    (lambda: split().steps(ones(2, 7, 3)), ValueError, "x must", "got 7", "at most context_length=6"),
    (lambda: split()([[1.0]]), TypeError, "x must", "got list", "torch.Tensor"),
]
F64 = {"dtype": torch.float64}
LAYERS = (
    lambda: SelfAttention_v1(3, 2),
    flat,
    causal,
    wrapper,
    split,
    lambda: FusedMultiHeadAttention(3, 4, 6, 0.0, 2),
)
NUMPY = "numpy makes float64, so write x.float() (or layer.double())"
KINDS = [
    *(
        (lambda layer=layer: layer()(ones(1, 6, 3, **F64)), TypeError, "x must", "got torch.float64", NUMPY)
        for layer in LAYERS
    ),
    (lambda: flat()(ones(6, 3).half()), TypeError, "x must", "got torch.float16", "write x.float() (or layer.half())"),
    (lambda: causal().double()(ones(1, 6, 3)), TypeError, "x must", "float32", "x.double() (or layer.float())"),
    (lambda: flat()(ones(6, 3).to(torch.float8_e5m2)), TypeError, "x must", "got torch.float8_e5m2", "write x.float()"),
    *(
        (lambda layer=layer: layer().to("meta")(ones(1, 6, 3)), ValueError, "x must", "got cpu", "device meta")
        for layer in LAYERS
    ),
    (lambda: flat()(ones(6, 3, device="meta")), ValueError, "x must", "got meta", "device cpu"),
    (
        lambda: attention_scores(ones(4, 2, **F64), ones(4, 2)),
        TypeError,
        "queries and keys",
        "torch.float64",
        "one dtype",
    ),
    (lambda: attention_scores(ones(4, 2), ones(4, 2, device="meta")), ValueError, "queries and keys", "meta", "device"),
    (lambda: attention_scores(ones(4, 2, device="meta"), ones(4, 2)), ValueError, "queries and keys", "meta", "device"),
    (lambda: context_vectors(ones(4, 4).half(), ones(4, 2)), TypeError, "weights and values", "float16", "one dtype"),
    (
        lambda: context_vectors(ones(4, 4), ones(4, 2, device="meta")),
        ValueError,
        "weights and values",
        "meta",
        "device",
    ),
    (lambda: attention_weights(ones(2, 2), causal_mask(2, "meta")), ValueError, "mask", "got meta", "device of scores"),
]
VERBS = [
    (lambda: attention_scores([[1.0]], ones(2, 2)), TypeError, "queries", "got list", "torch.Tensor"),
    (lambda: attention_scores(ones(2), ones(2, 2)), ValueError, "queries", "got (2,)", "num_queries, d_k"),
    (lambda: attention_scores(ones(2, 2), ones(2)), ValueError, "keys", "got (2,)", "num_keys, d_k"),
    (lambda: attention_scores(ones(4, 2), ones(4, 3)), ValueError, "keys", "got keys (4, 3)", "as wide as queries"),
    (lambda: attention_weights(ones(2, 2).long()), TypeError, "scores", "got torch.int64", "floating-point"),
    (lambda: attention_weights(ones(2)), ValueError, "scores", "got (2,)", "num_queries, num_keys"),
    (lambda: attention_weights(ones(2, 2), ones(2, 2)), TypeError, "mask", "got torch.float32", "boolean"),
    (lambda: attention_weights(ones(2, 2), [[True]]), TypeError, "mask", "got list", "boolean"),
    (lambda: attention_weights(ones(2, 2), causal_mask(3)), ValueError, "mask", "got (3, 3)", "broadcast to scores"),
    (lambda: attention_weights(ones(2, 2), causal_mask(2)[None]), ValueError, "mask", "(1, 2, 2)", "broadcast"),
    (lambda: attention_weights(ones(2, 2), scale=NAN), ValueError, "scale", "got nan", "finite"),
    (lambda: attention_weights(ones(2, 2), scale=INF), ValueError, "scale", "got inf", "finite"),
    (lambda: attention_weights(ones(2, 2), scale="big"), TypeError, "scale", "got 'big'", NUMBER),
    (lambda: context_vectors(ones(2), ones(2, 3)), ValueError, "weights", "got (2,)", "num_queries, num_keys"),
    (lambda: context_vectors(ones(2, 2), 5), TypeError, "values", "got int", "torch.Tensor"),
    (lambda: context_vectors(ones(2, 3), ones(2, 3)), ValueError, "values", "got values (2, 3)", "one row a key"),
]
OTHERS = [
    (lambda: influence(5, ones(2, 3)), TypeError, "layer", "got int", "callable"),
    (lambda: influence(flat(), ones(3)), ValueError, "x must", "got (3,)", "(num_tokens, d_in)"),
    (lambda: influence(causal(), ones(2, 6, 3)), ValueError, "x must", "got (2, 6, 3)", "one sentence"),
    (lambda: influence(flat(), ones(6, 3).long()), TypeError, "x must", "got torch.int64", "floating-point"),
    (lambda: influence(flat(), ones(6, 3), size=0), ValueError, "size", "got 0", "not be 0"),
    (lambda: influence(flat(), ones(6, 3), size=NAN), ValueError, "size", "got nan", "finite"),
    (lambda: influence(flat(), ones(6, 3), size=[1]), TypeError, "size", "got [1]", NUMBER),
    (lambda: influence(torch.sum, ones(6, 3)), ValueError, "layer", "got ()", "one row a token, 6"),
    (lambda: influence(lambda x: x[:2], ones(6, 3)), ValueError, "layer", "got (2, 3)", "one row a token, 6"),
    (lambda: influence(lambda x: 1, ones(6, 3)), ValueError, "layer", "got int", "one row a token"),
    (lambda: influence(flat(), ones(0, 3)), ValueError, "x must", "got (0, 3)", "at least one token"),
    (lambda: influence(flat(), ones(1, 0, 3)), ValueError, "x must", "got (1, 0, 3)", "at least one token"),
    (lambda: influence(lambda x: x, ones(6, 0)), ValueError, "x must", "got (6, 0)", "at least one entry"),
    (lambda: find_leak(flat(), ones(0, 3)), ValueError, "x must", "got (0, 3)", "at least one token"),
    (lambda: find_leak(flat(), ones(1, 3)), ValueError, "x must", "got (1, 3)", "at least 2 tokens"),
    (lambda: find_leak(5, ones(2, 3)), TypeError, "layer", "got int", "callable"),
    (lambda: find_leak(flat(), ones(2, 3) * INF), ValueError, "x must", "got 6", "finite"),
    (lambda: find_leak(lambda x: x / 0, ones(2, 3)), ValueError, "layer(x) must", "got 6", "finite"),
    (lambda: max_difference(1.0, ones(1)), TypeError, "a must", "got float", "torch.Tensor"),
    (lambda: max_difference(ones(1), [1.0]), TypeError, "b must", "got list", "torch.Tensor"),
    (lambda: max_difference(ones(2), ones(1, 2)), ValueError, "a and b", "got (2,) and (1, 2)", "same shape"),
    (lambda: load_sentence("dog"), ValueError, "name", "got 'dog'", "one of cat, journey"),
    (lambda: load_sentence(["cat"]), TypeError, "name", "got ['cat']", "string"),
    (lambda: load_sentence(None), TypeError, "name", "got None", "string"),
    (lambda: load_sentence("cat", path=3), TypeError, "path", "got 3", "string or a path"),
    (lambda: load_sentence("cat", None), TypeError, "path", "got None", "string or a path"),
    (lambda: show_source(5), TypeError, "thing", "got int: 5", "class or function"),
    (lambda: show_source(len), TypeError, "thing", "built-in function len", "written in Python"),
    (lambda: show_source(torch), TypeError, "thing", "got module", "class or function"),
]
CALLS = SIZES + OPTIONS + INPUTS + KINDS + VERBS + OTHERS


@pytest.mark.parametrize(("call", "exception", "argument", "got", "rule"), CALLS, ids=range(len(CALLS)))
def test_error_names_argument_value_and_rule(call, exception, argument, got, rule):
    with pytest.raises(exception) as caught:
        call()
    assert caught.type is exception  # not a subclass
    message = str(caught.value)
    assert [text for text in (argument, got, rule) if text not in message] == []


def test_whole_numbers_of_numpy_are_sizes():
    layer = MultiHeadAttention(np.int64(3), np.int32(4), np.int64(6), np.float32(0.5), np.int64(2))
    assert layer(ones(1, 2, 3)).shape == (1, 2, 4)

"""Every number that the course's sources published, computed by the helpers and compared to within 6e-5."""

import json
from pathlib import Path

import pytest
import torch
from course import COURSE

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
    load_sentence,
)

FILE = Path(__file__).parent.parent / "data" / "published.json"
FIGURES = {figure["id"]: figure for figure in json.loads(FILE.read_text(encoding="utf-8"))["figures"]}
TOLERANCE = 6e-5  # four decimals; one number is 1e-7 from a rounding tie

INPUTS = load_sentence("journey").embeddings
BATCH = torch.stack((INPUTS, INPUTS))
JOURNEY = 1
RECIPES = {}


def recipe(function):
    RECIPES[function.__name__] = function
    return function


def seeded(seed, layer, *args, **kwargs):
    torch.manual_seed(seed)
    return layer(*args, **kwargs)


def scores():
    return attention_scores(INPUTS, INPUTS)


def qkv():
    """The sentence's queries, keys, values, scores and weights, with the lessons' matrices."""
    return seeded(123, SelfAttention_v1, 3, 2).steps(INPUTS)


@recipe
def scores_journey():
    return attention_scores(INPUTS[[JOURNEY]], INPUTS)[0]


@recipe
def weights_by_sum_journey():
    return scores_journey() / scores_journey().sum()


@recipe
def weights_softmax_journey():
    return attention_weights(scores())[JOURNEY]


@recipe
def context_journey():
    return context_vectors(attention_weights(scores()), INPUTS)[JOURNEY]


@recipe
def scores_all():
    return scores()


@recipe
def weights_all():
    return attention_weights(scores())


@recipe
def context_all():
    return context_vectors(weights_all(), INPUTS)


@recipe
def qkv_matrices():
    return dict(seeded(123, SelfAttention_v1, 3, 2).named_parameters())


@recipe
def qkv_journey():
    steps = qkv()
    return {"query": steps.queries[JOURNEY], "key": steps.keys[JOURNEY], "value": steps.values[JOURNEY]}


@recipe
def qkv_score_journey_journey():
    return qkv().scores[JOURNEY, JOURNEY]


@recipe
def qkv_scores_journey():
    return qkv().scores[JOURNEY]


@recipe
def qkv_scores_all():
    return qkv().scores


@recipe
def qkv_weights_journey():
    return qkv().weights[JOURNEY]


@recipe
def qkv_weights_all():
    return qkv().weights


@recipe
def qkv_context_journey():
    return qkv().context[JOURNEY]


@recipe
def self_attention_v1():
    return seeded(123, SelfAttention_v1, 3, 2)(INPUTS)


@recipe
def self_attention_v2_seed789():
    return seeded(789, SelfAttention_v2, d_in=3, d_out=2)(INPUTS)


@recipe
def v1_v2_weight_layout():
    v1, v2 = seeded(123, SelfAttention_v1, 3, 2), SelfAttention_v2(3, 2)
    v2.load_state_dict({f"{name}.weight": matrix.T for name, matrix in v1.state_dict().items()})
    return v2(INPUTS)


@recipe
def causal_two_ways():
    future = causal_mask(6)
    kept = attention_weights(scores()) * ~future
    renormalised = kept / kept.sum(dim=-1, keepdim=True)
    equal = torch.allclose(renormalised, attention_weights(scores(), future), rtol=0, atol=1e-6)
    return "equal" if equal else "different"


@recipe
def dropout_on_ones():
    return seeded(123, Dropout, 0.5)(torch.ones(6, 6))


@recipe
def batch_shape():
    return BATCH.shape


@recipe
def causal_shape():
    return seeded(123, CausalAttention, 3, 2, context_length=6, dropout=0.0)(BATCH).shape


@recipe
def multi_head_wrapper():
    return seeded(123, MultiHeadAttentionWrapper, 3, 2, 6, 0.0, num_heads=2)(BATCH)[0]


@recipe
def multi_head_wrapper_leaky():
    layer = seeded(123, MultiHeadAttentionWrapper, 3, 2, 6, 0.0, num_heads=2)
    for head in layer.heads:
        head.mask.fill_(False)  # same effect as a masked_fill whose result is thrown away
    return layer(BATCH)[0]


@recipe
def multi_head_split():
    return seeded(123, MultiHeadAttention, 3, 2, 6, 0.0, num_heads=2)(BATCH)[0]


@recipe
def multi_head_split_leaky():
    layer = seeded(123, MultiHeadAttention, 3, 2, 6, 0.0, num_heads=2)
    layer.mask.fill_(False)
    return layer(BATCH)[0]


@recipe
def gpt2_sizes():
    def parameters(width, num_heads):
        with torch.device("meta"):  # sizes without memory
            layer = MultiHeadAttention(width, width, 1024, 0.1, num_heads, qkv_bias=True)
        return sum(p.numel() for p in layer.parameters())

    return {
        "attention_parameters_768_12_with_qkv_bias": parameters(768, 12),
        "attention_parameters_1600_25_with_qkv_bias": parameters(1600, 25),
    }


def assert_published(actual, expected):
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key, value in expected.items():
            assert_published(actual[key], value)
    elif isinstance(expected, str):
        assert actual == expected
    else:
        actual, expected = torch.as_tensor(actual).double(), torch.tensor(expected, dtype=torch.float64)
        torch.testing.assert_close(actual, expected, rtol=0, atol=TOLERANCE)  # shapes must agree too


@pytest.mark.parametrize("figure", FIGURES)
def test_figure(figure):
    with torch.random.fork_rng(devices=[]):
        assert_published(RECIPES[figure](), FIGURES[figure]["expected"])


def test_file_is_whole():
    figures = json.loads(FILE.read_text(encoding="utf-8"))["figures"]
    assert len(figures) == len(FIGURES) == 27
    assert FIGURES.keys() == RECIPES.keys()
    part_one = {notebook.number for notebook in COURSE if notebook.part == "one"}
    assert all(figure["source"] and figure["notebook"] in part_one for figure in figures)

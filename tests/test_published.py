"""Every number that the course's sources published, computed by the helpers and compared to within 6e-5."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from attention_helpers import (
    CausalAttention,
    Dropout,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttention_v1,
    SelfAttention_v2,
    attention_maps,
    causal_mask,
    load_sentence,
)

FILE = Path(__file__).parent.parent / "data" / "published.json"
FIGURES = {figure["id"]: figure for figure in json.loads(FILE.read_text(encoding="utf-8"))["figures"]}
TOLERANCE = 6e-5  # four decimals; one number is 1e-7 from a rounding tie

INPUTS = load_sentence("journey").embeddings
BATCH = torch.stack((INPUTS, INPUTS))
JOURNEY, FUTURE = 1, causal_mask(6)


def built(seed, layer, *args, **kwargs):
    torch.manual_seed(seed)
    return layer(*args, **kwargs)


def qkv():
    """The sentence's queries, keys and values, (6, 2) each, with the lessons' matrices."""
    layer = built(123, SelfAttention_v1, 3, 2)
    return INPUTS @ layer.W_query, INPUTS @ layer.W_key, INPUTS @ layer.W_value


def qkv_scores():
    queries, keys, _ = qkv()
    return queries @ keys.T


def qkv_weights():
    return attention_maps(built(123, SelfAttention_v1, 3, 2), INPUTS)[0]


def v1_v2_weight_layout():
    v1, v2 = built(123, SelfAttention_v1, 3, 2), SelfAttention_v2(3, 2)
    v2.load_state_dict({f"{name}.weight": matrix.T for name, matrix in v1.state_dict().items()})
    return v2(INPUTS)


def causal_two_ways():
    kept = WEIGHTS.masked_fill(FUTURE, 0)
    renormalised = kept / kept.sum(dim=-1, keepdim=True)
    hidden = torch.softmax(SCORES.masked_fill(FUTURE, -torch.inf), dim=-1)
    return "equal" if torch.allclose(renormalised, hidden, rtol=0, atol=1e-6) else "different"


def of_heads(layer_class, leaky=False):
    """What two heads return for the first sentence of a batch; leaky: as if the masked scores were thrown away."""
    layer = built(123, layer_class, 3, 2, 6, 0.0, num_heads=2)
    for mask in layer.buffers() if leaky else ():
        mask.fill_(False)
    return layer(BATCH)[0]


def parameters(width, num_heads):
    with torch.device("meta"):  # sizes without memory
        layer = MultiHeadAttention(width, width, 1024, 0.1, num_heads, qkv_bias=True)
    return sum(p.numel() for p in layer.parameters())


SCORES = INPUTS @ INPUTS.T
WEIGHTS = torch.softmax(SCORES, dim=-1)
CONTEXT = WEIGHTS @ INPUTS
RECIPES = {
    "scores_journey": lambda: INPUTS @ INPUTS[JOURNEY],
    "weights_by_sum_journey": lambda: SCORES[JOURNEY] / SCORES[JOURNEY].sum(),
    "weights_softmax_journey": lambda: WEIGHTS[JOURNEY],
    "context_journey": lambda: CONTEXT[JOURNEY],
    "scores_all": lambda: SCORES,
    "weights_all": lambda: WEIGHTS,
    "context_all": lambda: CONTEXT,
    "qkv_matrices": lambda: dict(built(123, SelfAttention_v1, 3, 2).named_parameters()),
    "qkv_journey": lambda: dict(zip(("query", "key", "value"), (each[JOURNEY] for each in qkv()), strict=True)),
    "qkv_score_journey_journey": lambda: qkv_scores()[JOURNEY, JOURNEY],
    "qkv_scores_journey": lambda: qkv_scores()[JOURNEY],
    "qkv_scores_all": qkv_scores,
    "qkv_weights_journey": lambda: qkv_weights()[JOURNEY],
    "qkv_weights_all": qkv_weights,
    "qkv_context_journey": lambda: (qkv_weights() @ qkv()[2])[JOURNEY],
    "self_attention_v1": lambda: built(123, SelfAttention_v1, 3, 2)(INPUTS),
    "self_attention_v2_seed789": lambda: built(789, SelfAttention_v2, d_in=3, d_out=2)(INPUTS),
    "v1_v2_weight_layout": v1_v2_weight_layout,
    "causal_two_ways": causal_two_ways,
    "dropout_on_ones": lambda: built(123, Dropout, 0.5)(torch.ones(6, 6)),
    "batch_shape": lambda: BATCH.shape,
    "causal_shape": lambda: built(123, CausalAttention, 3, 2, context_length=6, dropout=0.0)(BATCH).shape,
    "multi_head_wrapper": lambda: of_heads(MultiHeadAttentionWrapper),
    "multi_head_wrapper_leaky": lambda: of_heads(MultiHeadAttentionWrapper, leaky=True),
    "multi_head_split": lambda: of_heads(MultiHeadAttention),
    "multi_head_split_leaky": lambda: of_heads(MultiHeadAttention, leaky=True),
    "gpt2_sizes": lambda: {
        "attention_parameters_768_12_with_qkv_bias": parameters(768, 12),
        "attention_parameters_1600_25_with_qkv_bias": parameters(1600, 25),
    },
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
    assert len(FIGURES) == 27
    assert FIGURES.keys() == RECIPES.keys()


@pytest.mark.parametrize("layer_class", [CausalAttention, MultiHeadAttentionWrapper, MultiHeadAttention])
def test_a_published_state_dict_loads_strictly(layer_class):
    """The published classes save their mask as floats, 1 where a key is hidden, here in a model."""
    sizes = 3, 2, 6, 0.0, *(() if layer_class is CausalAttention else (2,))
    published, ours = nn.Sequential(built(123, layer_class, *sizes)), nn.Sequential(built(789, layer_class, *sizes))
    state = published.state_dict()
    masks = [name for name in state if name.rpartition(".")[2] == "mask"]
    assert masks
    for name in masks:
        state[name] = torch.triu(torch.ones(6, 6), diagonal=1)
    ours.load_state_dict(state, strict=True)
    assert torch.equal(ours(BATCH), published(BATCH))
    assert ours(BATCH[:, :4]).equal(published(BATCH[:, :4]))

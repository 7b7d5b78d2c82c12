"""The four functions of core, against loops and hand-computed numbers."""

import math

import pytest
import torch

from attention_helpers import attention_scores, attention_weights, causal_mask, context_vectors


def test_scores_are_dot_products_query_by_query():
    queries, keys = torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.tensor([[3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    assert attention_scores(queries, keys).tolist() == [[11, 17, 23], [4, 6, 8]]
    torch.testing.assert_close(attention_scores(queries[None, None], keys[None, None])[0, 0], queries @ keys.T)


def test_context_is_the_weighted_sum_of_values():
    weights = torch.tensor([[1.0, 0.0], [0.25, 0.75]])
    values = torch.tensor([[1.0, 2.0, 4.0], [5.0, 6.0, 8.0]])
    assert context_vectors(weights, values).tolist() == [[1, 2, 4], [4, 5, 7]]


def test_weights_by_hand():
    scores = torch.tensor([[0.0, math.log(3)], [math.log(9), 0.0]])
    torch.testing.assert_close(attention_weights(scores), torch.tensor([[0.25, 0.75], [0.9, 0.1]]))
    torch.testing.assert_close(attention_weights(scores, scale=0.5)[1], torch.tensor([0.75, 0.25]))
    assert attention_weights(torch.tensor([[1000.0, 0.0], [-1000.0, -1000.0]])).tolist() == [[1, 0], [0.5, 0.5]]


def test_mask_hides_and_leaves_the_callers_scores_alone():
    scores, third = torch.zeros(3, 3), 1 / 3
    expected = torch.tensor([[1, 0, 0], [0.5, 0.5, 0], [third, third, third]])
    torch.testing.assert_close(attention_weights(scores, causal_mask(3)), expected)
    assert not scores.any()


@pytest.mark.parametrize("shape", [(), (2, 1), (2, 3), (1, 1, 3)])
def test_mask_broadcasts(shape):
    generator = torch.Generator().manual_seed(4)
    scores, mask = torch.randn(4, 2, 3), torch.rand(shape, generator=generator) < 0.4
    expected = scores.masked_fill(mask.expand(4, 2, 3), -torch.inf).softmax(-1)
    torch.testing.assert_close(attention_weights(scores, mask), expected, equal_nan=True)


def test_fully_hidden_row_is_nan_and_zero_in_torchs_function_and_the_others_are_not():
    hide, values = torch.tensor([[True, True], [False, True]]), torch.ones(1, 1, 2, 2)
    weights = attention_weights(torch.zeros(2, 2), hide)
    assert weights[0].isnan().all()
    assert weights[1].tolist() == [1, 0]
    torchs = torch.nn.functional.scaled_dot_product_attention(values, values, values, attn_mask=~hide)
    assert torchs[0, 0].tolist() == [[0, 0], [1, 1]]


def test_under_autocast_the_verbs_may_get_two_dtypes_for_torch_casts_them():
    queries, keys = torch.ones(4, 2), torch.ones(4, 2).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert attention_scores(queries, keys).dtype == context_vectors(torch.ones(4, 4), keys).dtype == torch.bfloat16

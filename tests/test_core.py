"""The functions of core with masks, with empty rows and under autocast; test_published checks their numbers."""

import pytest
import torch

from attention_helpers import attention_weights, causal_mask


def test_the_mask_of_a_long_text_hides_what_comes_later():
    assert torch.equal(causal_mask(300), torch.ones(300, 300).triu(1).bool())


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

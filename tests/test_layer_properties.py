"""Properties of every layer at every size; sizes.py draws the sizes and says how many."""

import pytest
import torch
from sizes import ALL, UNMASKED, attend_by_hand, build, over_sizes

from attention_helpers import attention_maps

close = {"rtol": 1e-10, "atol": 1e-10}


@pytest.mark.parametrize("name", UNMASKED)
@over_sizes
def test_unmasked_attention_is_permutation_equivariant(name, sizes):
    layer, x = build(name, sizes).double(), sizes.x()[0]
    order = torch.randperm(sizes.num_tokens, generator=torch.Generator().manual_seed(sizes.seed))
    torch.testing.assert_close(layer(x[order]), layer(x)[order], **close)


@pytest.mark.parametrize("name", ALL)
@over_sizes
def test_each_sentence_of_a_batch_is_read_by_itself(name, sizes):
    layer, x = build(name, sizes).double(), sizes.x()
    one_by_one = [layer(sentence) for sentence in (x if name in UNMASKED else x.split(1))]
    stacked = torch.stack(one_by_one) if name in UNMASKED else torch.cat(one_by_one)
    torch.testing.assert_close(layer(x), stacked, **close)


@pytest.mark.parametrize("name", ALL)
@over_sizes
def test_layers_and_their_maps_are_the_formulas(name, sizes):
    layer, x = build(name, sizes).double(), sizes.x()
    weights, expected = attend_by_hand(name, layer, x)
    torch.testing.assert_close(layer(x), expected, **close)
    maps = attention_maps(layer, x)
    found = torch.stack(maps, dim=1) if name != "MultiHeadAttention" else maps[0]
    torch.testing.assert_close(found, weights, **close)

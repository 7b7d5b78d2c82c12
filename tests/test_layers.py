"""Each layer is its formula at every size; dropout; a published state. sizes.py draws the sizes, says how many."""

import pytest
import torch
from sizes import ALL, CAUSAL, UNMASKED, Sizes, attend_by_hand, build, over_sizes
from torch import nn

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


SIZES = Sizes(2, 4, 2, 3, 2, 2, True, 0)


@pytest.mark.parametrize("name", CAUSAL)
def test_dropout_falls_on_the_weights(name):
    layer, x, dropout = build(name, SIZES, dropout=0.5), SIZES.x(torch.float32), nn.Dropout(0.5)
    torch.manual_seed(0)
    made = layer(x)
    torch.manual_seed(0)
    _, expected = attend_by_hand(name, layer, x, dropout)
    torch.testing.assert_close(made, expected)
    torch.testing.assert_close(layer.eval()(x), attend_by_hand(name, layer, x)[1])


@pytest.mark.parametrize("name", CAUSAL)
def test_a_published_state_dict_loads_strictly(name):
    """The published classes save their mask as floats, 1 where a key is hidden, here in a model."""
    published, ours = (nn.Sequential(build(name, SIZES._replace(seed=seed))) for seed in (0, 1))
    state, x = published.state_dict(), SIZES.x(torch.float32)
    masks = [key for key in state if key.rpartition(".")[2] == "mask"]
    assert masks
    for key in masks:
        state[key] = torch.ones(SIZES.context_length, SIZES.context_length).triu(1)
    ours.load_state_dict(state, strict=True)
    assert torch.equal(ours(x), published(x))

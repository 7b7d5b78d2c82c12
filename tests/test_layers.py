"""Everything around the mathematics: saving and loading, devices, modes."""

import pytest
import torch
from sizes import ALL, CAUSAL, Sizes, attend_by_hand, build
from torch import nn

SIZES = Sizes(2, 4, 2, 3, 2, 2, True, 0)


@pytest.mark.parametrize("name", ALL)
def test_state_dict_comes_back(name):
    layer, other, x = build(name, SIZES), build(name, SIZES._replace(seed=1)), SIZES.x(torch.float32)
    assert not torch.equal(layer(x), other(x))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(layer(x), other(x))


@pytest.mark.parametrize("name", CAUSAL)
def test_dropout_falls_on_the_weights(name):
    layer, x, dropout = build(name, SIZES, dropout=0.5), SIZES.x(torch.float32), nn.Dropout(0.5)
    torch.manual_seed(0)
    made = layer(x)
    torch.manual_seed(0)
    _, expected = attend_by_hand(name, layer, x, dropout)
    torch.testing.assert_close(made, expected)
    torch.testing.assert_close(layer.eval()(x), attend_by_hand(name, layer, x)[1])

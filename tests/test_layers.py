"""Everything around the mathematics: saving and loading, devices, modes."""

import pytest
import torch
from sizes import ALL, CAUSAL, Sizes, build
from torch import nn

SIZES = Sizes(2, 4, 2, 3, 2, 2, True, 0)


@pytest.mark.parametrize("name", ALL)
def test_state_dict_holds_the_parameters_alone_and_comes_back(name):
    layer, other, x = build(name, SIZES), build(name, SIZES._replace(seed=1)), SIZES.x(torch.float32)
    state = layer.state_dict()
    assert state.keys() == dict(layer.named_parameters()).keys()  # so no mask
    assert not torch.equal(layer(x), other(x))
    other.load_state_dict(state)
    assert torch.equal(layer(x), other(x))


@pytest.mark.parametrize("name", CAUSAL)
def test_state_dict_with_a_float_mask_loads_strictly(name):
    """As the widely used chapter-3 classes save it, here as a part of a model."""
    layer, other, x = build(name, SIZES), build(name, SIZES._replace(seed=1)), SIZES.x(torch.float32)
    state = nn.Sequential(layer).state_dict()
    for prefix in [f"0.heads.{h}." for h in range(2)] if "Wrapper" in name else ["0."]:
        state[prefix + "mask"] = torch.ones(9, 9).triu(diagonal=1)
    nn.Sequential(other).load_state_dict(state, strict=True)
    assert torch.equal(layer(x), other(x))


@pytest.mark.parametrize("name", CAUSAL)
def test_dropout_falls_on_the_weights(name):
    layer, x, dropout = build(name, SIZES, dropout=0.5), SIZES.x(torch.float32), nn.Dropout(0.5)
    torch.manual_seed(0)
    steps = layer.steps(x)
    torch.manual_seed(0)
    if name == "MultiHeadAttentionWrapper":  # one draw per head, in order
        dropped = torch.stack([dropout(weights) for weights in steps.weights.unbind(dim=1)], dim=1)
    else:
        dropped = dropout(steps.weights)
    context = dropped @ steps.values
    if name != "CausalAttention":
        context = context.transpose(1, 2).flatten(2)
    torch.testing.assert_close(steps.context, context)

"""The causal layers of notebooks 03 to 06 don't leak: at every size, no earlier output moves with a later token."""

import pytest
import torch
from sizes import CAUSAL, build, over_sizes


@pytest.mark.parametrize("name", CAUSAL)
@over_sizes
def test_no_causal_layer_leaks(name, sizes):
    layer, x = build(name, sizes).double(), sizes.x()
    before = layer(x)
    for now in range(sizes.num_tokens):
        poked = x.clone()
        poked[:, now + 1 :] = 100 * poked[:, now + 1 :] + 7
        assert torch.equal(layer(poked)[:, : now + 1], before[:, : now + 1])

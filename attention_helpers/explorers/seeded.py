"""Layers with weights from a seed of their own: an explorer must not move the notebook's random numbers."""

import copy
import math
from functools import lru_cache

import torch
from torch import nn

from ..core import causal_mask


def seeded(layer_class, seed, *sizes, **options):
    """The layer that layer_class(*sizes, **options) makes after torch.manual_seed(seed), by a generator of its own.

    Its linear layers are filled in the order in which torch would fill them.
    """
    layer = copy.deepcopy(empty(layer_class, sizes, tuple(options.items())))
    generator = torch.Generator().manual_seed(seed)
    for module in layer.modules():
        if isinstance(module, nn.Linear):
            fill(module, generator)
    return layer


@lru_cache(maxsize=64)
def empty(layer_class, sizes, options):
    """A layer without weights yet, built on the meta device, which draws nothing; kept, since that is slow."""
    with torch.device("meta"):
        layer = layer_class(*sizes, **dict(options))
    layer.to_empty(device="cpu")
    for module in layer.modules():
        if hasattr(module, "mask"):
            module.mask.copy_(causal_mask(len(module.mask)))
    return layer.requires_grad_(False)


def fill(linear, generator):
    """Draw a linear layer's weight, then its bias, uniformly within 1 / sqrt(d_in), as nn.Linear does."""
    bound = 1 / math.sqrt(linear.in_features)
    linear.weight.uniform_(-bound, bound, generator=generator)
    if linear.bias is not None:
        linear.bias.uniform_(-bound, bound, generator=generator)

"""Layers with weights from a seed of their own: an explorer must not move the notebook's random numbers."""

import torch
from torch.nn import init
from torch.overrides import TorchFunctionMode

DRAWING = {init.kaiming_uniform_, init.uniform_, init.normal_, torch.rand, torch.randn}


class DrawnFrom(TorchFunctionMode):
    """What is drawn in here comes from a generator of its own, on this thread alone."""

    def __init__(self, generator):
        super().__init__()
        self.generator = generator

    def __torch_function__(self, function, types, args=(), kwargs=None):
        more = {"generator": self.generator} if function in DRAWING else {}
        return function(*args, **(kwargs or {}) | more)


def seeded(layer_class, seed, *sizes, **options):
    """The layer that layer_class(*sizes, **options) makes after torch.manual_seed(seed), the global seed left alone."""
    with DrawnFrom(torch.Generator().manual_seed(seed)):
        return layer_class(*sizes, **options)

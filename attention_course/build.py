"""Build layers from a seed of their own."""

import torch
from torch.nn import init
from torch.overrides import TorchFunctionMode

# What layers draw their weights with; all of these take a generator.
DRAWING = {torch.rand, torch.randn, torch.randint, torch.randperm, torch.Tensor.uniform_, torch.Tensor.normal_}
DRAWING |= {function for function in vars(init).values() if "generator" in getattr(function, "__annotations__", ())}


def build_layer(layer_class, seed, *sizes, **options):
    """layer_class(*sizes, **options) with the weights that it has after torch.manual_seed(seed).

    We leave torch's random state alone, even for a moment: a slider moves on a second thread, while cells draw.
    """
    with _DrawFrom(torch.Generator().manual_seed(seed)):
        return layer_class(*sizes, **options)


class _DrawFrom(TorchFunctionMode):
    """While active, initial weights come from this generator."""

    def __init__(self, generator):
        super().__init__()
        self.generator = generator

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function in DRAWING:
            kwargs = kwargs | {"generator": self.generator}
        return function(*args, **kwargs)

"""Layers with weights from a seed of their own: an explorer must not move the notebook's random numbers."""

import re
from functools import cache

import torch
from torch.nn import init
from torch.overrides import TorchFunctionMode

DRAWING = {init.kaiming_uniform_, init.uniform_, init.normal_, torch.rand, torch.randn}
# Other operations that may draw, some of which take no generator: theirs stands in for torch's while they run.
BORROWING = re.compile(
    "rand|normal|uniform|dropout|attention|bernoulli|multinomial|exponential|poisson|geometric|cauchy|rrelu|gumbel"
)


@cache
def borrows(name):
    """Whether an operation of this name may draw; asked of each that runs, and there are but so many names."""
    return bool(BORROWING.search(name))


class DrawnFrom(TorchFunctionMode):
    """What is drawn in here, from no generator that is named, comes from one of its own; on this thread alone."""

    def __init__(self, generator):
        super().__init__()
        self.generator = generator

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if kwargs.get("generator") is None:
            if function in DRAWING:
                return function(*args, **kwargs | {"generator": self.generator})
            if borrows(getattr(function, "__name__", "")):
                return self.lend(function, args, kwargs)
        return function(*args, **kwargs)

    def lend(self, function, args, kwargs):
        """Call a function that draws from torch's global generator, which afterwards is as it was."""
        before = torch.get_rng_state()
        torch.set_rng_state(self.generator.get_state())
        try:
            return function(*args, **kwargs)
        finally:
            self.generator.set_state(torch.get_rng_state())
            torch.set_rng_state(before)


def seeded(layer_class, seed, *sizes, **options):
    """The layer that layer_class(*sizes, **options) makes after torch.manual_seed(seed), the global seed left alone."""
    with DrawnFrom(torch.Generator().manual_seed(seed)):
        return layer_class(*sizes, **options)

"""Draw random numbers from a generator of one's own, whoever asks for them."""

import re

import torch
from torch.nn import init
from torch.overrides import TorchFunctionMode

DRAWING = {init.kaiming_uniform_, init.uniform_, init.normal_, torch.rand, torch.randn}
# Others that might draw, by name. Some take no generator, so ours replaces torch's global state while they run.
BORROWING = re.compile(
    "rand|normal|uniform|dropout|attention|bernoulli|multinomial|exponential|poisson|geometric|cauchy|rrelu|gumbel"
)


class DrawnFrom(TorchFunctionMode):
    """While active, draws that name no generator come from this one; other threads aren't affected."""

    def __init__(self, generator):
        super().__init__()
        self.generator = generator

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if kwargs.get("generator") is None:
            if function in DRAWING:
                return function(*args, **kwargs | {"generator": self.generator})
            if BORROWING.search(getattr(function, "__name__", "")):
                with torch.random.fork_rng(devices=[]):  # torch's global generator gets its own state back
                    torch.set_rng_state(self.generator.get_state())
                    try:
                        return function(*args, **kwargs)
                    finally:
                        self.generator.set_state(torch.get_rng_state())
        return function(*args, **kwargs)

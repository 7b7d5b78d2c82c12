"""Layers with weights from their own seed, and calls that leave a notebook as it was."""

import collections
import random
import re
import sys
from contextlib import contextmanager

import torch
from torch.nn import Module, init
from torch.overrides import TorchFunctionMode

DRAWING = {init.kaiming_uniform_, init.uniform_, init.normal_, torch.rand, torch.randn}
# Others that might draw, by name. Some take no generator, so ours replaces torch's global state while they run.
BORROWING = re.compile(
    "rand|normal|uniform|dropout|attention|bernoulli|multinomial|exponential|poisson|geometric|cauchy|rrelu|gumbel"
)
HOLDERS = dict, list, set, collections.OrderedDict, collections.deque


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


def seeded(layer_class, seed, *sizes, **options):
    """layer_class(*sizes, **options) as after torch.manual_seed(seed), but without changing the global seed."""
    with DrawnFrom(torch.Generator().manual_seed(seed)):
        return layer_class(*sizes, **options)


@contextmanager
def undisturbed(layer, training=None):
    """Leave a notebook as it was: random numbers, grad mode, default dtype, and all that a module and its parts hold.

    training: the module's mode meanwhile; None for the one that it has.
    """
    modules = [*layer.modules()] if isinstance(layer, Module) else []
    holders = [part for each in modules for part in (vars(each), *vars(each).values()) if type(part) in HOLDERS]
    held = [(each, each.copy()) for each in holders]
    inside = [value for _, copy in held for value in (copy.values() if isinstance(copy, dict) else copy)]
    tensors = {id(each): (each, each.data, each.data.clone()) for each in inside if isinstance(each, torch.Tensor)}
    grad, dtype, drawn = torch.is_grad_enabled(), torch.get_default_dtype(), random.getstate()
    numpy = sys.modules.get("numpy")
    drawn_by_numpy = numpy and numpy.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            if modules and training is not None:
                layer.train(training)
            yield
    finally:
        torch.set_grad_enabled(grad)
        torch.set_default_dtype(dtype)
        random.setstate(drawn)
        if numpy:
            numpy.random.set_state(drawn_by_numpy)
        for each, copy in held:
            each.clear()
            (each.extend if hasattr(each, "extend") else each.update)(copy)
        for each, data, copy in tensors.values():
            if each.data_ptr() != data.data_ptr():
                each.data = data
            if not torch.equal(data, copy):
                data.copy_(copy)

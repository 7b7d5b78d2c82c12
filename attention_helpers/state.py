"""Leave a notebook as it was."""

import collections
import random
import sys
from contextlib import contextmanager

import torch
from torch.nn import Module

HOLDERS = dict, list, set, collections.OrderedDict, collections.deque


@contextmanager
def keep_state(layer, training=None):
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

"""One layer on one sentence, and what's measured once for several verdicts."""

from contextlib import contextmanager, suppress
from functools import cached_property

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attention_helpers.probes import find_leak, max_difference
from attention_helpers.state import keep_state

from .calling import seed_all
from .seen import record
from .twins import explain


class Case:
    """One layer on one sentence, and what's measured once for several verdicts.

    trained: the same layer with dropout, if this one has none. hint: how many heads its class was asked for. like: the
    rows of the list that explain the layer at other sizes.
    """

    def __init__(self, call, trained=None, hint=None, like=()):
        self.call, self.trained, self.hint, self.like = call, trained or call.layer, hint, like

    @cached_property
    def seen(self):
        return record(self.call, self.call.x)

    @cached_property
    def dropped(self):
        """The record of a call in training, with a fifth of what can be dropped dropped; None if it fails."""
        with suppress(Exception):
            return self.drawn(0)

    def drawn(self, seed):
        with self.training(0.2, seed):
            return record(self.call, self.call.x)

    @cached_property
    def sound(self):
        return not self.call.random and bool(self.call.rows.isfinite().all())

    @cached_property
    def leak(self):
        return find_leak(self.call.output, self.call.x)

    @cached_property
    def unmasked(self):
        """Whether each token reads all tokens."""
        moved = self.call.moved
        hidden = self.seen.used.amin(dim=0) == 0 if self.seen.maps else moved <= self.call.near
        return self.sound and bool(self.leak) and not hidden.any()

    @cached_property
    def twins(self):
        return explain(self.call, self.seen, self.hint, self.unmasked, self.like)

    @cached_property
    def gap(self):
        """How far rows in training differ from eval mode's if nothing is dropped; 0 if they're random even so."""
        made = []
        for seed in range(2):
            with self.training(1e-9, seed), suppress(Exception):
                made.append(self.call.rows_of(self.call(self.call.x.clone())))
        gaps = [max_difference(self.call.rows, each) for each in made]
        near = max(self.call.near, 4 * self.seen.eps * self.call.rows.abs().max().item())
        return gaps[0] if len(gaps) == 2 and gaps[0] == gaps[1] and gaps[0] > near else 0.0

    @cached_property
    def grads(self):
        """The gradient of a fixed mixture of all rows for each parameter that wants one, and for "x"; None for none."""
        with torch.enable_grad():
            x = self.call.x.clone().requires_grad_()
            return gradients_of(self.call.rows_of(self.call(x.clone())), self.call.parameters | {"x": x})

    @torch.no_grad()
    def change(self, name, size=0.1, **options):
        """How far rows change, in the mode in which they do so more, if a parameter moves by a share of its largest."""
        before = self.change_of(self.call.layer, name, size, options)
        if before and self.trained is self.call.layer:
            return before
        with self.training(1e-9):
            return max(before, self.change_of(self.trained, name, size, options))

    def change_of(self, layer, name, size, options):
        call = self.call
        parameter = dict(layer.named_parameters())[name]
        step = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)).to(parameter)
        step *= size * parameter.abs().max().clamp(min=0.1)

        def rows():
            seed_all(0)
            return call.rows_of(call(call.x.clone(), **options))

        before = rows()
        parameter.data += step
        change = max_difference(before, rows())
        parameter.data -= step
        return torch.inf if change != change else change

    @property
    def mistake(self):
        return not self.call.random and self.twins[0] and self.twins[0].mistake

    @contextmanager
    def training(self, p, seed=0):
        """The layer with dropout in training mode, where torch's functions drop with this probability."""
        call = self.call
        layer, call.layer = call.layer, self.trained
        try:
            with keep_state(self.trained, training=True), DropoutOf(p):
                torch.default_generator.manual_seed(seed)
                for part in self.trained.modules() if call.parts else ():
                    if isinstance(part, torch.nn.MultiheadAttention):
                        part.dropout = p
                yield
        finally:
            call.layer = layer


class DropoutOf(TorchFunctionMode):
    """While active, torch's functions drop with this probability where they'd drop at all."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is functional.dropout:
            args, kwargs = (args[0], self.p, *args[2:]), {key: each for key, each in kwargs.items() if key != "p"}
        elif func is functional.scaled_dot_product_attention and kwargs.get("dropout_p"):
            kwargs = kwargs | {"dropout_p": self.p}
        return func(*args, **kwargs)


def gradients_of(rows, named):
    """The gradient of a fixed mixture of all rows, for each named tensor that wants one; None where none arrives."""
    named = {name: each for name, each in named.items() if each.requires_grad}
    if not rows.requires_grad:
        return dict.fromkeys(named)
    weights = torch.randn(rows.shape, generator=torch.Generator().manual_seed(0)).to(rows)
    grads = torch.autograd.grad((rows * weights).sum(), [*named.values()], allow_unused=True)
    return dict(zip(named, grads, strict=True))

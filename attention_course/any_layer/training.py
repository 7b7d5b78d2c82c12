"""What happens in training: leaks, numbers that aren't finite, dropout in a wrong place, and gradients that are cut."""

from contextlib import contextmanager, suppress

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attention_helpers.probes import max_difference, perturbation_influence, rounding
from attention_helpers.state import keep_state

from .leaks import first_mixer
from .maps import is_table
from .recorder import record
from .verdicts import Verdict

OTHER_SCALE = "In training, its weights have another scale"


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


@contextmanager
def train_mode(call, p, seed=0):
    """The twin in training mode, with all dropout that we know of at p: attributes, and torch's functions."""
    layer, call.layer = call.layer, call.twin
    try:
        with keep_state(call.twin, training=True), DropoutOf(p):
            torch.default_generator.manual_seed(seed)
            for part in call.twin.modules() if call.parts else ():
                for name, value in vars(part).items():
                    if ("drop" in name or name in ("p", "rate")) and type(value) in (int, float) and 0 <= value < 1:
                        vars(part)[name] = float(p)
            yield
    finally:
        call.layer = layer


def in_training(call, p, seed=0):
    """The record of a call in training mode, or None if it fails."""
    with train_mode(call, p, seed), suppress(Exception):
        return record(call, call.x)


def on_training(call, causal):
    """The first fault that shows only in training mode, with dropout at values above 0; None if there's none."""
    dropped = call.dropped
    if dropped is None or call.gap == torch.inf:
        return None
    verdict = leak_in_training(call) if causal and (call.gap or dropped.used.triu(1).any()) else None
    if verdict or not dropped.first(lambda each: each.drew):
        return verdict
    return on_dropped_scores(call) or on_lost_numbers(call) or on_scaled(dropped) or on_mean(call)


def gap_in_training(call):
    """How far rows in training differ from those in eval mode if nothing is dropped; infinity if the call fails."""
    with train_mode(call, 1e-9), suppress(Exception):
        gap = max_difference(call.rows, call.rows_of(call(call.x.clone())))
        return 0.0 if gap <= rounding(call.rows[None]).item() else gap
    return torch.inf


def leak_in_training(call):
    """A row that reads the future if each call draws the same; None if there's none, or calls differ all the same."""

    def output(x):
        torch.default_generator.manual_seed(0)
        return call.output(x)

    with train_mode(call, 1e-9):
        cause = first_mixer(call)
    with train_mode(call, 0.2), suppress(Exception):
        moved = perturbation_influence(output, call.x, 1.0).triu(1)
        leaks = (moved > rounding(call.rows[None], call.x.reshape(1, -1)).item()).nonzero().tolist()
        if leaks and torch.equal(output(call.x), output(call.x)):
            (row, token), *_ = leaks
            words = f"{call.said('row', row)} moves by {moved[row, token]:.2g} when {call.said('token', token)} changes"
            return Verdict("✗", "In training, it reads the future", words, cause)
    return None


def on_dropped_scores(call):
    """On scores that dropout made 0 (or NaN, if they were infinite) on their way to softmax."""
    dropped = call.dropped
    before, after = call.watched.scores, dropped.scores
    if before.shape != after.shape or not ((after == 0) & (before != 0) | after.isnan() & ~before.isnan()).any():
        return None
    drew = dropped.first(lambda each: each.drew and is_table(each.made, dropped.num_tokens))
    nan = ", and makes -inf NaN" if after.isnan().any() else ""
    words = f"{drew.where if drew else 'dropout'} sets scores to 0, which hides nothing{nan}"
    return Verdict("✗", "In training, it drops scores", f"{words}: drop weights, after softmax")


def on_lost_numbers(call):
    """On rows that aren't finite while dropout is on."""
    with train_mode(call, 0.5):
        for seed in range(3):
            torch.default_generator.manual_seed(seed)
            if not call.output(call.x).isfinite().all():
                torch.default_generator.manual_seed(seed)
                return on_nan(call, record(call, call.x), "In training with dropout, ")
    return None


def on_scaled(dropped):
    """On dropout with p = 0.2 that doesn't divide what's left by 1 - p = 0.8."""
    made, used = dropped.made, dropped.used
    left = used[(used > 0) & (made > 0)] / made[(used > 0) & (made > 0)]
    if not len(left) or not ((used == 0) & (made > 1e-3)).any():
        return None
    for factor, how in (1.0, "aren't divided by 1 - p"), (5.0, "are divided by p, not by 1 - p"):
        if (left / factor - 1).abs().max() < 1e-3:
            words = f"the weights that are left {how}, so their mean isn't what it is in eval mode"
            return Verdict("✗", OTHER_SCALE, words)
    return None


def on_mean(call):
    """On weights of which more is drawn than one number each, if that changes their mean: one dropout too many."""
    dropped = call.dropped
    draws = [each for each in dropped.operations if each.drew and is_table(each.made, dropped.num_tokens)]
    if not dropped.maps or sum(each.made.numel() for each in draws) <= dropped.made.numel():
        return None
    total = sum(in_training(call, 0.2, seed).used.sum().item() for seed in range(16))
    share = total / 16 / dropped.made.sum().item()
    words = f"{draws[0].where} and {draws[-1].where} both drop weights, and their sum is {share:.1f} of what it was"
    return Verdict("✗", OTHER_SCALE, words) if abs(share - 1) > 0.1 else None


def on_nan(call, watched, mode=""):
    """On rows with NaN or infinity, and what made the first."""
    rows = call.rows_of(watched.result)
    if rows.isfinite().all():
        return None
    first = watched.first(lambda each: each.varies and each.made.is_floating_point() and each.made.isnan().any())
    why = ", because all that it sums over is hidden" if first and first.name == "softmax" else ""
    said = call.said("row", (~rows.isfinite()).any(dim=-1).nonzero()[0].item())
    what = "NaN" if rows.isnan().any() else "infinite"
    words = f"{first.where} makes the first NaN{why}" if first else "no operation that we saw made it"
    return Verdict("✗", f"{mode}{said if mode else said[0].upper() + said[1:]} is {what}", words)


@torch.enable_grad()
def measure_gradients(call):
    """Gradients of one number made of all rows, for each parameter that wants one and for "x"; None if none reached."""
    x = call.x.clone().requires_grad_()
    named = call.parameters if call.other_name else call.parameters | {"x": x}
    return gradients_of(call.rows_of(call(x.clone())), named)


def gradients_of(rows, named):
    """The gradient of a fixed mixture of all rows, for each named tensor that wants one; None where none arrives."""
    named = {name: each for name, each in named.items() if each.requires_grad}
    if not rows.requires_grad:
        return dict.fromkeys(named)
    weights = torch.randn(rows.shape, generator=torch.Generator().manual_seed(0)).to(rows)
    grads = torch.autograd.grad((rows * weights).sum(), [*named.values()], allow_unused=True)
    return dict(zip(named, grads, strict=True))


@torch.no_grad()
def moves_rows(call, parameter, part=slice(None), sizes=(0.1,)):
    """Whether the rows change with a parameter, or with a part of it, when it moves by such shares of its largest."""
    step = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)).to(parameter)
    step *= parameter.abs().max().clamp(min=0.1)
    for size in sizes:
        with keep_state(call.layer, training=False):
            parameter.data[part] += size * step[part]
            gap = max_difference(call.rows, call.rows_of(call(call.x.clone())))
        if gap > 4 * rounding(call.rows[None]).item():
            return True
    return False


def on_gradients(call):
    """On parameters whose change moves the rows, though no gradient reaches them; None if there are none."""
    none = [name for name, grad in call.grads.items() if name != "x" and (grad is None or not grad.any())]
    cut = record(call, call.x, grad=True).first(lambda each: each.cuts) if none else None
    sizes = (0.1, 10.0) if cut else (0.1,)  # so much that an argmax moves
    lost = ", ".join(name for name in none if moves_rows(call, call.parameters[name], sizes=sizes))
    where = f"{cut.where} cuts it off" if cut else "some step's slope is 0 everywhere"
    words = f"{lost} move the rows, but training can't change them: {where}"
    return Verdict("✗", "A parameter gets no gradient", words, f"{where}, so {lost} can't learn") if lost else None

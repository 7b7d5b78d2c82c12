"""What happens in training: leaks, numbers that aren't finite, dropout in a wrong place, and gradients that are cut."""

from contextlib import suppress

import torch

from attention_helpers.probes import perturbation_influence, rounding

from .leaks import first_mixer
from .measures import on_nan
from .seen import is_table, record
from .verdicts import Verdict


def on_training(case):
    """The first fault that shows only in training mode."""
    if not case.sound or not case.dropped:
        return None
    dropped, call = case.dropped, case.call
    if not case.leak and (case.gap or dropped.made.triu(1).any()) and (verdict := leak_in_training(case)):
        return verdict
    names = [each.name for each in dropped.operations]
    before = dropped.operations[: names.index("softmax")] if "softmax" in names else []
    table = next((each for each in before if each.drew and is_table(each.made, dropped.num_tokens)), None)
    if table:
        words = f"{table.where} sets scores to 0, which hides nothing: drop weights, after softmax"
        return Verdict("✗", "In training, it drops scores", words)
    for seed in range(3):
        with case.training(0.5, seed), suppress(Exception):
            if not call.output(call.x).isfinite().all():
                torch.default_generator.manual_seed(seed)
                return on_nan(case, record(call, call.x), "In training with dropout, ")
    return on_scaled(case)


def leak_in_training(case):
    """A row that reads the future if each call draws the same; None if there's none, or calls differ all the same."""
    call = case.call

    def output(x):
        torch.default_generator.manual_seed(0)
        return call.output(x)

    with case.training(1e-9):
        cause = first_mixer(call)
    with case.training(0.2), suppress(Exception):
        moved = perturbation_influence(output, call.x, 1.0).triu(1)
        leaks = (moved > rounding(call.rows[None], call.x.reshape(1, -1)).item()).nonzero().tolist()
        if leaks and torch.equal(output(call.x), output(call.x)):
            (row, token), *_ = leaks
            words = f"{call.say('row', row)} moves by {moved[row, token]:.2g} when {call.say('token', token)} changes"
            return Verdict("✗", "In training, it reads the future", words, cause)
    return None


def on_scaled(case):
    """On weights whose mean isn't in training what it is in eval mode."""
    dropped = case.dropped
    draws = [each for each in dropped.operations if each.drew]
    made, used = dropped.made, dropped.used
    left = used[(used > 0) & (made > 0)] / made[(used > 0) & (made > 0)]
    if not draws or not len(left) or not ((used == 0) & (made > 1e-3)).any():
        return None
    how = ""
    if (left - 1).abs().max() < 1e-3:
        how = "the weights that are left aren't divided by 1 - p"
    elif (left - 5).abs().max() < 1e-3:
        how = "the weights that are left are divided by p, not by 1 - p"
    elif sum(is_table(each.made, dropped.num_tokens) for each in draws) > len(dropped.maps):
        share = sum(case.drawn(seed).used.sum() for seed in range(16)) / 16 / made.sum()
        how = f"weights are dropped more than once, and their sum is {share:.1f} of what it was" * (
            abs(share - 1) > 0.1
        )
    return Verdict("✗", "In training, its weights have another scale", how) if how else None


def on_gradients(case):
    """On parameters whose change moves the rows, though no gradient reaches them; None if there are none."""
    if not case.sound or not case.call.parts:
        return None
    none = [name for name, grad in case.grads.items() if name != "x" and (grad is None or not grad.any())]
    cut = record(case.call, case.call.x, grad=True).first(lambda each: each.cuts) if none else None
    lost = ", ".join(name for name in none if case.change(name, 10.0 if cut else 0.1) > 4 * case.call.near)
    where = f"{cut.where} cuts it off" if cut else "some step's slope is 0 everywhere"
    words = f"{lost} move the rows, but training can't change them: {where}"
    return Verdict("✗", "A parameter gets no gradient", words, f"{where}, so {lost} can't learn") if lost else None

"""What a layer's twin says of it: the course's class, or the course's class with a row of the list of mistakes."""

from contextlib import suppress

import torch

from attention_helpers.probes import max_difference

from .calling import widen
from .case import gradients_of
from .verdicts import Verdict


def on_the_course(case):
    """Whether a layer computes what the course's does with the same matrices, or what one with a mistake does."""
    if not case.sound:
        return None
    found, usual = case.twins
    if not found:
        return usual and unlike_the_course(case, usual)
    name, more = name_of_twin(case, found)
    if found.mistake:
        if found.mistake.leaks:
            return None  # which is said of the future
        sign = "?" if found.mistake.meant else "✗"
        words = f"with the same matrices, {name}{more} that {found.mistake.name} returns the same rows."
        return Verdict(sign, f"It {found.mistake.name}", f"{words} {found.mistake.reply}", found.mistake.reply)
    if case.gap:
        words = f"in training, without dropout, rows differ by {case.gap:.2g} from eval mode's, which are as in {name}"
        return Verdict("?", "Should training compute something else?", words)
    if wrong := wrong_gradients(case, found):
        words = f"the numbers are as in {name}, but the gradients of {', '.join(wrong)} aren't"
        return Verdict("✗", "Its gradients are wrong", words)
    if not found.rotation and (placed := case.seen.first(multiplies_by_place)):
        words = (
            f"{placed.where} multiplies by numbers that differ from place to place, though its rows are as in {name}"
        )
        return Verdict("?", "Do its positions count?", f"{words}, which knows no positions")
    words = f"with the same matrices, {name}{more} returns the same rows"
    return Verdict("✓", "As in the course", words, f"computes what the course's {name} computes{more}")


def unlike_the_course(case, usual):
    """On a layer that no twin explains, though its matrices could be one's."""
    words = "its matrices fit MultiHeadAttention, but the numbers differ"
    with suppress(Exception):
        ours = usual.output(widen(case.call.x.reshape(-1, case.call.x.shape[-1])))
        words = f"{words} by {max_difference(ours, case.call.rows):.2g}"
    return Verdict("•", "Not as in the course", words)


def name_of_twin(case, twin):
    """Which of the course's classes has such parts, and what's different from it."""
    masked = twin.masked
    if twin.matrices.out or twin.num_heads > 1:
        name = "MultiHeadAttention" if twin.matrices.out else "MultiHeadAttentionWrapper"
    elif masked:
        name = "CausalAttention"
    else:
        name = f"SelfAttention_v{2 if any(isinstance(part, torch.nn.Linear) for part in case.call.parts) else 1}"
        masked = True
    shared = len(twin.matrices.keys[0]) < len(twin.matrices.queries[0])
    added = filter(None, [twin.rotation, "shared KV heads" * shared, "a residual" * twin.residual])
    more = "".join(f" {word} {each}" for word, each in zip(("with", "and", "and"), added, strict=False))
    unasked = f": `forward` got no `{case.call.mask}`" if case.call.mask else ""
    return name, more + ("" if masked else f" without its mask{unasked}")


def wrong_gradients(case, twin):
    """The names of parameters, and x, whose gradients aren't those of the twin."""
    if any(each.made.dtype in (torch.float16, torch.bfloat16) for each in case.seen.operations):
        return []
    with torch.enable_grad():
        x = case.call.x.reshape(-1, case.call.x.shape[-1]).clone().requires_grad_()
        ours = gradients_of(twin.output(x), case.call.parameters | {"x": x})
    return [name for name, grad in ours.items() if grad is not None and not alike(case.grads[name], grad)]


def alike(grad, ours):
    """Whether two gradients are the same but for rounding; None is 0."""
    grad = torch.zeros_like(ours) if grad is None else grad
    return max_difference(grad.reshape(ours.shape), ours) <= 1e-3 * max(1.0, ours.abs().max().item())


def multiplies_by_place(operation):
    """Whether what comes from the sentence is multiplied by other numbers than a mask's, as by cosines."""
    tables = [each for each in operation.fixed if each.numel() > 1 and not each.requires_grad]
    return operation.name == "mul" and operation.varies and any(not ((t == 0) | (t == 1)).all() for t in tables)

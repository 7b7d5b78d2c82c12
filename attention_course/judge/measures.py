"""What's measured of a layer without knowing what it should compute: each function measures one thing.

A function takes a Case, and returns a Verdict, or None if there's nothing to say.
"""

from contextlib import suppress

import torch

from attention_helpers.probes import max_difference, perturbation_influence, rounding

from .calling import widen
from .leaks import COPYING, near_one, thrown_away
from .lines import error_line, failure
from .seen import NEAR
from .verdicts import Verdict


def on_returned_weights(case):
    """On a layer whose rows are its weights, as wide as there are tokens."""
    call, n = case.call, case.call.x.shape[-2]
    tables = [each.weights.reshape(-1, n, n) for each in case.seen.maps]
    if call.rows.shape != (n, n) or not any(torch.equal(widen(call.rows), widen(each).mean(0)) for each in tables):
        return None
    if call.output(call.x[..., :-1, :]).shape[-1] == n:
        return None
    where = case.seen.maps[0].made.where
    return Verdict("✗", "It returns its attention weights", f"{where} makes them; return them times the values")


def on_unregistered(case):
    """On layers in a list or dictionary, which a module doesn't know."""
    known, lost = {id(part) for part in case.call.parts}, 0
    for part in case.call.parts:
        for held in vars(part).values():
            inside = held.values() if isinstance(held, dict) else held if isinstance(held, (list, tuple)) else ()
            loose = [each for each in inside if isinstance(each, torch.nn.Module) and id(each) not in known]
            lost += sum(each.numel() for module in loose for each in module.parameters())
    words = f"`parameters()` lacks {lost} trainable numbers: keep layers in an nn.ModuleList, not in a list"
    return Verdict("✗", "Parameters aren't registered", words) if lost else None


def on_state(case):
    """On a layer that returns something else at the second call."""
    if case.call.writes:
        return Verdict("✗", "It writes into its input", "x is another after the call: begin with `x = x.clone()`")
    if not case.call.isolated:
        return None
    kept = ", ".join(f"`{name}`" for name in case.call.kept) or "something"
    words = f"a second call with the same x returns other rows, because the first has left {kept}"
    return Verdict("✗", "It keeps something between calls", words)


def on_chance(case):
    if not case.call.random:
        return None
    drew = case.seen.first(lambda each: each.drew)
    where = f"{drew.where if drew else 'something'} draws at each call, not only if self.training"
    return Verdict("✗", "It's random in eval mode too", where)


def on_nan(case, seen=None, mode=""):
    """On rows with NaN or infinity, and what made the first."""
    seen = seen or case.seen
    rows = case.call.rows_of(seen.result)
    if rows.isfinite().all() or (case.call.random and not mode):
        return None
    first = seen.first(lambda each: each.varies and each.made.is_floating_point() and each.made.isnan().any())
    why = ", because all that it sums over is hidden" if first and first.name == "softmax" else ""
    row = case.call.say("row", (~rows.isfinite()).any(dim=-1).nonzero()[0].item())
    what = "NaN" if rows.isnan().any() else "infinite"
    words = f"{first.where} makes the first NaN{why}" if first else "no operation that we saw made it"
    if case.mistake and not mode:
        words = f"{words}. {case.mistake.reply}"
    return Verdict("✗", f"{mode}{row if mode else row[0].upper() + row[1:]} is {what}", words)


def on_the_past(case):
    """Whether each row depends on its own token and all earlier ones; a window is named."""
    call = case.call
    if not case.sound or call.other_name:
        return None
    unread = unread_tokens(call)
    if not unread.any():
        rows = "all tokens" if case.unmasked else "its whole past"
        return Verdict("✓", f"Each token reads {rows}", "perturbing a token moves each row that may read it")
    places = torch.arange(len(call.rows))
    distance = places[:, None] - places
    read = ~unread & (distance >= 0)
    if not (read & (distance > 0)).any() and not case.leak:
        return Verdict("✗", "Each token reads only itself", "no perturbation of another token moves a row")
    window = int(distance.where(read, -1).max()) + 1
    if torch.equal(read, (distance >= 0) & (distance < window)):
        words = f"each token reads itself and the {'token' if window == 2 else f'{window - 1} tokens'} before it"
        return Verdict("•", f"It has a sliding window of {window}", words)
    row = int(unread.any(dim=1).nonzero().max())
    missed = unread[row].nonzero().flatten().tolist()
    words = f"{call.say('token', row)} never reads {call.say('token', *missed)}"
    if case.mistake or not read[row].any():
        return Verdict("✗", "Tokens miss part of their past", words, case.mistake.reply if case.mistake else "")
    return Verdict("?", "Does each token read its whole past?", words)


def unread_tokens(call):
    """Which token (column) moves which row after it by no more than rounding, (num_tokens, num_tokens).

    A sharp softmax can make a small perturbation's effect smaller than rounding, so we try larger and smaller ones.
    """
    still = (call.moved <= call.near).tril()
    for times, size in (0.01, 0.01), (1, -1), (1, 10), (1, -10), (1, 100), (1, -100), (1, 1e3), (1, -1e3):
        if not still.any():
            break
        with suppress(Exception):
            x = times * call.x
            near = rounding(widen(call.output(x)).reshape(1, -1), (size * torch.ones(1, 1)).to(x)).item()
            still &= perturbation_influence(call.output, x, size) <= near  # nor is NaN
    return still


def on_row_sums(case):
    """Whether each row of the weights that average the values sums to 1; rows of NaN have a verdict of their own."""
    if case.call.random:
        return None
    seen, made, used = case.seen, case.seen.made, case.seen.used
    n = seen.num_tokens
    more = seen.first(
        lambda each: each.name == "softmax" and each.made.shape[-2:-1] == (n,) and each.made.shape[-1] > n
    )
    if not seen.maps and more:
        return Verdict("✓", "Rows sum to 1", f"in {more.where}, over {more.made.shape[-1]} keys")
    if not seen.maps:
        words = f"no map found: no operation made attention weights (..., {n}, {n}) from the tokens"
        return Verdict("?", "Do rows sum to 1?", words)
    again = next((each.again for each in seen.maps if each.again), None)
    if again:
        words = f"{again.where} runs on weights that softmax has already made: where they are 0, it makes them larger"
        return Verdict("✗", "Softmax runs twice", words)
    sums = used.sum(dim=-1)
    near = max(NEAR, *(torch.finfo(each.weights.dtype).eps for each in seen.maps))
    if sums.isnan().any():
        return None
    if near_one(sums, near):
        return Verdict("✓", "Rows sum to 1", f"in all its maps: {len(used)}")
    why = "after softmax some weights are changed"
    if not near_one(made.sum(dim=-1), near):
        why = f"{seen.maps[0].made.where} makes columns that sum to 1"
    elif ((sums.abs() < near) | ((sums - 1).abs() < near)).all():
        why = "where all keys are hidden, all weights are 0"
    elif (used - sums.max() * made).abs().nan_to_num().max() < near:
        why = f"after softmax all weights are multiplied by {sums.max():.2g}"
    return Verdict("✗", "Rows don't sum to 1", f"from {sums.min():.2f} to {sums.max():.2f}: {why}", why)


def on_unused(case):
    """On parameters that move no row in either mode, and on a copy that's thrown away."""
    call = case.call
    if thrown := thrown_away(call.layer, COPYING):
        return Verdict("✗", "A result is never used", thrown)
    if not case.sound:
        return None
    idle = [name for name, each in call.parameters.items() if each.numel() and not case.change(name)]
    # the same for all keys, so softmax doesn't see it
    idle = [name for name in idle if not name.endswith("bias") or f"{name.removesuffix('bias')}weight" in idle]
    flags = [name for name, each in call.options.items() if each in (True, False)]
    switched = {name for name in idle for flag in flags if case.change(name, **{flag: not call.options[flag]})}
    names = ", ".join(idle)
    if not idle:
        return Verdict("✓", "Every parameter is used", "moving any of them moves rows")
    if switched:
        words = f"{names} moves rows only with another value of `{'`, `'.join(flags)}`"
        return Verdict("?", "Should a parameter be used?", words)
    return Verdict(
        "✗", "A parameter is never used", f"moving it moves no row, in eval mode or in training: {names}", names
    )


def on_fewer_tokens(case):
    """Whether the layer accepts a shorter sentence, as a text model must."""
    n = case.call.x.shape[-2]
    try:
        with torch.no_grad():
            case.call(case.call.x[..., :-1, :].clone())
        return Verdict("✓", "It accepts shorter inputs", f"{n - 1} tokens instead of {n}")
    except Exception as error:
        if case.sound and case.unmasked:
            return None
        cause = f"{error_line(error).partition(',')[0] or 'it'} raises {type(error).__name__}"
        return Verdict("✗", "It fails on fewer tokens", f"with {n - 1}, {failure(error)}", cause)


def on_a_batch(case):
    """Whether a sentence has the same rows next to others in a batch."""
    x, rows = case.call.x, case.call.rows
    if not case.sound:
        return None
    if x.ndim == 2:
        return Verdict("✓", "It takes one sentence at a time", "(num_tokens, d_in)")
    try:
        with torch.no_grad():
            made = case.call.output(torch.cat((x.flip(1), x, -x, 2 * x)))  # x isn't first, last or in the middle
        gap = max_difference(made.reshape(4, *rows.shape)[1], rows)
    except Exception as error:
        return Verdict("✗", "It fails on a batch of sentences", failure(error))
    if gap > max(1e-4, 8 * torch.finfo(rows.dtype).eps) * max(1.0, rows.abs().max()):
        return Verdict("✗", "Sentences of a batch mix", f"next to other sentences, a row moves by {gap:.2g}")
    return Verdict("✓", "Sentences of a batch stay apart", "next to three others, a sentence has the same rows")


def on_tokens_first(case):
    words = (
        "(num_tokens, b, d_in), as nn.MultiheadAttention without batch_first=True; else each token reads only itself"
    )
    return Verdict("•", "It takes the tokens first", words) if case.call.tokens_first else None

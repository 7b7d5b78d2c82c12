"""What a layer reads, what it wastes, what it can't take: each function measures one thing and returns a Verdict.

`call` is a Call in eval mode: one sentence x, what was recorded of a call with it, and its rows (num_tokens, width).
"""

import math
from contextlib import suppress

import torch

from attention_helpers.probes import max_difference, perturbation_influence

from .leaks import near_one, unusual_softmax, wrong_dimension
from .lines import error_line, failure
from .maps import NEAR
from .recorder import memory
from .training import moves_rows
from .verdicts import Verdict

VIEWS = {"view", "reshape", "flatten", "unflatten"}


def on_chance(call):
    """On a layer that's random in eval mode: the first operation that moves torch's generator."""
    drew = call.watched.first(lambda each: each.drew)
    where = f"{drew.where if drew else 'something'} draws at each call, not only if self.training"
    return Verdict("✗", "It's random in eval mode too", where) if call.random else None


def on_state(call):
    """On a layer that returns something else at the second call."""
    if call.writes:
        return Verdict("✗", "It writes into its input", "x is another after the call: begin with `x = x.clone()`")
    if not call.isolated:
        return None
    kept = ", ".join(f"`{name}`" for name in call.kept) or "something"
    words = f"a second call with the same x returns other rows, because the first has left {kept}"
    return Verdict("✗", "It keeps something between calls", words)


def on_the_past(call):
    """Whether each row depends on its own token and all earlier ones; a window is named."""
    if call.other_name or call.returns_weights:
        return None
    watched, mixing, tokens = call.watched, call.mixing, torch.arange(len(call.rows))
    unread = unread_tokens(call)
    if not unread.any():
        rows = "all tokens" if call.unmasked else "its whole past"
        return Verdict("✓", f"Each token reads {rows}", "perturbing a token moves each row that may read it")
    distance = tokens[:, None] - tokens
    read = ~unread & (distance >= 0)
    reads_future = bool(call.moved.triu(1).any())
    if torch.equal(read, distance == 0) and not reads_future:
        heads = unusual_softmax(watched).get("heads")
        why = f"; {heads.where} runs over the heads of each token" if heads else ""
        words = f"no perturbation of another token moves a row{why}"
        return Verdict("✗", "Each token reads only itself", words)
    window, row = int(distance.where(read, -1).max()) + 1, int(unread.any(dim=1).nonzero().max())
    missed = unread[row].nonzero().flatten().tolist()
    weighs = bool((watched.used[:, row, missed] > 0).any())
    if not weighs and (window > 1 or not reads_future) and torch.equal(read, (distance >= 0) & (distance < window)):
        words = f"each token reads itself and the {'token' if window == 2 else f'{window - 1} tokens'} before it"
        return Verdict("•", f"It has a sliding window of {window}", words)
    words = f"{call.said('token', row)} never reads {call.said('token', *missed)}"
    if (weighs and (mixing or row in missed)) or not watched.maps:
        why = f"; does the {mixing.where} need a transpose?" if mixing else ""
        return Verdict("✗", "Tokens miss part of their past", words + why)
    return Verdict("?", "Does each token read its whole past?", words)


def unread_tokens(call):
    """Which token (column) moves which row after it in no way, (num_tokens, num_tokens).

    A sharp softmax can make a small perturbation's effect smaller than rounding, so we try larger ones, too.
    """
    still = (call.moved == 0).tril()
    for size in (-1, 10, -10, 100, -100, 1e3, -1e3) if still.any() else ():
        with suppress(Exception):
            still &= perturbation_influence(call.output, call.x, size) == 0  # nor is NaN
    return still


def on_row_sums(call):
    """Whether each row of the weights that average the values sums to 1; rows of NaN have a verdict of their own."""
    watched, made, used = call.watched, call.watched.made, call.watched.used
    sums, near, claim = used.sum(dim=-1), max(NEAR, watched.eps), "Rows don't sum to 1"
    wrong, more = wrong_dimension(watched), unusual_softmax(watched).get("more")
    if wrong:
        between = f"from {sums.min():.2f} to {sums.max():.2f}: " if watched.maps else ""
        return Verdict("✗", claim, between + wrong)
    if not watched.maps and more:
        return Verdict("✓", "Rows sum to 1", f"in {more.where}, over {more.made.shape[-1]} keys")
    if not watched.maps:
        n = watched.num_tokens
        words = f"no map found: no operation made attention weights (..., {n}, {n}) from the tokens"
        return Verdict("?", "Do rows sum to 1?", words)
    if sums.isnan().any():
        return None
    if near_one(sums, near):
        return Verdict("✓", "Rows sum to 1", f"in all its maps: {len(used)}")
    why = "after softmax some weights are changed"
    if ((sums.abs() < near) | ((sums - 1).abs() < near)).all():
        why = "where all keys are hidden, all weights are 0"
    elif (used - sums.max() * made).abs().nan_to_num().max() < near:
        why = f"after softmax all weights are multiplied by {sums.max():.2g}"
    return Verdict("✗", claim, f"from {sums.min():.2f} to {sums.max():.2f}: {why}", why)


def on_second_softmax(call):
    again = call.watched.of_maps("again")
    words = "runs on weights that softmax has already made: where they are 0, it makes them larger than 0"
    return Verdict("✗", "Softmax runs twice", f"{again.where} {words}") if again else None


def on_returned_weights(call):
    words = "makes them; return them times the values"
    weights = call.returns_weights and call.watched.maps[0].made
    return Verdict("✗", "It returns its attention weights", f"{weights.where} {words}") if weights else None


def on_summed_heads(call):
    operation, times = call.watched.of_maps("summed") or (None, 0)
    words = f"adds the values of {times} heads, each with the same weights"
    return Verdict("✗", "A product sums too much", f"{operation.where} {words}") if operation else None


def on_mixed_rows(call):
    words = f"the {call.mixing.where} joins numbers of several tokens" if call.mixing else ""
    return Verdict("?", "Do its rows stay apart?", words) if call.unmasked and words else None


def on_tokens_first(call):
    words = "as nn.MultiheadAttention without batch_first=True; else each token reads only itself"
    return Verdict("•", "It takes the tokens first", f"(num_tokens, b, d_in), {words}") if call.tokens_first else None


def mixing_view(watched):
    """The first view that mixes tokens, or None if the shapes show none.

    A view keeps the order of all numbers. So the tokens' dimension stays theirs only if those in front of it have the
    same product as before. We leave out tables of tokens by tokens, which relative positions shift by such views.
    """
    n = watched.num_tokens

    def places(shape):  # for each dimension that may be the tokens', the product of those in front of it
        return {math.prod(shape[:place]) for place, size in enumerate(shape) if size == n}

    def mixes(operation):
        if not operation.varies or operation.name not in VIEWS:
            return False
        shape = operation.inputs[0].shape
        before, behind = places(shape), places(operation.made.shape)
        table = shape[-2:][0] != n and min(shape[-2:]) >= n and {*shape[-2:]} & {n, n + 1}
        return before and behind and not before & behind and not table

    return watched.first(mixes)


def on_unused(call):
    """On operations whose results nobody used, and on parameters that no operation read in either mode."""
    if call.dead:
        return Verdict("✗", "A result is never used", "; ".join(f"{each.name} in {each.line}" for each in call.dead))
    unused = {memory(each): name for name, each in call.parameters.items() if each.numel()}
    for seen in call.watched, call.dropped:
        read = {memory(tensor) for each in (seen.operations if seen else []) for tensor in each.inputs}
        unused = {key: name for key, name in unused.items() if key not in read}  # a view, such as W.T, has the same
    names = ", ".join(unused.values())
    if not names:
        return Verdict("✓", "Every result is used", "and so is every parameter")
    if not call.switches:
        return Verdict("✗", "A parameter is never used", f"in eval mode or in training: {names}", names)
    words = f"no call of ours used {names}; they leave out `{', '.join(call.switches)}`"
    return Verdict("?", "Should a parameter be used?", words)


def on_unregistered(call):
    """On trainable numbers that were read, but aren't parameters."""
    known = {memory(each) for each in call.parameters.values()}
    read = (tensor for each in call.watched.operations for tensor in each.inputs)
    leaves = (each for each in read if each.is_leaf and each.requires_grad)
    loose = {memory(each): each for each in leaves if memory(each) not in known}
    numbers = sum(tensor.untyped_storage().nbytes() // tensor.element_size() for tensor in loose.values())
    words = f"`parameters()` lacks {numbers} trainable numbers, as with layers in a list, not an nn.ModuleList"
    return Verdict("✗", "Parameters aren't registered", words) if numbers and call.parts else None


def on_fewer_tokens(call):
    """Whether the layer accepts a shorter sentence, as a text model must."""
    error, num_tokens = call.watched.fewer, call.watched.num_tokens
    if not error:
        return Verdict("✓", "It accepts shorter inputs", f"{num_tokens - 1} tokens instead of {num_tokens}")
    if call.unmasked:
        return None
    words = f"with {num_tokens - 1}, {failure(error)}"
    cause = f"{error_line(error).partition(',')[0] or 'it'} raises {type(error).__name__}"
    return Verdict("✗", "It fails on fewer tokens", words, cause)


def on_a_batch(call):
    """Whether a sentence has the same rows next to others in a batch."""
    x, rows = call.x, call.rows
    if x.ndim == 2:
        return Verdict("✓", "It takes one sentence at a time", "(num_tokens, d_in)")
    try:
        batch = torch.cat((x.flip(1), x, -x, 2 * x))  # x is not the first, last or in the middle
        gap = max_difference(call.output(batch).reshape(4, *rows.shape)[1], rows)
    except Exception as error:
        return Verdict("✗", "It fails on a batch of sentences", failure(error))
    if gap > max(1e-4, 8 * call.watched.eps) * max(1.0, rows.abs().max()):
        return Verdict("✗", "Sentences of a batch mix", f"next to other sentences, a row moves by {gap:.2g}")
    return Verdict("✓", "Sentences of a batch stay apart", "next to three others, a sentence has the same rows")


def on_projections(call):
    """A matrix of several projections whose last one has no effect, as if keys served as values; None if none is so."""
    for name, grad in call.grads.items():
        parts = len(grad) // call.rows.shape[-1] if name != "x" and grad is not None and grad.ndim == 2 else 0
        if parts not in (2, 3):
            continue
        live = [bool(part.any()) for part in grad.chunk(parts)]
        idle = torch.arange(len(grad)) >= len(grad) - len(grad) // parts
        if live[0] and not live[-1] and not moves_rows(call, call.parameters[name], idle):
            words = f"{live.count(False)} of {parts} parts of `{name}` have no effect"
            return Verdict("?", f"Should all of `{name}` be used?", words)
    return None

"""What a layer reads, what it wastes, what it can't take: each function measures one thing and returns a Finding."""

import math
from collections import Counter
from contextlib import suppress

import torch

from attention_helpers.probes import all_rows, perturbations

from .drawing import BORROWING
from .leaks import in_training, near_one, over_queries, unusual_softmax
from .lines import error_line, failure, memory, with_line
from .maps import NEAR, PRODUCTS
from .scales import scales_of
from .verdicts import finding

VIEWS = {"view", "reshape", "flatten", "unflatten"}


def on_chance(watched):
    """On a layer that's random in eval mode."""
    drew = [each for each in watched.operations if BORROWING.search(each.name)]
    drew = [each for each in drew if "dropout" not in each.name or not torch.equal(each.inputs[0], each.made)]
    drew = sorted(drew, key=lambda each: "attention" in each.name)  # which draws only with dropout_p
    return finding("draws", where=drew[0].where if drew else "something")


def on_nan(call):
    """On a result with NaN."""
    first = call.watched.first(lambda each: each.made.is_floating_point() and each.made.isnan().any())
    why = ", because all that it sums over is hidden" if first and first.name == "softmax" else ""
    row = call.rows.isnan().any(dim=-1).nonzero()[0].item()
    return finding("nan", row=row, where=first.where if first else "something", why=why)


def on_the_past(call, unmasked, mixing):
    """Whether each row depends on its own token and all earlier ones (all tokens, if unmasked); a window is named."""
    watched, tokens = call.watched, torch.arange(len(call.rows))
    unread, tried = unread_tokens(call)
    if not unread.any():
        return finding("all tokens" if unmasked else "whole past")
    distance = tokens[:, None] - tokens
    read = ~unread & (distance >= 0)
    if torch.equal(read, distance == 0):
        heads = unusual_softmax(watched).get("heads")
        why = f"; {heads.where} runs over the heads of each token" if heads else ""
        return finding("only itself", tried=tried, why=why)
    window, row = int(distance.where(read, -1).max()) + 1, int(unread.any(dim=1).nonzero().max())
    missed = unread[row].nonzero().flatten().tolist()
    weighs = bool((watched.used[:, row, missed] > 0).any())
    if not weighs and torch.equal(read, (distance >= 0) & (distance < window)):
        return finding("window", window=window, before="token" if window == 2 else f"{window - 1} tokens")
    if watched.eps > 1e-3 and not mixing and (weighs or not watched.maps):
        return None  # half precision is too coarse to tell
    why = f"; does the {mixing.where} need a transpose?" if mixing else ""
    kind = "missed past" if (weighs and (mixing or row in missed)) or not watched.maps else "hidden past"
    return finding(kind, reader=row, missed=missed, why=why)


def unread_tokens(call):
    """Which token (column) moves which row after it in no way, (num_tokens, num_tokens), and how many ways we tried.

    A sharp softmax can make a small perturbation's effect smaller than rounding, so we try all that find_leak tries.
    """
    still, tried = (call.moved == 0).tril(), 0
    _, start, changed, _ = perturbations(call.x)
    changed = changed[(start == call.x).all(dim=-1).all(dim=-1)]  # in this sentence
    place = torch.arange(call.x.shape[-2])[:, None]
    for j in still.any(dim=0).nonzero().flatten().tolist():
        with suppress(Exception):
            after = all_rows(call.output, call.x, changed.where(place == j, call.x))  # (pokes, num_tokens, width)
            change = (after - call.rows).abs().amax(dim=-1).nan_to_num(torch.inf)
            limit = 16 * torch.finfo(after.dtype).eps * call.rows.abs().max()  # what a batch rounds differently
            still[:, j] &= ~(change > limit).any(dim=0)
            tried += len(changed)
    return still, tried


def on_row_sums(watched):
    """Whether each row of the weights that average the values sums to 1."""
    maps, used, made, near = watched.maps, watched.used, watched.made, max(NEAR, watched.eps)
    if not maps:
        unusual = unusual_softmax(watched)
        if "across" in unusual:
            why = f"{unusual['across'].where} runs over neither keys nor queries; over the keys, it would be dim=-1"
            return finding("no sums", range="", why=why)
        if "more" in unusual:
            return finding("sums", where=f"in {unusual['more'].where}, over {unusual['more'].made.shape[-1]} keys")
        return finding("no map", shape=f"(..., {watched.num_tokens}, {watched.num_tokens})")
    sums = used.sum(dim=-1).nan_to_num()
    if near_one(sums, near):
        return finding("sums", where="in its only map" if len(used) == 1 else f"in each of its {len(used)} maps")
    why = "after softmax some weights are changed"
    if over_queries(made):
        why = "the columns do. It's a softmax over the queries; over the keys, it would be dim=-1"
        why = f"the columns do, since {maps[0].turned.where} transposed the weights" if maps[0].turned else why
    elif (used - sums.max() * made).abs().nan_to_num().max() < near:
        why = f"after softmax all weights are multiplied by {sums.max():.2g}"
    return finding("no sums", range=f"from {sums.min():.2f} to {sums.max():.2f}: ", why=why)


def mixing_view(watched):
    """The first view that mixes tokens, or None if the shapes show none.

    A view keeps the order of all numbers. So the tokens' dimension stays theirs only if those in front of it have the
    same product as before. We leave out tables of tokens by tokens, which relative positions shift by such views.
    """

    def places(shape):  # for each dimension that may be the tokens', the product of those in front of it
        return {math.prod(shape[:place]) for place, size in enumerate(shape) if size == num_tokens}

    num_tokens = watched.num_tokens
    for each in watched.operations:
        if each.varies and each.name in VIEWS:
            shape, after = (tuple(tensor.shape) for tensor in (each.inputs[0], each.made))
            before, behind, ends = places(shape), places(after), {*shape[-2:]}
            table = len(shape) > 1 and min(ends) >= num_tokens and ends & {num_tokens, num_tokens + 1}
            if before and behind and not before & behind and not (table and ends != {num_tokens, shape[-1]}):
                return each
    return None


def on_unused(call, dead):
    """On operations whose results nobody used, `dead`, and on parameters that no operation read in either mode.

    Where `forward` has other arguments, or the layer a switch, that we leave as they are, only its author can tell.
    """
    if dead:
        return finding("dead", where="; ".join(with_line(each.name, each.line, code=True) for each in dead))
    names = {memory(each): name for name, each in call.parameters if each.numel()}
    for look in (lambda: call.watched, lambda: in_training(call)):
        read = {memory(tensor) for tensor in (look().read if names and look() else []) if tensor.numel()}
        names = {key: name for key, name in names.items() if key not in read}  # a view, such as W.T, has the same
    kind = ("optional" if call.switches else "unread") if names else "all used"
    return finding(kind, names=", ".join(names.values()), switches=", ".join(call.switches))


def on_fewer_tokens(call, causal):
    """Whether the layer accepts a shorter sentence, as a text model must."""
    error, num_tokens = call.watched.fewer, call.watched.num_tokens
    if not error:
        return finding("fewer", fewer=num_tokens - 1, num_tokens=num_tokens)
    names = {"where": error_line(error).partition(",")[0] or "it", "error": type(error).__name__}
    return finding("not fewer" if causal else "one length", fewer=num_tokens - 1, failure=failure(error), **names)


def on_a_batch(call):
    """Whether a sentence has the same rows next to others in a batch."""
    x, rows = call.x, call.rows
    if x.ndim == 2:
        return finding("one sentence")
    try:
        batch = torch.cat((x.flip(1), x, -x, 2 * x))  # x is not the first, last or in the middle
        gap = (call.output(batch).reshape(4, *rows.shape)[1] - rows).abs().max().item()
    except Exception as error:
        return finding("batch fails", failure=failure(error))
    mixes = gap > max(1e-4, 8 * call.watched.eps) * max(1.0, rows.abs().max())
    return finding("batch mixes" if mixes else "batch", gap=gap)


def on_scale(watched):
    """A scale of the scores that's the root of something else than the queries' width; None if it isn't."""
    scaled, num_tokens = scales_of(watched.operations), watched.num_tokens
    for factor, width, heads in scaled:
        heads = sum(each for *_, each in scaled) if heads == 1 else heads
        guesses = {
            f"1/√{width * heads}, the root of all heads' width": (width * heads) ** -0.5,
            f"1/{width}": 1 / width,
            f"√{width}": width**0.5,
            f"1/√{num_tokens}, the root of the number of tokens": num_tokens**-0.5,
            f"1/√{heads}, the root of the number of heads": heads**-0.5,
        }
        for formula, guess in guesses.items():
            odd = width > 1 and abs(factor * width**0.5 - 1) > 1e-3 and guess != 1
            if odd and abs(factor / guess - 1) < 1e-3:
                return finding("odd scale", factor=factor, formula=formula, width=width, right=width**-0.5)
    return None


def on_projections(call):
    """A projection that's used several times in a call, or whose last part has no effect; None if there's none."""
    named = {memory(each): (name, each) for name, each in call.parameters if each.ndim > 1}
    products = [each for each in call.watched.operations if each.varies and each.name in PRODUCTS | {"linear"}]
    read = [tensor for each in products for tensor in each.inputs if tensor.ndim > 1]
    used = [(*named[memory(each)], each) for each in read if memory(each) in named]
    for name, times in Counter(name for name, matrix, part in used if matrix.numel() == part.numel()).items():
        if times > 1:
            return finding("shared", name=name, times=times)
    with suppress(Exception), torch.enable_grad():
        rows = call.rows_of(call(call.x.clone()))
        weights = torch.randn(rows.shape, generator=torch.Generator().manual_seed(0)).to(rows)
        grads = torch.autograd.grad((rows * weights).sum(), [each for _, each, _ in used], materialize_grads=True)
        for (name, matrix, _), grad in zip(used, grads, strict=True):
            for parts in [2, 3] if matrix.ndim < 3 else [len(matrix)]:  # or a matrix for each head
                live = [bool(part.any()) for part in grad.chunk(parts)]
                if len(matrix) % parts == 0 and live[0] and not live[-1]:
                    return finding("idle part", name=name, idle=live.count(False), parts=parts)
    return None

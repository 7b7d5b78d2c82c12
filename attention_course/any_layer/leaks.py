"""Does a layer read the future, in eval mode and in training, and what lets it? In findings and here, `call` is a
Taking: a layer in eval mode, one sentence x, what we saw of a call with it, and its rows (num_tokens, width).
"""

import re
from contextlib import suppress

import torch

from attention_helpers.probes import find_leak, perturbation_influence, rounding
from attention_helpers.state import keep_state

from .drawing import DrawnFrom
from .maps import FUSED, NEAR, find_maps, is_table
from .verdicts import finding

MASKING = {"masked_fill", "where", "tril", "triu", "add", "sub", "mul", "masked_scatter"}


def near_one(sums, near=NEAR):
    return bool(((sums - 1).abs() <= near).all())


def over_queries(made):
    return near_one(made.sum(dim=-2)) and not near_one(made.sum(dim=-1))


def on_the_future(call, dead, mixing):
    """Whether an earlier row depends on a later token, as find_leak perturbs them, and why: see cause_of_leak."""
    try:
        leak = find_leak(call.output, call.x)
    except Exception as error:  # find_leak refuses the layer, or a perturbation made the learner's own code fail
        return finding("unjudged", error=error)
    if not leak:
        return finding("context", other=call.other_name) if call.other_name else finding("past only", tried=leak.tried)
    kind, data = cause_of_leak(leak, call, dead, mixing)
    if kind == "no mask":
        data = {"unasked": f", and `forward` got no `{call.mask}`" * bool(call.mask), "triangle": triangle_of(call)}
        trained, name = in_training(call), type(call.layer).__name__
        if trained and trained.maps and not trained.made.triu(1).any():
            kind = "mask in training"
        elif data["triangle"]:
            kind = "mask not used"
        elif not call.watched.maps:
            kind = "all, without maps"
        elif re.search("(?<!non)(?<!non_)causal|(?<!un)masked|(?<!encoder)decoder", name, re.IGNORECASE):
            kind = "no mask, by its name"
    return finding(kind, **leak._asdict(), moves=leak.moves, **data)


def cause_of_leak(leak, call, dead, mixing):
    """The kind of a leak, and what its words need. dead: operations whose results nobody used; mixing: a view that
    mixes rows. Both, and the weights above the diagonal, show what lets the future in.
    """
    watched, num_tokens, used, made = call.watched, call.watched.num_tokens, call.watched.used, call.watched.made
    thrown = [each for each in dead if is_table(each.made, num_tokens) and each.name in MASKING]
    if thrown:
        return "mask thrown away", {"name": thrown[0].name, "where": thrown[0].line.partition(",")[0] or "it"}
    if not watched.maps:
        if across := unusual_softmax(watched).get("across"):
            return "softmax across", {"where": across.where}
        return ("no mask", {}) if call.moved.all() else first_mixer(call)
    if over_queries(made):
        turned = watched.maps[0].turned
        return "turned" if turned else "over queries", {"where": (turned or watched.maps[0].made).where}
    future = used.triu(1)
    limit = rounding(call.rows[None], call.x.reshape(1, -1)).item()
    finite = finite_score(watched) if future.max() >= 1e-4 or not (call.moved.triu(1) > limit).any() else None
    if finite:
        return finite
    if not future.any() and not made.triu(1).any() and leak.change < torch.inf:
        return ("view mixes", {"where": mixing.where}) if mixing else first_mixer(call)
    patterns = {
        "hides past": num_tokens > 2 and not used[:, :-1].tril(-1).any(),
        "no mask": not (used == 0).triu(1).any(),
        "mask after softmax": not future.any() and made.triu(1).any(),
        "mask after exp": not future.any(),
        "one too late": not used.triu(2).any(),
        "one too early": not future[:, 1:].any() and near_one(used[:, 0] * num_tokens),
    }
    return next((kind for kind, holds in patterns.items() if holds), "hides some"), {}


def first_mixer(call):
    """A leak through the first operation whose numbers for earlier tokens change when the last token does."""
    num_tokens, x = call.watched.num_tokens, call.x.clone()
    x[..., -1, :] += 1
    calls = (find_maps(call, each, again=False).operations for each in (call.x.clone(), x))
    for first, second in zip(*calls, strict=False):
        before, after = first.made, second.made
        if before.shape != after.shape or not first.inputs or first.name in ("pad", "cat"):
            continue
        largest = max((each.numel() for each in first.inputs), default=0)
        merged = before.numel() >= largest and any(size % num_tokens == 0 for size in before.shape)
        known = num_tokens in before.shape
        for dim in (dim for dim, size in enumerate(before.shape) if size == num_tokens):
            before, after = before.narrow(dim, 0, num_tokens - 1), after.narrow(dim, 0, num_tokens - 1)
        if (known or not merged) and not torch.equal(before, after):
            return "mixed", {"where": first.where}
    return "future", {}


def finite_score(watched):
    """The finite number that softmax gets for hidden scores, as a leak's kind and data; None if there isn't one."""
    tables = [each.scores for each in watched.maps if each.scores is not None]
    if not tables:
        return None
    scores, after = torch.cat(tables), torch.ones_like(tables[0][0]).triu(1).bool()
    hidden, own = scores[:, after], scores.masked_fill(after, torch.inf).amin(dim=-1)[:, :-1]
    same, below = hidden.numel() > 1 and bool((hidden == hidden[0, 0]).all()), bool(hidden.max() < own.min() - 5)
    value = hidden.mean().item()
    return ("finite mask", {"value": value}) if -1e6 <= value < torch.inf and (same or below) else None


def unusual_softmax(watched):
    """Operations that sum to 1 over something else than the tokens: "across" neither keys nor queries, over the
    "heads" of each token, or over tokens and "more" keys.
    """
    found, num_tokens = {}, watched.num_tokens
    for each in watched.operations:
        shape, ndim, dim = each.made.shape, each.made.ndim, each.dim
        if each.name == FUSED:
            found |= {"heads": each} if shape[-3] == num_tokens != shape[-2] else {}
        elif each.name == "softmax" and ndim > 2:
            if is_table(each.made, num_tokens):
                found |= {"across": each} if dim is None or dim % ndim < ndim - 2 else {}
            elif shape[-3] == num_tokens and shape[-2] == shape[-1]:
                found["heads"] = each
            elif shape[-2] == num_tokens < shape[-1] and dim in (-1, ndim - 1):
                found["more"] = each
    return found


def triangle_of(call):
    """What makes a triangle, as masks are made: a buffer, or a call; "" if nothing does."""
    n = call.watched.num_tokens
    keep = torch.ones(n, n, dtype=torch.bool).tril()
    for name, buffer in call.buffers:
        if buffer.ndim > 1 and is_table(table := buffer.detach()[..., :n, :n], n):
            lower, upper = table[..., keep].unique(), table[..., ~keep].unique()
            if len(lower) == len(upper) == 1 and lower != upper:
                return f"its `{name}`"
    cut = call.watched.first(lambda each: each.name in ("tril", "triu") and is_table(each.made, n))
    return cut.where if cut else ""


def in_training(call):
    """What we see of a call in training mode, or None if it fails."""
    with keep_state(call.layer, training=True), DrawnFrom(torch.Generator()), suppress(Exception):
        return find_maps(call, call.x, again=False)


def on_training(call, seed):
    """A leak in training mode, where each call draws the same from the seed; None if there's none that we can tell."""
    generator = torch.Generator()

    def output(x):
        generator.manual_seed(seed)
        return call.output(x.clone())

    with keep_state(call.layer, training=True), DrawnFrom(generator), suppress(Exception):
        same = torch.equal(output(call.x), output(call.x))
        moved = perturbation_influence(output, call.x, 1.0).triu(1)
        limit = rounding(call.rows[None], call.x.reshape(1, -1)).item()
        for row, token in (moved > limit).nonzero().tolist()[: int(same)]:
            moves = f"moves by {moved[row, token]:.2g}"
            return finding("future in training", row=row, token=token, moves=moves, cause=cause_in_training(call))
    return None


def cause_in_training(call):
    """What lets the future in, in words."""
    watched = in_training(call)
    if norm := watched.first(lambda each: each.name == "batch_norm"):
        return f"{norm.where} averages all tokens"
    unmasked = (f"{each.made.where} has no mask" for each in watched.maps if each.used.triu(1).any())
    return next(unmasked, "though not in eval mode")

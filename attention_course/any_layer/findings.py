"""What a layer reads, what it wastes, what it can't take: each function measures one thing and returns Findings.

Everywhere here, `call` is a Taking: a layer in eval mode, one sentence x, (num_tokens, d_in) or (1, num_tokens, d_in),
what we saw of a call with it, and its rows (num_tokens, width).
"""

import math
import re
from collections import Counter
from contextlib import suppress

import torch

from attention_helpers.probes import all_rows, find_leak, perturbations, rounding
from attention_helpers.seeded import DrawnFrom, undisturbed

from .lines import error_line, failure, memory, with_line
from .maps import NEAR, find_maps, is_table, outputs_of
from .verdicts import Finding, counted, leak_in_words

IDLE = {"clone", "detach", "contiguous", "to", "float", "cpu", "mean", "arange", "zeros", "ones", "empty", "type_as"}


def used_and_made(maps):
    """The weights as they average the values, and as softmax made them, each (num_maps, num_tokens, num_tokens)."""
    return torch.cat([each.used for each in maps]), torch.cat([each.weights for each in maps])


def on_chance(drew):
    """On a layer that's random in eval mode. drew: a Watched's."""
    drew = [*dict.fromkeys(drew)]
    drew = [each for each in drew if "attention" not in each[0]] or drew
    others = [with_line(name, line) for name, line in drew if not re.search("dropout|attention", name)]
    if others:
        return Finding("draws", {"where": others[0]})
    said = [with_line(name if "dropout" in name else f"the dropout of {name}", line) for name, line in drew]
    return Finding("drops", {"where": ", ".join(said) or "something"})


def on_nan(call):
    """On a result with NaN."""
    row, where = call.rows.isnan().any(dim=-1).nonzero()[0].item(), with_line(*(call.watched.nan or ("something", "")))
    why = ", because all that it sums over is hidden" if call.watched.nan and call.watched.nan[0] == "softmax" else ""
    return Finding("nan", {"row": row, "where": where, "why": why})


def on_the_future(call, dead, mixing, names):
    """Whether an earlier row depends on a later token, as find_leak perturbs them. Blame: dead, mixing.

    names: what the layer, its buffers and its lines say of a mask: (its class's name, what makes a triangle).
    """
    try:
        leak = find_leak(call.output, call.x)
    except Exception as error:  # find_leak refuses the layer, or a perturbation made the learner's own code fail
        return Finding("unjudged", {"error": error})
    if not leak:
        if call.others:
            return Finding("context", {"other": call.other_name})
        return Finding("past only", {"tried": leak.tried})
    said, maps = {"leak": leak_in_words(leak)}, call.watched.maps
    cause = cause_of_leak(leak, call, dead, mixing)
    unasked = f", and `forward` got no `{call.mask}`" if call.mask else ""
    if cause != UNMASKED:
        return Finding("future", said | {"cause": cause or said["leak"]})
    name, triangle = names
    if mask_only_in_training(call):
        return Finding("mask in training")
    if triangle:
        return Finding("future", said | {"cause": f"{triangle} makes a mask, but no weight after the diagonal is 0"})
    said["unasked"] = unasked
    if not maps:
        return Finding("all, without maps", said)
    named = re.search("(?<!non)(?<!non_)causal|(?<!un)masked|(?<!encoder)decoder", name, re.IGNORECASE)
    return Finding("no mask, by its name" if named else "no mask", said)


UNMASKED = "unmasked"
MASKING = {"masked_fill", "where", "tril", "triu", "add", "sub", "mul", "masked_scatter"}


def cause_of_leak(leak, call, dead, mixing):
    """What thrown-away results, and the weights above the diagonal, reveal about a layer that reads the future."""
    watched, num_tokens = call.watched, call.x.shape[-2]
    for name, shape, line in dead:
        if is_table(shape, num_tokens) and name in MASKING:
            return f"{line.partition(',')[0] or 'it'} computes {name} and throws it away"
    maps = watched.maps
    if not maps:
        return watched.across or (UNMASKED if call.moved.all() else first_mixer(call))
    used, made = used_and_made(maps)
    if over_queries(made):
        made_by = with_line(maps[0].made_by, maps[0].line)
        turned = f"its weights are transposed by {maps[0].turned}"
        return turned if maps[0].turned else f"{made_by} runs over the queries, not the keys"
    elsewhere = used.triu(1).max() < 1e-4 and (call.moved.triu(1) > limit_of(call)).any()
    if not elsewhere and (finite := finite_mask(maps, watched.bounded)):
        return finite
    if num_tokens > 2 and not used[:, :-1].tril(-1).any():
        return "its mask hides the past instead"
    if not (used == 0).triu(1).any():
        return UNMASKED
    if not used.triu(1).any():
        if made.triu(1).any():
            return "its mask comes after softmax, which has counted the future"
        if leak.change == torch.inf:
            return "a large score there takes all: mask the scores before exp"
        return f"{mixing[0]} mixes the rows" if mixing else first_mixer(call)
    if not used.triu(2).any():
        return "its mask begins one diagonal too late"
    if not used[:, 1:].triu(1).any() and near_one(used[:, 0] * num_tokens):
        return "its mask begins one diagonal too early, so row 0 has no key and averages over all tokens"
    return "its mask hides only some of it"


def limit_of(call):
    """The largest move of a row by rounding."""
    return rounding(call.rows[None], call.x.reshape(1, -1)).item()


def first_mixer(call):
    """The first operation of a call whose numbers for earlier tokens change when the last token does, with its line."""
    num_tokens, calls = call.x.shape[-2], []
    for changed in (False, True):
        x = call.x.clone()
        x[..., -1, :] += 1.0 * changed
        calls.append(outputs_of(call, x))
    for (name, line, size_before, before), (*_, after) in zip(*calls, strict=False):
        if before.shape != after.shape or not before.is_floating_point() or name in ("pad", "cat"):
            continue
        merged = before.numel() >= size_before and any(size % num_tokens == 0 for size in before.shape)
        known = num_tokens in before.shape
        for dim in (dim for dim, size in enumerate(before.shape) if size == num_tokens):
            before, after = before.narrow(dim, 0, num_tokens - 1), after.narrow(dim, 0, num_tokens - 1)
        if (known or not merged) and not torch.equal(before, after):
            return f"{with_line(name, line)} mixes later tokens into earlier rows"
    return ""


def finite_mask(maps, bounded):
    """What is said of hidden scores that are finite, as softmax got them; "" if there are none."""
    tables = [each.scores for each in maps if each.scores is not None]
    if not tables:
        return ""
    scores = torch.cat(tables)
    num_tokens = scores.shape[-1]
    after = torch.ones(num_tokens, num_tokens).triu(1).bool()
    hidden, own = scores[:, after], scores.masked_fill(after, torch.inf).amin(dim=-1)[:, :-1]
    if not hidden.isfinite().all():
        return ""
    value, below = hidden.mean().item(), bool(hidden.max() < own.min() - 5)
    if value < -1e6:  # no score outweighs it
        return ""
    if (hidden == hidden.flatten()[0]).all() and (below or hidden.numel() > 1):
        if bounded:
            return f"{bounded} bounds its mask to {value:.4g}, a score like any other"
        return f"it hides with {value:.4g}, a score like any other, so fill with -inf"
    return f"it adds about {value:.2g} to hide, which a large score outweighs, so fill with -inf" * below


def on_the_past(call, unmasked, mixing):
    """Whether each row depends on its own token and all earlier ones (all tokens, if unmasked); a window is named."""
    maps = call.watched.maps
    unread, tried = unread_tokens(call, call.moved == 0)
    if not unread.tril().any():
        return Finding("all tokens" if unmasked else "whole past")
    unread = unread.tril()
    tokens = torch.arange(len(call.rows))
    distance = tokens[:, None] - tokens
    read = ~unread & (distance >= 0)
    if torch.equal(read, distance == 0):
        among = call.watched.among
        return Finding("only itself", {"tried": tried, "why": f"; {among}" * bool(among)})
    window = int(distance.where(read, -1).max()) + 1
    row = int(unread.any(dim=1).nonzero().max())
    missed = unread[row].nonzero().flatten().tolist()
    weighs = bool(maps and (used_and_made(maps)[0][:, row, missed] > 0).any())
    if not weighs and torch.equal(read, (distance >= 0) & (distance < window)):
        return Finding("window", {"window": window, "before": counted(window - 1)})
    said = {"row": row, "missed": counted(missed)}
    if maps and not weighs:
        return Finding("hidden past", said)
    if call.watched.eps > 1e-3 and not mixing:
        return None  # half precision is too coarse to tell
    said["though"] = ", though a map has a weight there" if weighs else ""
    said["why"] = f"; does {mixing[0]} need a transpose?" if mixing else ""
    return Finding("missed past" if mixing or row in missed or not maps else "hardly read", said)


def unread_tokens(call, still):
    """Which tokens no row reads, of those that `still` (num_tokens, num_tokens) wasn't moved by, and how many pokes.

    A sharp softmax can make a small perturbation's effect smaller than rounding, so we try all that find_leak tries.
    """
    still, tried = still.clone(), 0
    for j in still.tril().any(dim=0).nonzero().flatten().tolist():
        words, poked = perturbations(call.x, j)
        with suppress(Exception):
            after = all_rows(call.output, call.x, poked, call.rows)  # (pokes, num_tokens, width)
            change = (after - call.rows).abs().amax(dim=-1).nan_to_num(torch.inf)
            alone = torch.tensor(["and" not in each for each in words])  # only this token was moved
            limit = 2 * torch.finfo(after.dtype).eps * call.rows.abs().amax(dim=-1)
            still[:, j] &= ~((change > limit) & alone[:, None]).any(dim=0)
            tried += int(alone.sum())
    return still, tried


def mask_only_in_training(call):
    """Whether a layer's maps, which hide nothing in eval mode, hide the future in training mode."""
    with undisturbed(call.layer, training=True), DrawnFrom(torch.Generator()), suppress(Exception):
        maps = find_maps(call, call.x, again=False).maps
        return bool(maps) and not any(each.weights.triu(1).any() for each in maps)
    return False


def on_training(call, seed):
    """Whether an earlier row depends on a later token in training mode, where each call draws the same from the seed.

    None if not, or if it can't be told.
    """
    x, num_tokens, generator = call.x, call.x.shape[-2], torch.Generator()

    def rows_of(given):
        generator.manual_seed(seed)
        return call.rows_of(call(given))

    with undisturbed(call.layer, training=True), DrawnFrom(generator), suppress(Exception):
        before = rows_of(x.clone())
        if not torch.equal(before, rows_of(x.clone())):
            return None
        for first in (num_tokens - 1, 1):
            poked = x.clone()
            poked[..., first:, :] = 3 * x.flip(-2)[..., first:, :] + 1
            change = (rows_of(poked) - before)[:first].abs().amax(dim=-1)
            limit = rounding(before[None], poked.reshape(1, -1)).item()
            if (change > limit).any():
                row = int((change > limit).nonzero()[0])
                after = " and all after it are" if first < num_tokens - 1 else " is"
                leak = f"row {row} moves by {change[row]:.2g} when token {first}{after} changed"
                return Finding("future in training", {"leak": leak, "cause": cause_in_training(call, leak)})
    return None


def cause_in_training(call, leak):
    watched = find_maps(call, call.x, again=False)
    for name, _, line in watched.operations:
        if name == "batch_norm":
            return f"{with_line(name, line)} averages all tokens"
    for each in watched.maps:
        if each.used.triu(1).any():
            return f"{with_line(each.made_by, each.line)} has no mask"
    return leak


def on_row_sums(watched, num_tokens, random=False):
    """Whether each row of the weights that average the values sums to 1. random: whether the layer is, in eval mode."""
    maps = watched.maps
    if not maps and watched.across:
        return Finding("sums across", {"where": watched.across})
    if not maps and watched.wide:
        return Finding("sums wide", {"where": watched.wide})
    if not maps:
        return Finding("no map", {"shape": f"(..., {num_tokens}, {num_tokens})"})
    used, made = used_and_made(maps)
    sums = used.sum(dim=-1).nan_to_num()
    near = max(NEAR, watched.eps)
    if near_one(sums, near):
        return Finding("sums", {"where": "in its only map" if len(used) == 1 else f"in each of its {len(used)} maps"})
    if random and near_one(made.sum(dim=-1), near):
        return Finding("sums before dropout")
    how = "taken away" if ((used == 0) & (made > 0)).any() else "changed"
    why, empty = f"after softmax some weights are {how}", (sums == 0).any(dim=0)
    if (used - sums.max() * made).abs().nan_to_num().max() < near:
        why = f"after softmax all weights are multiplied by {sums.max():.2g}"
    if empty.any():
        why = f"row {empty.nonzero()[0].item()} has no weight, as where all its keys are hidden"
    if over_queries(made):
        why = "the columns do. It's a softmax over the queries; over the keys, it would be dim=-1"
        why = f"the columns do, since {maps[0].turned} transposed the weights" if maps[0].turned else why
    return Finding("no sums", {"least": sums.min().item(), "most": sums.max().item(), "why": why})


def near_one(sums, near=NEAR):
    return bool(((sums - 1).abs() <= near).all())


def over_queries(made):
    return near_one(made.sum(dim=-2)) and not near_one(made.sum(dim=-1))


def mixing_view(views, num_tokens):
    """The first view that mixes tokens, as (name with line, shape before, shape after); () if the shapes show none.

    A view keeps the order of all numbers. So the tokens' dimension stays theirs only if those in front of it have the
    same product as before. We leave out tables of tokens by tokens, which relative positions shift by such views.
    """

    def places(shape):  # for each dimension that may be the tokens', the product of those in front of it
        return {math.prod(shape[:place]) for place, size in enumerate(shape) if size == num_tokens}

    for name, line, shape, after in views:
        before, behind = places(shape), places(after)
        table = len(shape) > 1 and min(shape[-2:]) >= num_tokens and {*shape[-2:]} & {num_tokens, num_tokens + 1}
        if before and behind and not before & behind and not (table and {*shape[-2:]} != {num_tokens, shape[-1]}):
            return f"the {with_line(name, line)}", shape, after
    return ()


def on_unused(dead, unread):
    """On results that nobody used, as (name, shape, line), and the names of parameters that no operation read."""
    if dead:
        spare = all(name in IDLE for name, *_ in dead)
        where = "; ".join(with_line(name, line, code=True) for name, _, line in dead)
        return Finding("spare" if spare and not unread else "dead", {"where": where})
    return Finding("unread", {"names": ", ".join(unread)}) if unread else Finding("all used")


def on_fewer_tokens(call, causal):
    """Whether the layer accepts a shorter sentence, as a text model must."""
    error, num_tokens = call.watched.fewer, call.x.shape[-2]
    said = {"fewer": num_tokens - 1, "num_tokens": num_tokens}
    if not error:
        return Finding("fewer", said)
    said |= {"failure": failure(error), "error": type(error).__name__}
    return Finding(
        "not fewer" if causal else "one length", said | {"where": error_line(error).partition(",")[0] or "it"}
    )


def on_a_batch(call):
    """Whether a sentence has the same rows next to others in a batch."""
    x, rows = call.x, call.rows
    if x.ndim == 2:
        return Finding("one sentence")
    try:
        batch = torch.cat((x.flip(1), x, -x, 2 * x))  # x is not the first, last or in the middle
        after = call.output(batch).reshape(4, *rows.shape)[1]
    except Exception as error:
        return Finding("batch fails", {"failure": failure(error)})
    gap = (after - rows).abs().max()
    if gap > max(1e-4, 8 * call.watched.eps) * max(1.0, rows.abs().max()):
        return Finding("batch mixes", {"gap": gap.item()})
    return Finding("batch")


def on_scale(scaled, num_tokens):
    """A scale of the scores that's the root of something else than the queries' width; None if it isn't."""
    total = sum(heads for *_, heads in scaled)
    for factor, width, heads in scaled:
        if not factor or not width or width < 2 or abs(factor * width**0.5 - 1) < 1e-3:
            continue
        heads = total if heads == 1 else heads
        guesses = {
            f"1/√{width * heads}, the root of all heads' width": (width * heads) ** -0.5,
            f"1/{width}": 1 / width,
            f"√{width}": width**0.5,
            f"1/√√{width}": width**-0.25,
            f"1/√{num_tokens}, the root of the number of tokens": num_tokens**-0.5,
            f"1/√{heads}, the root of the number of heads": heads**-0.5,
        }
        for formula, guess in guesses.items():
            if abs(factor / guess - 1) < 1e-3 and guess != 1:
                return Finding(
                    "odd scale", {"factor": factor, "formula": formula, "width": width, "right": width**-0.5}
                )
    return None


def on_projections(call, parameters):
    """A projection that's used several times in a call, or whose last part has no effect; None if there's none.

    parameters: pairs (name, parameter).
    """
    named = {memory(each): (name, each) for name, each in parameters if each.ndim > 1}
    used = [(*named[memory(each)], each) for each in call.watched.projects if memory(each) in named]
    for name, times in Counter(name for name, whole, part in used if whole.numel() == part.numel()).items():
        if times > 1:
            return Finding("shared", {"name": name, "times": times})
    with suppress(Exception), torch.enable_grad():
        rows = call.rows_of(call(call.x.clone()))
        generator = torch.Generator().manual_seed(0)
        loss = (rows * torch.randn(rows.shape, generator=generator).to(rows)).sum()
        grads = torch.autograd.grad(loss, [each for _, each, _ in used], allow_unused=True)
        for (name, parameter, _), grad in zip(used, grads, strict=True):
            whole = [2, 3] if parameter.ndim < 3 else [len(parameter)]  # a matrix for each head
            for parts in whole if grad is not None else ():
                if len(parameter) % parts == 0:
                    live = [bool(part.any()) for part in grad.chunk(parts)]
                    if live[0] and not live[-1]:
                        return Finding("idle part", {"name": name, "idle": live.count(False), "parts": parts})
    return None

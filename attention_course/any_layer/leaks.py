"""Does a layer read the future, and what lets it? `call` is a Call in eval mode, as in findings."""

import torch

from attention_helpers.probes import find_leak, rounding

from .maps import FUSED, NEAR, is_table
from .recorder import record
from .verdicts import Verdict

MASKING = {"masked_fill", "where", "tril", "triu", "add", "sub", "mul", "masked_scatter"}
NO_MASK = "no mask"


def near_one(sums, near=NEAR):
    return bool(((sums - 1).abs() <= near).all())


def on_the_future(call):
    """Whether an earlier row depends on a later token, as find_leak perturbs them, and why: see cause_of_leak."""
    try:
        leak = find_leak(call.output, call.x)
    except Exception as error:  # find_leak refuses the layer, or a perturbation made the learner's own code fail
        return Verdict("?", "Does it read the future?", f"can't be judged: {error}")
    if not leak and call.other_name:
        words = "which is the same sentence here; perturbing x moved no earlier row"
        return Verdict("✓", f"It reads all of {call.other_name}", words)
    if not leak:
        words = f"{leak.tried} perturbations of later tokens moved no earlier row"
        return Verdict("✓", "It reads only the past", words)
    moved = f"{call.said('row', leak.row)} {leak.moves} when {call.said('token', leak.token)} {leak.what}"
    cause = cause_of_leak(leak, call)
    return without_mask(call, moved) if cause == NO_MASK else Verdict("✗", "It reads the future", moved, cause)


def without_mask(call, moved):
    """On a layer in which each token reads all tokens: a fault only if something says that it should have a mask."""
    watched, trained = call.watched, call.dropped
    if trained and trained.maps and not trained.made.triu(1).any():
        return Verdict("✗", "In eval mode, it reads the future", "only in training, no weight is after the diagonal")
    if added := watched.first(adds_zeros_and_ones):
        cause = f"{added.where} adds its mask of 0 and 1 to the scores, where only a boolean mask hides"
        return Verdict("✗", "It reads the future", moved, cause)
    unasked = f", and `forward` got no `{call.mask}`" if call.mask else ""
    words = f"no weight after the diagonal is 0{unasked}: each token reads all tokens"
    return Verdict("•", "It has no mask", words if watched.maps else f"each token moves all rows; {moved}")


def adds_zeros_and_ones(operation):
    """Whether an operation is torch's fused attention with a mask of floating-point 0 and 1."""
    mask = operation.inputs[3] if operation.name == FUSED and len(operation.inputs) > 3 else None
    return mask is not None and mask.is_floating_point() and bool(((mask == 0) | (mask == 1)).all())


def cause_of_leak(leak, call):
    """What lets the future in, in words: "" if nothing shows it; NO_MASK if it's the whole future."""
    watched, used, made = call.watched, call.watched.used, call.watched.made
    for each in call.dead:
        if is_table(each.made, watched.num_tokens) and each.name in MASKING:
            return f"{each.place} computes {each.name} and throws it away"
    if wrong := wrong_dimension(watched):
        return wrong
    if not watched.maps:
        return NO_MASK if call.moved.all() else first_mixer(call)
    again = watched.of_maps("again")
    if again and (again.inputs[0] == 0).triu(1).any():
        return f"{again.where} runs on weights that softmax has already made"
    future, limit = used.triu(1).any(), rounding(call.rows[None], call.x.reshape(1, -1)).item()
    value = finite_score(watched) if future or not (call.moved.triu(1) > limit).any() else None
    if value is not None:
        return f"it hides by a score of {value:.4g}, not far below others: fill with -inf"
    if not made.triu(1).any() and leak.change < torch.inf:
        return first_mixer(call)
    return cause_by_pattern(used, made)


def wrong_dimension(watched):
    """What's said of weights that don't sum to 1 over the keys, but over something else; "" if they do."""
    across, made, turned = unusual_softmax(watched).get("across"), watched.made, watched.of_maps("turned")
    if not watched.maps:
        return f"{across.where} runs over neither keys nor queries: use dim=-1" if across else ""
    if near_one(made.sum(dim=-1)) or not near_one(made.sum(dim=-2)):
        return ""
    if turned:
        return f"its weights are transposed by {turned.where}"
    return f"{watched.maps[0].made.where} runs over the queries, not the keys: use dim=-1"


def cause_by_pattern(used, made):
    """Which mask would leave these weights, as they average the values and as softmax made them."""
    future, num_tokens = used.triu(1), used.shape[-1]
    if num_tokens > 2 and not used[:, :-1].tril(-1).any():
        return "its mask hides the past instead"
    if not (used == 0).triu(1).any():
        return NO_MASK
    if not future.any():
        after = "its mask comes after softmax, which has counted the future"
        return after if made.triu(1).any() else "a large score there takes all: mask the scores before exp"
    if not used.triu(2).any():
        return "its mask begins one diagonal too late"
    if not future[:, 1:].any() and near_one(used[:, 0] * num_tokens):
        return "its mask begins one diagonal too early, so row 0 averages over all tokens"
    return "its mask hides only some of it"


def first_mixer(call):
    """A leak through the first operation whose numbers for earlier tokens change when the last token does."""
    num_tokens, x = call.watched.num_tokens, call.x.clone()
    x[..., -1, :] += 1
    calls = (record(call, each).operations for each in (call.x, x))
    for first, second in zip(*calls, strict=False):
        before, after = first.made, second.made
        if before.shape != after.shape or first.name in ("pad", "cat"):
            continue
        places = [dim for dim, size in enumerate(before.shape) if size == num_tokens]
        for dim in places:
            before, after = before.narrow(dim, 0, num_tokens - 1), after.narrow(dim, 0, num_tokens - 1)
        reduces = before.numel() < max((each.numel() for each in first.inputs), default=0)
        if (places or reduces) and not torch.equal(before, after):
            return f"{first.where} mixes later tokens into earlier rows"
    return ""


def finite_score(watched):
    """The finite number that softmax gets for hidden scores; None if there isn't one."""
    scores, after = watched.scores, torch.ones(watched.num_tokens, watched.num_tokens).triu(1).bool()
    if not len(scores):
        return None
    hidden, own = scores[:, after], scores.masked_fill(after, torch.inf).amin(dim=-1)[:, :-1]
    equal, below = hidden.numel() > 1 and bool((hidden == hidden[0, 0]).all()), bool(hidden.max() < own.min() - 5)
    value = hidden.mean().item()
    return value if -1e6 <= value < torch.inf and (equal or below) else None


def unusual_softmax(watched):
    """Operations that sum to 1 over something else than the tokens: "across" neither keys nor queries, over the
    "heads" of each token, or over tokens and "more" keys.
    """
    found, n = {}, watched.num_tokens
    for each in (each for each in watched.operations if each.name in ("softmax", FUSED) and each.made.ndim > 2):
        *_, before, height, width = each.made.shape
        if is_table(each.made, n) and each.name == "softmax":
            found |= {"across": each} if each.dim is None or each.dim % each.made.ndim < each.made.ndim - 2 else {}
        elif before == n != height and (height == width or each.name == FUSED):
            found["heads"] = each
        elif height == n < width and each.name == "softmax":
            found["more"] = each
    return found

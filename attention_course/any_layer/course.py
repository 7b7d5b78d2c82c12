"""Does a layer compute what one of the course's layers does, with the same weights, whatever their names are?"""

import re

import torch
from torch.nn import functional

from attention_helpers.layers import causal_mask
from attention_helpers.probes import max_difference

from .maps import widen
from .training import gradients_of
from .verdicts import Verdict

ROLE = re.compile("(?:^|[._]|w)([qkv])", re.IGNORECASE)  # W_query, q_proj, to_q, wq, heads.0.key, ...
UNLIKE_OURS = "Not as in the course"
CHANGES = {  # what else can be different: the claim, and what would be right
    "": ("The scores' scale is wrong", ""),
    "qk": ("Queries and keys are exchanged", "`queries @ keys.T`"),
    "kv": ("Keys and values are exchanged", "`queries @ keys.T` and then `weights @ values`"),
    "cut": ("Its heads are cut from several tokens", "a transpose after the view"),
    "joined": ("Its heads are joined without a transpose", "a transpose before the view"),
}


def projections(call):
    """([queries, keys, values], the matrix after them or None, the names' letters), each matrix as (weight, bias).

    They can be one matrix, or three for each head, which we tell apart by names with q, k and v, else by their order.
    The list is empty if the layer has other parameters, or other shapes, than the course's.
    """
    named, found = {name: widen(each) for name, each in call.parameters.items()}, {}
    for name in [name for name, parameter in named.items() if parameter.ndim == 2]:
        weight = named.pop(name)
        weight = weight if name.endswith("weight") else weight.mT  # of x @ W, without nn.Linear
        found[name] = weight, named.pop(f"{name.removesuffix('weight')}bias", weight.new_zeros(len(weight)))
    letters = {name: "".join(ROLE.findall(name)[-1:]).lower() for name in found}
    for count in () if named else (len(found), len(found) - 1):
        names, last = [*found][:count], [found[name] for name in [*found][count:]]
        first = [found[name] for name in sorted(names, key=lambda name: "qkv".find(letters[name] or "?"))]
        d_out = sum(len(weight) for weight, _ in first) // 3
        fits = count == 1 or (count > 0 and count % 3 == 0)
        shapes = all(weight.shape == (3 * d_out // count, call.x.shape[-1]) for weight, _ in first)
        if fits and shapes and all(weight.shape[1] == d_out for weight, _ in last):
            weights, biases = (torch.cat(stack).chunk(3) for stack in zip(*first, strict=True))
            return list(zip(weights, biases, strict=True)), last[0] if last else None, {*letters.values()}
    return [], None, set()


def compute_like_course(x, qkv, last, num_heads, causal, factor=1.0, change=""):
    """Rows (num_tokens, width), as the course's layers compute them, and scores (num_heads, num_tokens, num_tokens).

    last: a projection of all heads, or None. factor: by which the scores are too large. change: of CHANGES.
    """
    order = {"qk": (1, 0, 2), "kv": (0, 2, 1)}.get(change, (0, 1, 2))
    parts = [functional.linear(x, *qkv[n]) for n in order]
    if change == "cut":
        queries, keys, values = (part.reshape(num_heads, len(x), -1) for part in parts)
    else:
        queries, keys, values = (part.unflatten(-1, (num_heads, -1)).transpose(0, 1) for part in parts)
    scores = factor * keys.shape[-1] ** -0.5 * queries @ keys.mT
    masked = scores.masked_fill(causal_mask(len(x)), -torch.inf) if causal else scores
    context = torch.softmax(masked, dim=-1) @ values
    context = context.reshape(len(x), -1) if change == "joined" else context.transpose(0, 1).flatten(1)
    return functional.linear(context, *last) if last else context, scores


def factor_between(weights, scores):
    """By which number scores must be multiplied to get such weights from them, which tells differences alone."""
    made, ours = (each - each[..., :1] for each in (weights.log(), scores))
    ratios = made / ours
    return ratios[ratios.isfinite()].median().item()


@torch.enable_grad()
def on_the_course(call):
    """Whether a layer computes the same as one of the course's with the same weights; None if it has other parameters.

    If not, is one of CHANGES, or a factor of the scores, the only difference?
    """
    result, watched, x = widen(call.rows), call.watched, widen(call.x.flatten(0, -2)).clone().requires_grad_()
    qkv, last, letters = projections(call)
    num_heads, causal, usual = len(watched.made), bool((watched.used == 0).any()), None
    if not qkv or not num_heads or len(qkv[0][0]) % num_heads:
        return None
    near = max(1e-5, 4 * watched.eps * (watched.eps > 1e-5)) * max(1.0, result.abs().max().item())
    name = course_class(call, last, num_heads, causal)
    given = x, qkv, last, num_heads, causal
    for change in [*CHANGES][: None if num_heads > 1 else 3]:
        expected, scores = compute_like_course(*given, change=change)
        if result.shape != expected.shape:
            return None
        free = change in ("qk", "kv") and not {*change} <= letters  # their order is the author's choice
        if max_difference(result, expected) <= near and (free or not change):
            return as_in_the_course(call, name, causal, gradients_of(expected, call.parameters | {"x": x}))
        usual = expected if usual is None else usual
        if max_difference(result, usual) <= 8 * near:
            break  # it's rounded in another way
        for factor in 1.0, factor_between(watched.made, scores):
            if max_difference(result, compute_like_course(*given, factor, change)[0]) <= near:
                return judge_match(call, "" if free else change, factor, name, len(qkv[0][0]) // num_heads)
    gap = max_difference(result, usual)
    return Verdict("•", UNLIKE_OURS, f"its parameters fit {name}, but the numbers differ by {gap:.2g}")


def as_in_the_course(call, name, causal, ours):
    """On a layer with the same rows in eval mode: in training it must have them, too, and our gradients."""
    if call.gap:
        words = f"in training, without dropout, rows differ by {call.gap:.2g} from eval mode's, which are as in {name}"
        return Verdict("?", "Should training compute something else?", words)
    wrong = [each for each, grad in call.grads.items() if not alike(grad, ours[each])]
    if wrong and call.watched.eps < 1e-5:
        words = f"the numbers are as in {name}, but the gradients of {', '.join(wrong)} aren't"
        return Verdict("✗", "Its gradients are wrong", words)
    if placed := call.watched.first(multiplies_by_place):
        how = "multiplies by numbers that differ from place to place, though its rows are as in"
        return Verdict("?", "Do its positions count?", f"{placed.where} {how} {name}, which knows no positions")
    without = ""
    if not causal and not name.startswith("SelfAttention"):
        without = " without its mask" + (f": `forward` got no `{call.mask}`" if call.unmasked and call.mask else "")
    words = f"with the same weights, {name}{without} returns the same numbers"
    return Verdict("✓", "As in the course", words, f"computes what the course's {name} computes{without}")


def multiplies_by_place(operation):
    """Whether what comes from the sentence is multiplied by other numbers than a mask's, as by cosines."""
    tables = [each for each in operation.fixed if each.numel() > 1 and not each.requires_grad]
    return operation.name == "mul" and operation.varies and any(not ((t == 0) | (t == 1)).all() for t in tables)


def alike(grad, ours):
    """Whether two gradients are the same but for rounding; None is 0."""
    if grad is None or ours is None:
        return all(each is None or each.abs().max() < 1e-5 for each in (grad, ours))
    return max_difference(grad.reshape(ours.shape), ours) <= 1e-4 * max(1.0, ours.abs().max().item())


def judge_match(call, change, factor, name, head_dim):
    """On a layer that is like `name` but for one of CHANGES, and for scores that are too large by `factor`."""
    claim, right = CHANGES[change]
    if not change:
        divisor = head_dim**0.5 / factor
        how = "they aren't divided" if abs(divisor - 1) < 0.01 else f"they're divided by {divisor:.3g}, not"
        cause = f"times {1 / factor:.3g}, they would match {name}"
        return Verdict("✗", claim, f"{cause}: {how} by √{head_dim} = {head_dim**0.5:.3g}", cause)
    times = "" if factor == 1 else f" times {1 / factor:.3g}"
    where = f"; it's the {call.mixing.where}" if call.mixing and change in ("cut", "joined") else ""
    return Verdict("✗", claim, f"with {right.replace('keys.T`', f'keys.T`{times}')}, it would match {name}{where}")


def course_class(call, last, num_heads, causal):
    """Which of the course's classes has such parts."""
    if last or num_heads > 1:
        return "MultiHeadAttention" if last else "MultiHeadAttentionWrapper"
    plain = not any(isinstance(each, torch.nn.Linear) for each in call.parts)
    return "CausalAttention" if causal else f"SelfAttention_v{1 if plain else 2}"

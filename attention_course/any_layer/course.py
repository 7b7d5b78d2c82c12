"""Does a layer compute what one of the course's layers does, with the same weights, whatever their names are?"""

import re

import torch
from torch.nn import functional

from attention_helpers.core import attention_scores, attention_weights, causal_mask, context_vectors
from attention_helpers.probes import max_difference

from .findings import used_and_made
from .maps import widened
from .verdicts import Finding

ROLE = re.compile("(?:^|[._]|w)([qkv])", re.IGNORECASE)  # W_query, q_proj, to_q, wq, heads.0.key, ...


def parameters_of(layer):
    """Pairs (name, parameter); none of a layer that isn't a module."""
    return list(layer.named_parameters()) if isinstance(layer, torch.nn.Module) else []


def matrices(layer):
    """Each matrix of a layer by its name: (weight, bias), as F.linear takes them; none if it has other parameters."""
    named, found = {name: widened(each.detach()) for name, each in parameters_of(layer)}, {}
    for name in [name for name, parameter in named.items() if parameter.ndim == 2]:
        weight = named.pop(name)
        weight = weight if name.endswith("weight") else weight.mT  # of x @ W, without nn.Linear
        found[name] = weight, named.pop(f"{name.removesuffix('weight')}bias", weight.new_zeros(len(weight)))
    return {} if named else found


def projections(layer, d_in):
    """What a layer of the course would have: matrices for queries, keys and values, of all heads; and one after them.

    They can be one matrix, or three for each head, which we tell apart by names with q, k and v, else by their order.
    Returns ([queries, keys, values], None or a matrix), each (weight, bias); ([], None) if the layer has other
    parameters, or other shapes.
    """
    found = matrices(layer)
    for count in (len(found), len(found) - 1):
        first, last = sorted([*found][:count], key=role), [found[name] for name in [*found][count:]]
        d_out = sum(len(found[name][0]) for name in first) // 3
        fits = count == 1 or (count > 0 and count % 3 == 0)
        shapes = all(found[name][0].shape == (3 * d_out // count, d_in) for name in first)
        if fits and shapes and all(weight.shape[1] == d_out for weight, _ in last):
            stacks = zip(*(found[name] for name in first), strict=True)
            weights, biases = (torch.cat(stack).chunk(3) for stack in stacks)
            return list(zip(weights, biases, strict=True)), last[0] if last else None
    return [], None


def role(name):
    """0 for queries, 1 for keys, 2 for values; -1 if the name doesn't say it."""
    return "qkv".find("".join(ROLE.findall(name)[-1:]).lower() or "?")


def computed(x, qkv, num_heads, causal, factor=1.0, change=""):
    """Weights (num_heads, num_tokens, num_tokens) and context (num_tokens, d_out), as the course's layers compute them.

    factor: by which the scores are too large. change: of VIEWS, what else is done differently.
    """
    parts = [functional.linear(x, *each) for each in qkv]
    if change == "cut":
        queries, keys, values = (part.reshape(num_heads, len(x), -1) for part in parts)
    else:
        queries, keys, values = (part.unflatten(-1, (num_heads, -1)).transpose(0, 1) for part in parts)
    values = values[:1].expand_as(values) if change == "first" else values
    mask, scale = causal_mask(len(x)) if causal else None, factor * keys.shape[-1] ** -0.5
    weights = attention_weights(attention_scores(queries, keys), mask, scale)
    context = context_vectors(weights, values)
    return weights, context.reshape(len(x), -1) if change == "joined" else context.transpose(0, 1).flatten(1)


def factor_between(weights, expected):
    """By how much larger scores turn the expected weights into these, if any do: the slope between their logarithms.

    It takes two ratios of weights, because any factor fits a single one.
    """
    both = (weights > 0) & (expected > 0)
    if (both.sum(-1) - 1).clamp(min=0).sum() < 2:
        return 1.0
    ours, theirs = (table.log().where(both, 0.0) for table in (weights, expected))
    ours, theirs = (table - (table.sum(-1) / both.sum(-1))[..., None] for table in (ours, theirs))
    factor = ((ours * theirs).where(both, 0.0).sum() / theirs.square().where(both, 0.0).sum()).item()
    return factor if 0 < abs(factor) < torch.inf else 1.0


def on_the_course(layer, x, result, watched):
    """Whether a layer computes the same as one of the course's with the same weights; None if it has other parameters.

    x: one sentence; result: what the layer returns for it, (num_tokens, width); watched: what we saw of the call.
    A layer whose maps hide nothing is compared with the course's layer without its mask. If it doesn't compute the
    same, we look in the maps for a factor by which its scores are too large, and compute the course's layer with such
    scores, with two of the three exchanged, or with its heads cut or joined by a view, to see whether that's the only
    difference.
    """
    x, result, maps = widened(x.flatten(0, -2)), widened(result), watched.maps
    qkv, last = projections(layer, x.shape[-1])
    num_heads = sum(len(each.weights) for each in maps)
    if not qkv or not num_heads or len(qkv[0][0]) % num_heads:
        return None
    used, made = used_and_made(maps)
    causal = bool((used == 0).any())
    near = max(1e-5, 4 * watched.eps * (watched.eps > 1e-5)) * max(1.0, result.abs().max().item())
    name, gaps = name_of(layer, last, num_heads, causal), []
    without = " without its mask" * (not causal and not name.startswith("SelfAttention"))
    for change, factor, weights, context in attempts(x, qkv, num_heads, causal, made):
        expected = functional.linear(context, *last) if last else context
        if result.shape != expected.shape:
            return Finding("other shape", {"name": name})
        gaps.append(max_difference(result, expected))
        if not change and factor == 1:
            same = weights.shape == made.shape and max_difference(weights.to(made), made) <= near
        elif gaps[0] <= 8 * near:
            break
        if gaps[-1] <= near:
            if {*change} <= {*map(role, matrices(layer))} and change:  # else their order is the author's choice
                return exchanged(name, change, factor)
            if change and change[0] in VIEWS:
                claim, how = VIEWS[change[0]]
                return Finding("scrambled", {"claim": claim, "how": how, "name": name, "where": ""})
            head_dim = len(qkv[0][0]) // num_heads
            same_layer = Finding("course", {"name": name, "without": without})
            return same_layer if factor == 1 else other_scale(name, factor, head_dim)
        if not change and result.shape == x.shape:
            same = same and max_difference(result, expected + x) > near  # else there's only a residual more
    said = {"name": name, "gap": gaps[0]}
    return Finding("same weights" if same and gaps[0] > 100 * near else "other numbers", said)


VIEWS = {  # what else can be different, its claim, and what would be right
    "cut": ("Its heads are cut from several tokens", "with a transpose after the view"),
    "joined": ("Its heads are joined without a transpose", "with a transpose before the view"),
    "first": ("All heads use the first head's values", "with the values of each head"),
}


def attempts(x, qkv, num_heads, causal, made):
    """Contexts by the course: (what is changed, factor of the scores, weights, context). made: weights that show it."""
    for change, order in (((), (0, 1, 2)), ((0, 1), (1, 0, 2)), ((1, 2), (0, 2, 1))):
        parts = [qkv[n] for n in order]
        weights, context = computed(x, parts, num_heads, causal)
        yield change, 1.0, weights, context
        factor = factor_between(made, weights) if made.shape == weights.shape else 1.0
        if abs(factor - 1) > 1e-3:
            yield change, factor, *computed(x, parts, num_heads, causal, factor)
    for change in VIEWS if num_heads > 1 else ():
        yield (change,), 1.0, *computed(x, qkv, num_heads, causal, change=change)


def name_of(layer, last, num_heads, causal):
    """Which of the course's classes has such parts."""
    if last:
        return "MultiHeadAttention"
    if num_heads > 1:
        return "MultiHeadAttentionWrapper"
    plain = not any(isinstance(each, torch.nn.Linear) for each in layer.modules())
    return "CausalAttention" if causal else f"SelfAttention_v{1 if plain else 2}"


def exchanged(name, swapped, factor):
    """On a layer that is like `name` with two roles exchanged, and scores too large by `factor`."""
    times = f" times {1 / factor:.3g}" * (factor != 1)
    right = f"`queries @ keys.T`{times}{' and then `weights @ values`' * (swapped == (1, 2))}"
    claim = "Queries and keys are exchanged" if swapped == (0, 1) else "Keys and values are exchanged"
    return Finding("exchanged", {"claim": claim, "right": right, "name": name})


def other_scale(name, factor, head_dim):
    """On a layer that is like `name`, but its scores are too large by `factor`."""
    divisor, should = head_dim**0.5 / factor, f"√{head_dim} = {head_dim**0.5:.3g}"
    how = "they aren't divided" if abs(divisor - 1) < 0.01 else f"they're divided by {divisor:.3g}, not"
    return Finding("scale", {"times": 1 / factor, "name": name, "how": f"{how} by {should}"})

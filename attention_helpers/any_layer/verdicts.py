"""Verdicts on any attention layer, one sentence each: what it reads, what it wastes, whether it equals the course's.

Everywhere here, `layer` is a callable, in eval mode if it has modes, and x is one sentence, (num_tokens, d_in) or
(1, num_tokens, d_in).
"""

import torch

from ..layers import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper, SelfAttention_v1, SelfAttention_v2
from ..probes import find_leak, max_difference
from .maps import NEAR, error_line

RANDOM = "cannot be judged: it is random, in eval mode too"


def context_of(result):
    """The context in what a layer returned: the first entry of a tuple or list."""
    return result[0] if isinstance(result, (tuple, list)) and result else result


def failure(error):
    """An error in the learner's code as "line 12, `q @ k`: RuntimeError: ...", with the first line of its message."""
    return ": ".join(filter(None, [error_line(error), type(error).__name__, first_line(error)]))


def first_line(error):
    return (str(error).strip().splitlines() or [""])[0]


def draws(layer, x, generator):
    """Whether a call of the layer takes random numbers from the generator, which moves on."""
    before = generator.get_state()
    layer(x)
    return not torch.equal(before, generator.get_state())


def on_the_future(layer, x, maps, generator):
    """Whether an earlier row of the context depends on a later token, judged by the pokes of find_leak.

    If it does, the sentence also says what the maps show about the mask. generator: where a random layer draws from.
    """
    try:
        if draws(layer, x, generator):
            return RANDOM
        leak = find_leak(lambda x: context_of(layer(x)), x)
    except ValueError as error:
        return f"cannot be judged: {error}"
    except Exception as error:  # a poke made the learner's own code fail
        return f"cannot be judged: with other numbers it fails in {failure(error)}"
    return f"{leak}{'. ' + mask_in_words(maps) if leak and maps else ''}"


def mask_in_words(maps):
    """What the weights above the diagonal reveal about a layer that reads the future."""
    used = torch.cat([each.used for each in maps])  # (num_maps, num_tokens, num_tokens)
    if not used.triu(1).any():
        return "No map has a weight there: it comes in where the weights are made, or after them"
    if not used.tril(-1).any():
        return "The maps have no weight before the diagonal: the mask hides the past"
    if not used.triu(2).any():
        return "The maps reach one token too far: the mask begins a diagonal too late"
    return "The maps have weights after the diagonal"


def on_row_sums(maps, num_tokens, random=False):
    """Whether each row of the weights that average the values sums to 1. random: whether the layer is, in eval mode."""
    if not maps:
        return f"no map found: no operation made a table of shares (..., {num_tokens}, {num_tokens}) from the tokens"
    used = torch.cat([each.used for each in maps])  # (num_maps, num_tokens, num_tokens)
    made = torch.cat([each.weights for each in maps])
    empty = used.isnan().any(dim=-1).any(dim=0).nonzero().flatten().tolist()
    if empty:
        return f"no: row {empty[0]} is NaN, as where every key is hidden"
    sums = used.sum(dim=-1)
    if near_one(sums):
        return "yes" if len(used) == 1 else f"yes, in each of {len(used)} maps"
    if random and near_one(made.sum(dim=-1)):
        return "yes, before some are dropped"
    why = "something is taken away after softmax, and the rest not divided by its sum"
    if not near_one(made.sum(dim=-1)) and near_one(made.sum(dim=-2)):
        why = "the columns do. It is a softmax over the queries; over the keys it would be dim=-1"
    return f"no, from {sums.min():.2f} to {sums.max():.2f}: {why}"


def near_one(sums):
    return bool(((sums - 1).abs() < NEAR).all())


def on_unused(rows, operations):
    """The operations whose result nobody used. rows: a Trace's; operations: a Watched's, which know their lines."""
    lines = [line for _, _, line in operations] if len(operations) == len(rows) else [""] * len(rows)
    dead = [f"{row.operation}{' in ' * bool(line)}{line}" for row, line in zip(rows, lines, strict=True) if row.unused]
    return "; ".join(dead) or "none"


def on_fewer_tokens(layer, x):
    """Whether the layer takes a sentence with one token fewer, as a text model must."""
    try:
        layer(x[..., :-1, :])
    except Exception as error:
        return f"no: {failure(error)}"
    return "yes"


def on_the_course(layer, x, context, num_heads=None):
    """Whether a layer computes the same as the course's layer with the same parameters, if there is one.

    context: what layer returns for x, any shape. num_heads: for a layer that doesn't have the attribute itself.
    """
    twins = [twin for twin in course_layers(layer, x, num_heads) if fits(twin, layer)]
    if not twins:
        return "not compared: its parameters are those of no layer of the course"
    gaps = [(gap(context, twin, x), type(twin).__name__) for twin in twins]
    smallest, name = min(gaps)
    if smallest <= 1e-5 * max(1.0, context.abs().max().item()):
        return f"equal to {name} with the same weights"
    return f"its parameters fit {name}, which returns " + (
        f"other numbers: they differ by {smallest:.2g}" if smallest < torch.inf else "another shape, or NaN is about"
    )


def course_layers(layer, x, num_heads):
    """Layers of the course, newly initialized, with the sizes that the state dict of `layer` shows."""
    state = layer.state_dict() if isinstance(layer, torch.nn.Module) else {}
    num_tokens, heads = x.shape[-2], getattr(layer, "num_heads", num_heads) or 1
    plain, linear, first = (state.get(name) for name in ("W_query", "W_query.weight", "heads.0.W_query.weight"))
    if plain is not None and plain.ndim == 2:
        yield SelfAttention_v1(*plain.shape)
    if linear is not None:
        (d_out, d_in), bias = linear.shape, "W_query.bias" in state
        yield SelfAttention_v2(d_in, d_out, bias)
        yield CausalAttention(d_in, d_out, num_tokens, 0.0, bias)
        if isinstance(heads, int) and d_out % heads == 0:
            yield MultiHeadAttention(d_in, d_out, num_tokens, 0.0, heads, bias)
    if first is not None:
        (d_out, d_in), bias = first.shape, "heads.0.W_query.bias" in state
        count = len({name.split(".")[1] for name in state if name.startswith("heads.")})
        yield MultiHeadAttentionWrapper(d_in, d_out, num_tokens, 0.0, count, bias)


def fits(twin, layer):
    """Load the state dict of layer into twin, if it fits."""
    try:
        twin.load_state_dict(layer.state_dict())
    except RuntimeError:
        return False
    return True


def gap(context, twin, x):
    """The largest difference between a context and what the twin returns for x; infinity for another shape."""
    numbers, theirs = context.reshape(-1), twin(x if x.ndim == 3 else x[None]).reshape(-1)
    return max_difference(numbers, theirs) if numbers.shape == theirs.shape else torch.inf

"""Does a layer read the future, and what lets it?"""

import ast
import inspect
import textwrap
from functools import cache

import torch

from .seen import NEAR, record
from .verdicts import Verdict

# what returns a masked copy; and what returns other copies, and isn't a method of anything but a tensor
MASKING = {"masked_fill", "where", "tril", "triu", "masked_scatter"}
COPYING = MASKING | {
    "transpose",
    "squeeze",
    "unsqueeze",
    "exp",
    "softmax",
    "clamp",
    "div",
    "index_fill",
    "permute",
    "view",
}


def on_the_future(case):
    """Whether an earlier row depends on a later token, as find_leak perturbs them, and why."""
    if not case.sound:
        return None
    call, leak = case.call, case.leak
    if not leak:
        claim = f"It reads all of {call.other_name}" if call.other_name else "It reads only the past"
        return Verdict("✓", claim, f"{leak.tried} perturbations of later tokens moved no earlier row")
    moved = f"{call.say('row', leak.row)} {leak.moves} when {call.say('token', leak.token)} {leak.what}"
    thrown = thrown_away(call.layer, MASKING)
    if case.mistake and case.mistake.leaks:
        return Verdict("✗", "It reads the future", f"{moved}. {case.mistake.reply}", case.mistake.reply)
    if case.unmasked and not thrown and finite_score(case.seen) is None:
        trained = case.dropped
        if trained and trained.maps and not trained.made.triu(1).any():
            return Verdict(
                "✗", "In eval mode, it reads the future", "only in training, no weight is after the diagonal"
            )
        unasked = f", and `forward` got no `{call.mask}`" if call.mask else ""
        return Verdict("•", "It has no mask", f"each token reads all tokens{unasked}; {moved}")
    cause = thrown or cause_of_leak(case)
    return Verdict("✗", "It reads the future", f"{moved}{cause and ': '}{cause}", cause)


def thrown_away(layer, names):
    """The first statement that computes such a copy, and gives it no name: "line 12 computes masked_fill and …"."""
    kinds = {type(part) for part in layer.modules()} if isinstance(layer, torch.nn.Module) else {type(layer)}
    kinds = [kind for kind in kinds if not kind.__module__.startswith("torch.")]
    functions = [each for kind in kinds for each in vars(kind).values() if inspect.isfunction(each)]
    found = (statement for each in functions for statement in bare_calls(each) if statement[1] in names)
    return next((f"line {line} computes {name} and throws it away" for line, name in found), "")


@cache
def bare_calls(function):
    """(line, name) of each call in a function's text whose result gets no name."""
    try:
        lines, start = inspect.getsourcelines(function)
        nodes = ast.walk(ast.parse(textwrap.dedent("".join(lines))))
    except (OSError, SyntaxError, TypeError):
        return []
    bare = [node.value for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
    return [(start + call.lineno - 1, call.func.attr) for call in bare if isinstance(call.func, ast.Attribute)]


def cause_of_leak(case):
    """What lets the future in, in words; "" if nothing shows it."""
    seen, used, made = case.seen, case.seen.used, case.seen.made
    n = seen.num_tokens
    if not seen.maps:
        return first_mixer(case.call)
    if near_one(made.sum(dim=-2)) and not near_one(used.sum(dim=-1)):
        return "its columns sum to 1, not its rows"
    value = finite_score(seen)
    future = used.triu(1).any()
    if value is not None and (future or not (case.call.moved.triu(1) > case.call.near).any()):
        return f"it hides by a score of {value:.4g}, not far below others: fill with -inf"
    if not future:
        return (
            "a large score there takes all: mask the scores before exp"
            if made.triu(1).any()
            else first_mixer(case.call)
        )
    if n > 2 and not used[:, :-1].tril(-1).any():
        return "its mask hides the past instead"
    if not used.triu(2).any():
        return "its mask begins one diagonal too late"
    if not used.triu(1)[:, 1:].any():
        return "its mask begins one diagonal too early, so row 0 averages over all tokens"
    return "its mask hides only some of it"


def near_one(sums, near=NEAR):
    return bool(((sums - 1).abs() <= near).all())


def finite_score(seen):
    """The finite number that softmax gets for hidden scores; None if there isn't one."""
    after = torch.ones(seen.num_tokens, seen.num_tokens).triu(1).bool()
    hidden = seen.scores[:, after]
    if hidden.numel() < 2:
        return None
    own = seen.scores.masked_fill(after, torch.inf).amin(dim=-1)[:, :-1]
    equal = bool((hidden == hidden[0, 0]).all() and (seen.scores != hidden[0, 0]).any())
    below = bool(hidden.max() < own.min() - 5)
    value = hidden.mean().item()
    return value if -1e6 <= value < torch.inf and (equal or below) else None


def first_mixer(call):
    """A leak through the first operation whose numbers for earlier tokens change when the last token does."""
    n, x = call.x.shape[-2], call.x.clone()
    x[..., -1, :] += 1
    for first, second in zip(record(call, call.x).operations, record(call, x).operations, strict=False):
        before, after = first.made, second.made
        if before.shape != after.shape or first.name in ("pad", "cat"):
            continue
        places = [dim for dim, size in enumerate(before.shape) if size == n]
        for dim in places:
            before, after = before.narrow(dim, 0, n - 1), after.narrow(dim, 0, n - 1)
        reduces = before.numel() < max((each.numel() for each in first.inputs), default=0)
        if (places or reduces) and not torch.equal(before, after):
            return f"{first.where} mixes later tokens into earlier rows"
    return ""

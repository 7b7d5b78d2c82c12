"""Verdicts on any attention layer: what it reads, what it wastes, what it can't take.

Everywhere here, `output` is a function from one sentence x, (num_tokens, d_in) or (1, num_tokens, d_in), to what a
layer in eval mode computes for it, and `rows` are its numbers for x, (num_tokens, width).
"""

import math
import re
from contextlib import suppress
from typing import NamedTuple

import torch

from ..probes import find_leak, rounding
from .lines import error_line, failure, with_line
from .maps import NEAR, is_table


class Verdict(NamedTuple):
    """One finding: a claim that's true, or an open question, and how we know.

    sign: "✓" for what should be so, "✗" for a fault, "?" for what only the layer's author can tell.
    """

    sign: str
    claim: str
    words: str
    cause: str = ""  # for the headline, where `words` would be too long

    def naming(self, tokens):
        """The same with the words of the rows and tokens that it mentions: "token 1" becomes "“journey” (token 1)"."""

        def named(found):
            places = [int(place) for place in re.findall(r"\d+", found[0])]
            if max(places) >= len(tokens):
                return found[0]
            return f"{', '.join(f'“{tokens[place]}”' for place in places)} ({found[0].lower()})"

        return Verdict(*(re.sub(r"\b(?:[Rr]ow|tokens?) \d+(?:(?:, | and )\d+)*\b", named, words) for words in self))


def headline(verdicts, name):
    """The worst of some verdicts, which are sorted by weight, in one sentence. name: the layer's."""
    signs = {topic: verdict.sign for topic, verdict in verdicts.items()}
    for verdict in verdicts.values():
        if verdict.sign == "✗":
            return f"{verdict.claim}: {verdict.cause or verdict.words}"
    if signs["future"] == "?":
        return f"{name} {verdicts['future'].words}"
    if signs["course"] == "✓":
        return f"{name} {verdicts['course'].cause}"
    if signs["past"] == "?":
        past = verdicts["past"]
        return f"No fault found, but {past.cause}" if past.cause else f"{past.claim}: {past.words}"
    sound = [verdicts[topic].claim for topic in ("future", "past", "sums") if signs[topic] == "✓"]
    but = ", but no attention weights either" * (signs["sums"] == "?")
    return f"No fault found{but}: {', '.join(claim[0].lower() + claim[1:] for claim in sound)}"


def on_chance(drew):
    """On a layer that's random in eval mode. drew: a Watched's."""
    drew = [*dict.fromkeys(drew)]
    drew = [each for each in drew if "attention" not in each[0]] or drew
    others = [with_line(name, line) for name, line in drew if not re.search("dropout|attention", name)]
    if others:
        cause, advice = f"{others[0]} draws at each call", "draw in `__init__`, or only if self.training"
    else:
        said = [with_line(name if "dropout" in name else f"the dropout of {name}", line) for name, line in drew]
        cause, advice = f"{', '.join(said) or 'something'} stays on", "dropout needs training=self.training"
    return Verdict("✗", "It's random in eval mode too", f"{cause}; {advice}", cause)


def on_unregistered(numbers):
    """On a module that computes with so many trainable numbers of which PyTorch doesn't know."""
    cause = f"`parameters()` lacks {numbers} trainable numbers, as with layers in a list, not an nn.ModuleList"
    return Verdict("✗", "Parameters aren't registered", cause)


def on_returned_weights(maps):
    """On a layer whose only result is a table of attention weights."""
    made = with_line(maps[0].made_by, maps[0].line)
    return Verdict("✗", "It returns its attention weights", f"{made} makes them; return them times the values")


def on_the_future(output, x, watched, dead, mixing="", mask=""):
    """Whether an earlier row depends on a later token, as find_leak perturbs them. Blame: dead, mixing, mask."""
    try:
        leak = find_leak(output, x)
    except Exception as error:  # find_leak refuses the layer, or a perturbation made the learner's own code fail
        return Verdict("?", "Does it read the future?", f"can't be judged: {error}")
    if not leak:
        said = f"{leak.tried} perturbations of later tokens moved no earlier row"
        return Verdict("✓", "It reads only the past", said)
    words = str(leak).replace(" reads the future: it", "")
    cause = cause_of_leak(leak, watched, dead, x.shape[-2], mixing)
    unmasked = f", and `forward` got no `{mask}`" if mask and cause.endswith("is 0") else ""
    return Verdict("✗", "It reads the future", words, f"{cause}{unmasked}")


def cause_of_leak(leak, watched, dead, num_tokens, mixing):
    """What thrown-away results, and the weights above the diagonal, reveal about a layer that reads the future."""
    for name, shape, line in dead:
        if is_table(shape, num_tokens):
            return f"{line.partition(',')[0] or 'it'} computes {name} and throws it away"
    maps = watched.maps
    if not maps:
        return watched.across
    used, made = used_and_made(maps)
    if over_queries(made):
        made_by = with_line(maps[0].made_by, maps[0].line)
        turned = f"its weights are transposed after {made_by}"
        return turned if maps[0].turned else f"{made_by} runs over the queries, not the keys"
    if not used.triu(1).any():
        if made.triu(1).any():
            return "its mask comes after softmax, which has counted the future"
        if leak.change == torch.inf:
            return "a large score there takes all: mask the scores before exp"
        return f"its maps don't, so does {mixing or 'a view, a reshape, a mean or a norm'} mix the rows?"
    if not used.tril(-1).any():
        return "its mask hides the past instead"
    if not used.triu(2).any():
        return "its mask begins one diagonal too late"
    if not used[:, 1:].triu(1).any() and near_one(used[:, 0] * num_tokens):
        return "its mask begins one diagonal too early, so row 0 has no key and averages over all tokens"
    hides = (used == 0).triu(1).any()
    return "its mask hides only some of it" if hides else "no weight after the diagonal is 0"


def on_the_past(output, x, rows, moved, maps, mixing=""):
    """Whether each row depends on its own token and all earlier ones; a sliding window is named.

    moved: the influence of one small perturbation per token, (num_tokens, num_tokens); mixing: see mixing_view.
    """
    unread = (moved <= rounding(rows[None], x.reshape(1, -1)).item()).tril()
    if not unread.any():
        return Verdict("✓", "Each token reads its whole past", "perturbing it moves its own row and all later ones")
    tokens = torch.arange(len(rows))
    distance = tokens[:, None] - tokens
    read = ~unread & (distance >= 0)
    if torch.equal(read, distance == 0):
        cause = "perturbing an earlier token never moved a later row"
        if reads_the_batch(output, x):
            cause = "it attends over the batch, as nn.MultiheadAttention does without batch_first=True"
        return Verdict("✗", "Each token reads only itself", cause)
    window = int(distance.where(read, -1).max()) + 1
    if torch.equal(read, (distance >= 0) & (distance < window)):
        before = f"each token reads itself and the {counted(window - 1)} before it"
        return Verdict("?", f"It has a sliding window of {window}", before)
    row = int(unread.any(dim=1).nonzero().max())
    missed = unread[row].nonzero().flatten().tolist()
    cause = f"token {row} never reads {counted(missed)}"
    weighs = maps and (used_and_made(maps)[0][:, row, missed] > 0).any()
    if maps and not weighs:
        return Verdict("?", "Does each token read its whole past?", f"{cause}: no map has a weight there", cause)
    why = ", though a map has a weight there" if weighs else ""
    advice = f"; does {mixing} need a transpose?" if mixing else ""
    return Verdict("✗", "Tokens miss part of their past", f"{cause}{why}{advice}", f"{cause}{advice}")


def reads_the_batch(output, x):
    """Whether a layer takes (num_tokens, b, d_in): there, later rows move with the first token."""
    turned = x.reshape(x.shape[-2], 1, -1)
    poked = turned.clone()
    poked[0] = 0.0
    with suppress(Exception):
        return bool((output(poked) - output(turned))[1:].abs().max() > NEAR)
    return False


def counted(tokens):
    """ "token" or "3 tokens" for a number of them; "token 2" or "tokens 0, 1" for their indices."""
    if isinstance(tokens, int):
        return "token" if tokens == 1 else f"{tokens} tokens"
    return f"token{'s' * (len(tokens) > 1)} {', '.join(map(str, tokens))}"


def used_and_made(maps):
    """The weights as they average the values, and as softmax made them, each (num_maps, num_tokens, num_tokens)."""
    return torch.cat([each.used for each in maps]), torch.cat([each.weights for each in maps])


def on_nan(rows, first):
    """On a result with NaN. first: (name, line) of the operation that made the first NaN, if torch showed us one."""
    row, where = rows.isnan().any(dim=-1).nonzero()[0].item(), with_line(*first) if first else "something"
    why = ", because all that it sums over is hidden" if "softmax" in where else ""
    return Verdict("✗", f"Row {row} is NaN", f"{where} makes the first NaN{why}")


def on_row_sums(watched, num_tokens, random=False):
    """Whether each row of the weights that average the values sums to 1. random: whether the layer is, in eval mode."""
    maps = watched.maps
    if not maps and watched.across:
        return Verdict("✗", "Rows don't sum to 1", f"{watched.across}; over the keys, it would be dim=-1")
    if not maps:
        what = f"no operation made attention weights (..., {num_tokens}, {num_tokens}) from the tokens"
        return Verdict("?", "Do rows sum to 1?", f"no map found: {what}")
    used, made = used_and_made(maps)
    sums = used.sum(dim=-1).nan_to_num()
    if near_one(sums):
        where = "its only map" if len(used) == 1 else f"each of its {len(used)} maps"
        return Verdict("✓", "Rows sum to 1", f"in {where}")
    if random and near_one(made.sum(dim=-1)):
        return Verdict("✓", "Rows sum to 1", "before some weights are dropped")
    how = "taken away" if ((used == 0) & (made > 0)).any() else "changed"
    why, empty = f"after softmax some weights are {how}", (sums == 0).any(dim=0)
    if (used - sums.max() * made).abs().nan_to_num().max() < NEAR:
        why = f"after softmax all weights are multiplied by {sums.max():.2g}"
    if empty.any():
        why = f"row {empty.nonzero()[0].item()} has no weight, as where all its keys are hidden"
    if over_queries(made):
        why = "the columns do. It's a softmax over the queries; over the keys, it would be dim=-1"
        why = "the columns do, since the weights were transposed" if maps[0].turned else why
    return Verdict("✗", "Rows don't sum to 1", f"from {sums.min():.2f} to {sums.max():.2f}: {why}", why)


def near_one(sums):
    return bool(((sums - 1).abs() < NEAR).all())


def over_queries(made):
    return near_one(made.sum(dim=-2)) and not near_one(made.sum(dim=-1))


def mixing_view(rows, lines, num_tokens):
    """The first view or reshape that mixes tokens, with its line; "" if the shapes show none.

    A view keeps the order of all numbers. So the tokens' dimension stays theirs only if those in front of it have the
    same product as before. rows: a Trace's; lines: one for each.
    """

    def places(shape):  # for each dimension that may be the tokens', the product of those in front of it
        return {math.prod(shape[:place]) for place, size in enumerate(shape) if size == num_tokens}

    for row, line in zip(rows, lines, strict=True):
        if row.operation in ("view", "reshape", "flatten", "unflatten"):
            before, after = places(row.inputs[0]), places(row.output)
            if before and after and not before & after:
                return f"the {with_line(row.operation, line)}"
    return ""


def unused_operations(rows, lines):
    """(name, shape, line) of each operation whose result nobody used. rows: a Trace's; lines: one for each."""
    return [(row.operation, row.output, line) for row, line in zip(rows, lines, strict=True) if row.unused]


def on_unused(dead, parameters):
    """On unused_operations, and the names of parameters that no operation read."""
    if dead:
        words = "; ".join(with_line(name, line, code=True) for name, _, line in dead)
        return Verdict("✗", "A result is never used", words)
    if parameters:
        return Verdict("✗", "A parameter is never used", ", ".join(parameters))
    return Verdict("✓", "Every result is used", "and so is every parameter")


def on_fewer_tokens(error, num_tokens):
    """Whether the layer accepts a shorter sentence, as a text model must. error: what it raised then, or None."""
    if error:
        cause = f"{error_line(error).partition(',')[0] or 'it'} raises {type(error).__name__}"
        return Verdict("✗", "It fails on fewer tokens", f"with {num_tokens - 1}, {failure(error)}", cause)
    return Verdict("✓", "It accepts shorter inputs", f"{num_tokens - 1} tokens instead of {num_tokens}")


def on_a_batch(output, x, rows):
    """Whether a sentence has the same rows next to others in a batch."""
    if x.ndim == 2:
        return Verdict("?", "Does it take a batch?", "it takes one sentence at a time, (num_tokens, d_in)")
    try:
        batch = torch.cat((x.flip(1), x, -x, 2 * x))  # x is not the first, last or in the middle
        after = output(batch).reshape(4, *rows.shape)[1]
    except Exception as error:
        return Verdict("✗", "It fails on a batch of sentences", failure(error))
    gap = (after - rows).abs().max()
    if gap > 1e-4 * max(1.0, rows.abs().max()):
        return Verdict("✗", "Sentences of a batch mix", f"next to other sentences, a row moves by {gap:.2g}")
    return Verdict("✓", "Sentences of a batch stay apart", "next to three others, a sentence has the same rows")

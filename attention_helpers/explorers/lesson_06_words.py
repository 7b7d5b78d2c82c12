"""Notebook 06 in words: what each stage of the layer does with the present numbers."""

import html

import torch

from ..core import causal_mask
from .base import Markup
from .lesson_06_stages import ORDER, code, lines_at, sizes_of, with_sizes
from .lesson_06_whole_layer import drawn
from .multi_head import MOST_HEADS
from .multi_head_words import dropped, each_head, last_token_reads, right
from .svg import number


def tokens(state):
    count, d_in = state.x.shape
    come = "1 token comes in," if count == 1 else f"{count} tokens come in, each"
    low, high = (number(each.item()) for each in state.x.aminmax())
    return f"{come} a row of {numbers(d_in)} from {low} to {high}"


def queries(state):
    d_out, head_dim = widths(state)
    return f"W_query turns each token's {numbers(state.x.shape[1])} into a query of {d_out}: {head_dim} per head"


def keys(state):
    d_out, head_dim = widths(state)
    return f"W_key turns the same tokens into keys of {numbers(d_out)}: {head_dim} per head"


def values(state):
    _, head_dim = widths(state)
    return f"W_value turns them into values, to be averaged: {numbers(head_dim)} per head"


def scores(state):
    shown, names = state.steps.scores[0], state.tokens  # (num_heads, num_tokens, num_tokens)
    head, place = divmod(int(shown.argmax()), len(names) ** 2)
    query, key = divmod(place, len(names))
    low, high = (number(each.item()) for each in shown.aminmax())
    return f"Scores run from {low} to {high}, where “{names[query]}” meets “{names[key]}” (head {head + 1})"


def mask(state):
    count = len(state.tokens)
    return f"The mask hides {count * (count - 1) // 2} of each head's {count * count} scores: those of later tokens"


def softmax(state):
    return f"Softmax makes each row sum to 1: {last_token_reads(state.weights, state.tokens)}"


def dropout(state):
    return dropped(state) or f"Dropout is off: all {int((state.weights > 0).sum())} weights stay as they are"


def context(state):
    _, head_dim = widths(state)
    return f"Each head averages its values by its weights: {numbers(head_dim)} per token"


def side_by_side(state):
    d_out, head_dim = widths(state)
    return f"The heads' contexts come side by side: {d_out // head_dim} × {head_dim} = {numbers(d_out)} per token"


def output(state):
    if state.accuracy is not None:
        return f"out_proj mixes the heads: {right(state)}"
    return f"out_proj mixes the heads: each output is a weighted sum of {numbers(widths(state)[0])}, from all heads"


HEADLINES = {
    "tokens": tokens,
    "queries": queries,
    "keys": keys,
    "values": values,
    "scores": scores,
    "mask": mask,
    "softmax": softmax,
    "dropout": dropout,
    "context": context,
    "side by side": side_by_side,
    "output": output,
}


def numbers(count):
    return f"{count} number{'s' * (count > 1)}"


def widths(state):
    """d_out and head_dim."""
    _, num_heads, _, head_dim = state.steps.queries.shape
    return num_heads * head_dim, head_dim


def in_words(state):
    """What the picture shows, for readers who can't see it."""
    stage, tables = ORDER.index(state.where) + 1, dict(zip(ORDER[:4], (state.x, *state.steps[:3]), strict=True))
    heads = highest_by_head(state) if state.where in ("scores", "mask") else [each_head(state, drawn(state))]
    pale = "; what comes later is pale" * (stage < len(ORDER))
    said = [f"Stage {stage} of {len(ORDER)}: {state.where}{pale}."]
    said += [in_numbers(state, *table) for table in tables.items()]
    said += [*heads, in_numbers(state, "context", state.context), in_numbers(state, "output", state.output)]
    return " ".join(said)


def in_numbers(state, place, table):
    """A table's width and range."""
    width = state.x.shape[1] if place == "tokens" else widths(state)[0]
    low, high = (number(each.item()) for each in table.aminmax())
    return f"{place.capitalize()}: {numbers(width)} per token, {low} to {high}."


def highest_by_head(state):
    """Each head's highest score, of those that are shown."""
    shown, names = drawn(state), state.tokens
    if state.where == "mask":
        shown = shown.masked_fill(causal_mask(len(names)), -torch.inf)
    most, places = shown.flatten(1).max(dim=1)  # each (num_heads,)
    for head, (score, place) in enumerate(zip(most.tolist(), places.tolist(), strict=True), 1):
        query, key = divmod(place, len(names))
        yield f"Head {head}: highest score {number(score)}, “{names[query]}” meets “{names[key]}”."


def folded(name, inside):
    """A piece of HTML that opens at a click."""
    return f"<details><summary>{name}</summary><pre>{inside}</pre></details>"


def folded_code(state):
    """All lines of the code, with those of the current stage in bold."""
    here = lines_at(state.where)
    lines = [(line in here, html.escape(with_sizes(line, sizes_of(state)))) for line in code()]
    marked = "\n".join(f"<b>{line}</b>" if now else line for now, line in lines)
    return folded(f"all {len(lines)} lines of code", marked)


def divisors(d_out):
    """The numbers of heads that divide a width, up to as many as fit in the picture."""
    return [n for n in range(1, min(d_out, MOST_HEADS) + 1) if d_out % n == 0]


def offered(d_out, num_heads):
    """The numbers of heads up to MOST_HEADS, with those that don't divide d_out crossed out, and why."""
    options = divisors(d_out)
    words = [
        f"<b>{n}</b>" if n == num_heads else str(n) if n in options else f'<s style="opacity:0.65">{n}</s>'
        for n in range(1, MOST_HEADS + 1)
    ]
    out = next((n for n in range(2, MOST_HEADS + 1) if n not in options), None)
    why = f"; crossed out: {d_out} / {out} = {d_out / out:.2f} isn't whole" if out else ""
    return Markup(f"{' '.join(words)} (head_dim: {d_out} / {num_heads} = {d_out // num_heads}{why})")

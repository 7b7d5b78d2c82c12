"""Notebook 06 in words: what each stage of the layer does with the present numbers."""

import html

import torch

from ..core import causal_mask
from .base import Markup
from .lesson_06_stages import ORDER, code, lines_at, with_sizes
from .lesson_06_whole_layer import drawn
from .multi_head import MOST_HEADS
from .multi_head_words import dropped, each_head, last_token_reads, right
from .svg import number


def headline(state):
    """What the current stage does with the present numbers."""
    if state.where == "softmax":
        return f"Softmax makes each row sum to 1: {last_token_reads(state.weights, state.tokens)}"
    if state.where == "dropout":
        return dropped(state) or f"Dropout is off: all {int((state.weights > 0).sum())} weights stay as they are"
    (count, d_in), d_out, head_dim = state.x.shape, state.context.shape[1], state.steps.queries.shape[3]
    all_scores, come = state.steps.scores[0], "1 token comes in," if count == 1 else f"{count} tokens come in, each"
    head, place = divmod(int(all_scores.argmax()), count**2)
    mixed = f"each output is a weighted sum of {numbers(d_out)}, from all heads"
    return {
        "tokens": f"{come} a row of {numbers(d_in)} from {span(state.x)}",
        "queries": f"W_query turns each token's {numbers(d_in)} into a query of {d_out}: {head_dim} per head",
        "keys": f"W_key turns the same tokens into keys of {numbers(d_out)}: {head_dim} per head",
        "values": f"W_value turns them into values, to be averaged: {numbers(head_dim)} per head",
        "scores": f"Scores run from {span(all_scores)}, where {meeting(place, state.tokens)} (head {head + 1})",
        "mask": f"The mask hides {count * (count - 1) // 2} of each head's {count**2} scores: those of later tokens",
        "context": f"Each head averages its values by its weights: {numbers(head_dim)} per token",
        "side by side": "The heads' contexts come side by side: "
        f"{d_out // head_dim} × {head_dim} = {numbers(d_out)} per token",
        "output": f"out_proj mixes the heads: {mixed if state.accuracy is None else right(state)}",
    }[state.where]


def meeting(place, names):
    """Which query and key meet at a place of a flattened table."""
    query, key = divmod(place, len(names))
    return f"“{names[query]}” meets “{names[key]}”"


def span(table):
    """ "-1.20 to 3.40"."""
    return " to ".join(number(each.item()) for each in table.aminmax())


def numbers(count):
    return f"{count} number{'s' * (count > 1)}"


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
    width = table.numel() // len(state.tokens)
    return f"{place.capitalize()}: {numbers(width)} per token, {span(table)}."


def highest_by_head(state):
    """Each head's highest score, of those that are shown."""
    shown, names = drawn(state), state.tokens
    if state.where == "mask":
        shown = shown.masked_fill(causal_mask(len(names)), -torch.inf)
    most, places = shown.flatten(1).max(dim=1)  # each (num_heads,)
    for head, (score, place) in enumerate(zip(most.tolist(), places.tolist(), strict=True), 1):
        yield f"Head {head}: highest score {number(score)}, {meeting(place, names)}."


def folded(name, inside):
    """A piece of HTML that opens at a click."""
    return f"<details><summary>{name}</summary><pre>{inside}</pre></details>"


def folded_code(state):
    """All lines of the code, with those of the current stage in bold."""
    here = lines_at(state.where)
    lines = [(line in here, html.escape(with_sizes(line, state))) for line in code()]
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

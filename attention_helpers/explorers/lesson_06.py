"""Notebook 06: the complete layer, one width split among heads, up to 64 tokens, with a trace of every operation."""

import html

import ipywidgets as widgets
import torch

from ..core import causal_mask
from ..layers import MultiHeadAttention
from ..seeded import seeded
from . import multi_head as heads
from .base import Markup, dropout, seed, slider, stops
from .lesson_06_stages import ORDER, code, lines_at, with_sizes
from .lesson_06_whole_layer import drawn, whole_layer
from .lookup_models import HEADS, WIDTHS, switch, trained
from .multi_head import MOST_HEADS, MOST_TOKENS, HeadsExplorer
from .svg import number
from .words import size_in_words

MOST_WIDE = 96
ROW = "display:flex;flex-wrap:wrap;gap:0 24px"


class SplitExplorer(HeadsExplorer):
    """Change width, heads, dropout, tokens and seed of random weights, or look at trained ones, step by step.

    sentence: a Sentence; tokens after its end are random rows. Arrays: a HeadsState. Errors: as in Explorer.
    """

    most = MOST_TOKENS

    def extended(self, tokens, embeddings):
        generator, (num_tokens, d_in) = torch.Generator().manual_seed(0), embeddings.shape
        more = torch.rand(MOST_TOKENS - num_tokens, d_in, generator=generator)
        names = [f"random {n}" for n in range(len(more))]
        return tokens + names, torch.cat([embeddings, more])  # (MOST_TOKENS, d_in)

    def make_controls(self):
        return {
            "d_out": stops("d_out", range(1, MOST_WIDE + 1), 12, "The width of all heads together"),
            "num_heads": stops("num_heads", divisors(12), 2, "How many heads share d_out"),
            "dropout": dropout(),
            "num_tokens": slider("num_tokens", 6, 1, MOST_TOKENS, "Tokens beyond the sentence are random"),
            "seed": seed(123),
            "weights": switch("random"),
            "where": widgets.ToggleButtons(
                options=ORDER,
                value=ORDER[-1],  # the complete layer
                description="stage",
                tooltip="How far the layer has computed",
                layout={"grid_area": "auto / 1 / auto / -1"},
            ),
        }

    def choices(self, values):
        if values["weights"] == "trained":
            return {"d_out": WIDTHS, "num_heads": HEADS}
        return {"d_out": range(1, MOST_WIDE + 1), "num_heads": divisors(values["d_out"])}

    def note(self, wanted, values):
        asked, got = wanted["num_heads"], values["num_heads"]
        if asked == got or values["weights"] == "trained":
            return super().note(wanted, values)
        return f"num_heads is {got} for now: {asked} doesn't divide d_out = {values['d_out']}."

    def compute(self, d_out, num_heads, dropout, num_tokens, seed, weights, where):
        if weights == "trained":
            found = trained(d_out, num_heads)
            layer = seeded(MultiHeadAttention, 0, d_out, d_out, len(found.x), dropout, num_heads)
            layer.load_state_dict(found.state)
            state = heads.run(layer, found.x, seed, found.tokens, found.accuracy)
        else:
            d_in = self.embeddings.shape[1]
            layer = seeded(MultiHeadAttention, seed, d_in, d_out, MOST_TOKENS, dropout, num_heads)
            state = heads.run(layer, self.embeddings[:num_tokens], seed, self.tokens[:num_tokens])
        trace = heads.operations(state.x.shape[1], d_out, num_heads, len(state.tokens), dropout > 0)
        return state._replace(operations=trace, where=where)

    def picture(self, state):
        return whole_layer(state)

    def headline(self, state):
        if state.where == "softmax":
            return f"Softmax makes each row sum to 1: {heads.last_token_reads(state.weights, state.tokens)}"
        if state.where == "dropout":
            stay = int((state.weights > 0).sum())
            return heads.dropped(state) or f"Dropout is off: all {stay} weights stay as they are"
        (count, d_in), d_out, head_dim = state.x.shape, state.context.shape[1], state.steps.queries.shape[3]
        all_scores, come = state.steps.scores[0], "1 token comes in," if count == 1 else f"{count} tokens come in, each"
        head, place = divmod(int(all_scores.argmax()), count**2)
        hides = count * (count - 1) // 2
        mixed = f"each output is a weighted sum of {numbers(d_out)}, from all heads"
        return {
            "tokens": f"{come} a row of {numbers(d_in)} from {span(state.x)}",
            "queries": f"W_query turns each token's {numbers(d_in)} into a query of {d_out}: {head_dim} per head",
            "keys": f"W_key turns the same tokens into keys of {numbers(d_out)}: {head_dim} per head",
            "values": f"W_value turns them into values, to be averaged: {numbers(head_dim)} per head",
            "scores": f"Scores run from {span(all_scores)}, where {meeting(place, state.tokens)} (head {head + 1})",
            "mask": f"The mask hides {hides} of each head's {count**2} scores: those of later tokens",
            "context": f"Each head averages its values by its weights: {numbers(head_dim)} per token",
            "side by side": "The heads' contexts come side by side: "
            f"{d_out // head_dim} × {head_dim} = {numbers(d_out)} per token",
            "output": f"out_proj mixes the heads: {mixed if state.accuracy is None else heads.right(state)}",
        }[state.where]

    def readouts(self, state):
        num_heads, num_tokens = state.shown.shape[:2]
        table = f"{num_heads} × {num_tokens} × {num_tokens}, {size_in_words(4 * state.shown.numel())}"
        trace = folded("the trace of every operation", html.escape(state.operations))
        return {
            **({} if state.accuracy is not None else {"num_heads": offered(state.context.shape[1], num_heads)}),
            "in memory": f"{state.parameters} parameters; attention weights: {table}",
            **heads.task(state),
            "in full": Markup(f'<div style="{ROW}">{folded_code(state)}{trace}</div>'),
        }

    def in_words(self, state):
        stage, tables = ORDER.index(state.where) + 1, dict(zip(ORDER[:4], (state.x, *state.steps[:3]), strict=True))
        by_head = [heads.each_head(state, drawn(state))]
        if state.where in ("scores", "mask"):
            by_head = highest_by_head(state)
        pale = "; what comes later is pale" * (stage < len(ORDER))
        said = [f"Stage {stage} of {len(ORDER)}: {state.where}{pale}."]
        said += [in_numbers(state, *table) for table in tables.items()]
        said += [*by_head, in_numbers(state, "context", state.context), in_numbers(state, "output", state.output)]
        return " ".join(said)


def meeting(place, names):
    """Which query and key meet at a place of a flattened table."""
    query, key = divmod(place, len(names))
    return f"“{names[query]}” meets “{names[key]}”"


def span(table):
    """ "-1.20 to 3.40"."""
    return " to ".join(number(each.item()) for each in table.aminmax())


def numbers(count):
    return f"{count} number{'s' * (count > 1)}"


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

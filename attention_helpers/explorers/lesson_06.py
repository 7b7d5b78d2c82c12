"""Notebook 06: the complete layer, one width split among heads, up to 64 tokens, with a trace of every operation."""

import html

import torch

from .base import Markup, dropout, seed, slider, stops
from .lesson_06_whole_layer import ORDER, lines_at, whole_layer
from .lookup_models import HEADS, WIDTHS, switch
from .multi_head import MOST_HEADS, MOST_TOKENS, HeadsExplorer, operations, split_heads, split_trained
from .words import listed, size_in_words

MOST_WIDE = 96


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
            "num_heads": stops("num_heads", divisors(12), 2, "Among how many heads d_out is split"),
            "dropout": dropout(),
            "num_tokens": slider("num_tokens", 6, 1, MOST_TOKENS, "Tokens beyond the sentence are random"),
            "seed": seed(123),
            "weights": switch(),
            "where": stops("where am I", ORDER, "output", "How far the layer has computed"),
        }

    def choices(self, values):
        if values["weights"] == "trained":
            return {"d_out": WIDTHS, "num_heads": HEADS}
        return {"d_out": range(1, MOST_WIDE + 1), "num_heads": divisors(values["d_out"])}

    def note(self, wanted, values):
        asked, got = wanted["num_heads"], values["num_heads"]
        if asked == got or values["weights"] == "trained":
            return super().note(wanted, values)
        return f"num_heads is {got} for now: {asked} does not divide d_out = {values['d_out']}."

    def compute(self, d_out, num_heads, dropout, num_tokens, seed, weights, where):
        if weights == "trained":
            state = split_trained(d_out, num_heads, dropout, seed)
        else:
            state = split_heads(self.embeddings, self.tokens, d_out, num_heads, dropout, num_tokens, seed)
        trace = operations(state.x.shape[1], d_out, num_heads, len(state.tokens), dropout > 0)
        return state._replace(operations=trace, where=where)

    def picture(self, state):
        return whole_layer(state)

    def headline(self, state):
        return ""

    def readouts(self, state):
        num_heads, num_tokens = state.shown.shape[:2]
        d_out, trace = state.context.shape[1], html.escape(state.operations)
        return {
            "computed here": Markup("<br>".join(f"<code>{html.escape(line)}</code>" for line in lines_at(state.where))),
            "num_heads": offered(d_out, num_heads) if state.accuracy is None else f"{num_heads}",
            "head_dim": f"{d_out} / {num_heads} = {d_out // num_heads}",
            "entropy a head": f"{listed(state.entropy)} bits",
            **self.answers(state),
            "parameters": f"{state.parameters}",
            "weights in memory": f"{num_heads} × {num_tokens} × {num_tokens} numbers, "
            f"{size_in_words(4 * state.shown.numel())}",
            "every operation": Markup(f"<details><summary>the trace</summary><pre>{trace}</pre></details>"),
        }

    def in_words(self, state):
        return f"{len(state.shown)} heads. {self.heads_in_words(state)} Computed up to here: {state.where}."


def divisors(d_out):
    """The numbers of heads that divide a width, up to as many as fit in the picture."""
    return [n for n in range(1, min(d_out, MOST_HEADS) + 1) if d_out % n == 0]


def offered(d_out, num_heads):
    """The numbers of heads up to MOST_HEADS, with those that don't divide d_out struck out, and why."""
    options = divisors(d_out)
    words = [
        f"<b>{n}</b>" if n == num_heads else str(n) if n in options else f'<s style="opacity:0.65">{n}</s>'
        for n in range(1, MOST_HEADS + 1)
    ]
    out = next((n for n in range(2, MOST_HEADS + 1) if n not in options), None)
    why = f" (struck out: no whole head_dim; {d_out} / {out} = {d_out / out:.2f})" if out else ""
    return Markup(" ".join(words) + why)

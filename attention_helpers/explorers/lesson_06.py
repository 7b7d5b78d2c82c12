"""Notebook 06: the complete layer, one width split among heads, up to 64 tokens, with a trace of every operation."""

import html

import ipywidgets as widgets
import torch

from ..layers import MultiHeadAttention
from ..seeded import seeded
from .base import Markup, dropout, seed, slider, stops
from .lesson_06_stages import ORDER
from .lesson_06_whole_layer import whole_layer
from .lesson_06_words import divisors, folded, folded_code, headline, in_words, offered
from .lookup_models import HEADS, WIDTHS, switch, trained
from .multi_head import MOST_TOKENS, HeadsExplorer, operations, run
from .multi_head_words import task
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
            "weights": switch(),
            "where": widgets.ToggleButtons(
                options=ORDER,
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
            state = run(layer, found.x, seed, found.tokens, found.accuracy)
        else:
            d_in = self.embeddings.shape[1]
            layer = seeded(MultiHeadAttention, seed, d_in, d_out, MOST_TOKENS, dropout, num_heads)
            state = run(layer, self.embeddings[:num_tokens], seed, self.tokens[:num_tokens])
        trace = operations(state.x.shape[1], d_out, num_heads, len(state.tokens), dropout > 0)
        return state._replace(operations=trace, where=where)

    def picture(self, state):
        return whole_layer(state)

    def headline(self, state):
        return headline(state)

    def readouts(self, state):
        num_heads, num_tokens = state.shown.shape[:2]
        trained = state.accuracy is not None
        table = f"{num_heads} × {num_tokens} × {num_tokens}, {size_in_words(4 * state.shown.numel())}"
        trace = folded("the trace of every operation", html.escape(state.operations))
        return {
            **({} if trained else {"num_heads": offered(state.context.shape[1], num_heads)}),
            "in memory": f"{state.parameters} parameters; attention weights: {table}",
            **task(state),
            "in full": Markup(f'<div style="{ROW}">{folded_code(state)}{trace}</div>'),
        }

    def in_words(self, state):
        return in_words(state)

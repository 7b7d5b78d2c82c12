"""Notebook 06: one width split among heads, up to 64 tokens, with the trace of every operation."""

import html

import ipywidgets as widgets
import torch

from .. import frames
from .heads import MOST_HEADS, HeadsExplorer, lightest, split_heads
from .words import listed, size_in_words

MOST_TOKENS = 64


class SplitExplorer(HeadsExplorer):
    """Change the width, the heads it is split among, dropout, the number of tokens and the seed.

    sentence: a Sentence; tokens beyond its end are random rows, the same every time. Arrays: a HeadsState. Units:
    entropy in bits, memory in bytes of float32, else none. Errors: see Explorer.
    """

    def __init__(self, sentence):
        more = torch.rand(MOST_TOKENS - len(sentence.tokens), sentence.embeddings.shape[1], generator=generator(0))
        self.embeddings = torch.cat([sentence.embeddings, more])  # (MOST_TOKENS, d_in)
        self.tokens = [*sentence.tokens, *(f"random {n}" for n in range(len(more)))]
        self.trace = None
        super().__init__()

    def make_controls(self):
        return {
            "d_out": widgets.IntSlider(12, 1, 96, description="d_out"),
            "num_heads": widgets.SelectionSlider(options=divisors(12), value=2, description="num_heads"),
            "dropout": widgets.FloatSlider(0.0, min=0, max=0.9, step=0.05, description="dropout"),
            "num_tokens": widgets.IntSlider(6, 1, MOST_TOKENS, description="num_tokens"),
            "seed": widgets.IntSlider(123, 0, 999, description="seed"),
        }

    def adjust(self, moved):
        """Offer the divisors of d_out alone; a number of heads that no longer divides it gives way, and says so."""
        if moved not in (None, "d_out"):
            return ""
        control, d_out = self.controls["num_heads"], self.controls["d_out"].value
        heads, options = control.value, divisors(d_out)
        if heads not in options:
            control.value = 1  # 1 divides everything, so that options may change under it
        control.options = options
        control.value = max(option for option in options if option <= heads)
        if control.value == heads:
            return ""
        return f"num_heads went from {heads} to {control.value}: {heads} does not divide d_out = {d_out}."

    def compute(self, **values):
        state, self.trace = split_heads(self.embeddings, **values)
        return state

    def shape_of_picture(self, state):
        num_heads, num_tokens = state.shown.shape[:2]
        return num_heads, min(num_tokens, frames.NAMES_UP_TO + 1)  # beyond that no names, so one background for all

    def make_figure(self, state):
        num_heads, num_tokens = state.shown.shape[:2]
        figure, axes = frames.grid_figure(num_heads)
        self.frame_heads(axes, self.tokens[:num_tokens])
        return figure

    def paint(self, canvas, state):
        self.paint_heads(canvas, state)

    def readouts(self, state):
        num_heads, num_tokens = state.shown.shape[:2]
        d_out, operations = state.context.shape[1], html.escape(str(self.trace))
        return {
            "num_heads": offered(d_out, num_heads),
            "head_dim": f"{d_out} / {num_heads} = {d_out // num_heads}",
            "entropy a head": f"{listed(state.entropy)} bits",
            "colours": f"from 0 (darkest) to {lightest(state)[1]:.2f} and more (lightest); grey: masked",
            "parameters": f"{state.parameters}",
            "weights in memory": f"{num_heads} × {num_tokens} × {num_tokens} numbers, "
            f"{size_in_words(4 * state.shown.numel())}",
            "every operation": f"<details><summary>the trace</summary><pre>{operations}</pre></details>",
        }

    def in_words(self, state):
        return f"{len(state.shown)} heads. {self.heads_in_words(state, self.tokens)}"


def generator(seed):
    """A generator of its own, so that the notebook's random numbers stay as they are."""
    return torch.Generator().manual_seed(seed)


def divisors(d_out):
    """The numbers of heads that a width can be split among, as many as a picture holds."""
    return [n for n in range(1, min(d_out, MOST_HEADS) + 1) if d_out % n == 0]


def offered(d_out, num_heads):
    """The numbers of heads up to the most, those that do not divide d_out in grey, and why."""
    options = divisors(d_out)
    words = [
        f"<b>{n}</b>" if n == num_heads else str(n) if n in options else f'<s style="color:#767676">{n}</s>'
        for n in range(1, MOST_HEADS + 1)
    ]
    out = next((n for n in range(2, MOST_HEADS + 1) if n not in options), None)
    why = f" (struck out: no whole head_dim; {d_out} / {out} = {d_out / out:.2f})" if out else ""
    return " ".join(words) + why

"""Notebook 05: heads side by side, each with weights of its own, and their contexts in one row."""

import ipywidgets as widgets

from .. import frames
from .heads import HeadsExplorer, lightest, stack_heads
from .words import listed


class WrapperExplorer(HeadsExplorer):
    """Change how many heads stand side by side, how wide each is, dropout and seed.

    sentence: a Sentence of up to 8 tokens. Arrays: a HeadsState. Units: entropy in bits. Errors: see
    Explorer.
    """

    def __init__(self, sentence):
        self.tokens, self.embeddings = sentence
        super().__init__()

    def make_controls(self):
        return {
            "num_heads": widgets.IntSlider(2, 1, 8, description="num_heads"),
            "d_out": widgets.IntSlider(2, 1, 4, description="d_out a head"),
            "dropout": widgets.FloatSlider(0.0, min=0, max=0.9, step=0.05, description="dropout"),
            "seed": widgets.IntSlider(123, 0, 999, description="seed"),
        }

    def compute(self, num_heads, d_out, dropout, seed):
        return stack_heads(self.embeddings, num_heads, d_out, dropout, seed)

    def shape_of_picture(self, state):
        return len(state.shown), state.context.shape[1]

    def make_figure(self, state):
        num_heads, width = len(state.shown), state.context.shape[1]
        figure, axes = frames.grid_figure(num_heads, below=True)
        self.frame_heads(axes[:-1], self.tokens)
        shape, labels = (len(self.tokens), width), ("token", "entry, in the colour of its head")
        frames.frame_cells(
            axes[-1], self.tokens, None, shape, "context vectors\n", labels=labels, legend=("lowest", "highest")
        )
        frames.colour_columns(axes[-1], [column // (width // num_heads) for column in range(width)])
        return figure

    def paint(self, canvas, state):
        self.paint_heads(canvas, state)
        box = len(state.shown) + 1  # after the heads and their colour bar
        canvas.update_heatmap(box, state.context, frames.limits_of(state.context), size=8)

    def readouts(self, state):
        num_heads, width = len(state.shown), state.context.shape[1]
        low, high = frames.limits_of(state.context)
        return {
            "context": f"{num_heads} heads × {width // num_heads} = {width} wide, entries {low:.4f} to {high:.4f}",
            "entropy a head": f"{listed(state.entropy)} bits",
            "colours": f"from 0 (darkest) to {lightest(state)[1]:.2f} and more (lightest); grey: masked",
            "parameters": f"{state.parameters}, {state.parameters // num_heads} a head",
            "row sums": f"{state.shown.sum(dim=-1).min():.4f} to {state.shown.sum(dim=-1).max():.4f}",
        }

    def in_words(self, state):
        width = state.context.shape[1]
        return f"{self.heads_in_words(state, self.tokens)} The context vectors are {width} wide."

"""Notebook 05: heads side by side, each with its own weights, and their contexts in one row."""

from .base import dropout, seed, stops
from .ink import SIGNED, largest
from .lookup_models import HEADS, WIDTHS, switch
from .multi_head import HeadsExplorer, stack_heads, stack_trained
from .svg import beside
from .svg_maps import colour_bar, strip
from .words import listed


class WrapperExplorer(HeadsExplorer):
    """Change the number of heads, the width of each, dropout and seed; or look at trained heads.

    sentence: a Sentence of up to 8 tokens. Arrays: a HeadsState. Entropy in bits. Errors: as in Explorer.
    """

    def make_controls(self):
        return {
            "num_heads": stops("num_heads", range(1, 9), 2, "How many heads stand side by side"),
            "d_out": stops("d_out a head", range(1, 5), 2, "The width of each head"),
            "dropout": dropout(),
            "seed": seed(123),
            "weights": switch(),
        }

    def choices(self, values):
        if values["weights"] == "random":
            return {"num_heads": range(1, 9), "d_out": range(1, 5)}
        num_heads = max(n for n in HEADS if n <= values["num_heads"])
        return {"num_heads": HEADS, "d_out": [width // num_heads for width in WIDTHS]}

    def compute(self, num_heads, d_out, dropout, seed, weights):
        if weights == "trained":
            return stack_trained(num_heads, d_out, dropout, seed)
        return stack_heads(self.embeddings, self.tokens, num_heads, d_out, dropout, seed)

    def picture(self, state):
        num_heads, width = len(state.shown), state.context.shape[1]
        owners = [column // (width // num_heads) for column in range(width)]
        context = strip(state.context, state.tokens, owners, "context vectors, head after head")
        maps = self.heads_picture(state, 620, 330)
        return [[maps], [beside(context, colour_bar(largest(state.context), SIGNED, height=130))]]

    def headline(self, state):
        return ""

    def readouts(self, state):
        num_heads, width = len(state.shown), state.context.shape[1]
        low, high = state.context.min(), state.context.max()
        return {
            "context": f"{num_heads} heads × {width // num_heads} = {width} wide, entries {low:.4f} to {high:.4f}",
            "entropy a head": f"{listed(state.entropy)} bits",
            **self.answers(state),
            "parameters": f"{state.parameters}, {state.parameters // num_heads} a head",
            "row sums": f"{state.shown.sum(dim=-1).min():.4f} to {state.shown.sum(dim=-1).max():.4f}",
        }

    def in_words(self, state):
        width = state.context.shape[1]
        return f"{self.heads_in_words(state)} The context vectors are {width} wide."

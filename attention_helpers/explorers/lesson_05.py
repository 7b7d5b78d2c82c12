"""Notebook 05: heads side by side, each with its own weights, and their contexts in one row."""

from ..core import causal_mask
from ..layers import MultiHeadAttentionWrapper
from ..seeded import seeded
from .base import dropout, seed, stops
from .ink import SIGNED, largest, weight_limit
from .lookup_models import HEADS, WIDTHS, switch
from .multi_head import HeadsExplorer, dropped, each_head, last_token_reads, right, run, stack_trained, taken_from, task
from .svg import beside, number
from .svg_maps import colour_bar, head_maps, strip
from .words import listed

ALIKE = 0.1  # heads look alike if none of their weights differs by more


class WrapperExplorer(HeadsExplorer):
    """Change the number of heads, the width of each, dropout and seed; or look at trained heads.

    sentence: a Sentence of up to 8 tokens. Arrays: a HeadsState. Entropy in bits. Errors: as in Explorer.
    """

    def make_controls(self):
        return {
            "num_heads": stops("num_heads", range(1, 9), 2, "How many heads work side by side"),
            "d_out": stops("d_out per head", range(1, 5), 2, "The width of each head"),
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
        num_tokens, d_in = self.embeddings.shape
        layer = seeded(MultiHeadAttentionWrapper, seed, d_in, d_out, num_tokens, dropout, num_heads)
        return run(layer, self.embeddings, seed, self.tokens)

    def picture(self, state):
        num_heads, width, tokens = len(state.shown), state.context.shape[1], state.tokens
        limit, future, taken = weight_limit(len(tokens)), causal_mask(len(tokens)), taken_from(state)
        bar = colour_bar(limit, height=165, more=limit < 1)
        maps = head_maps(state.shown, tokens, limit, future, taken, 514, 330, bar=bar)
        owners = [column // (width // num_heads) for column in range(width)]
        context = strip(state.context, tokens, owners, "context vectors, head after head", 450, 120)
        both = beside(context, colour_bar(largest(state.context), SIGNED, height=120))
        return [[maps], [both._replace(height=178)]]  # the same with and without numbers below the entries

    def headline(self, state):
        if said := dropped(state):
            return said
        if state.accuracy is None and len(state.shown) > 1:
            return compared(state)
        reads = last_token_reads(state.shown, state.tokens)
        return reads if state.accuracy is None else f"{reads}; {right(state)}"

    def readouts(self, state):
        num_heads, width = len(state.shown), state.context.shape[1]
        each, of_each = width // num_heads, state.parameters // num_heads
        sums = state.shown.sum(dim=-1)
        return {
            "context": f"{num_heads} head{'s' * (num_heads > 1)} × {each} = {width} wide",
            "parameters": f"{num_heads} × {of_each} = {state.parameters}",
            "entropy per head": f"{listed(state.entropy)} bits",
            **({"sums of rows": f"{sums.min():.2f} to {sums.max():.2f}"} if dropped(state) else {}),
            **task(state),
        }

    def in_words(self, state):
        width = state.context.shape[1]
        low, high = (number(each.item()) for each in state.context.aminmax())
        return (
            f"{each_head(state, state.shown)} The context vectors are {width} wide, with entries from {low} to {high}."
        )


def compared(state):
    """How much random heads differ: mostly little; else where they do most."""
    spread = state.shown.amax(dim=0) - state.shown.amin(dim=0)  # (num_tokens, num_tokens)
    most = spread.max().item()
    if most <= ALIKE:
        return f"Untrained, the {len(state.shown)} heads look alike: no weight differs by more than {most:.2f}"
    first = (spread >= most - 1e-6).flatten().int().argmax()  # in a row of two weights, both differ by as much
    row, column = divmod(int(first), len(state.tokens))
    weights = state.shown[:, row, column]
    low, high = (f"{weights[head]:.2f} in head {head + 1}" for head in (int(weights.argmin()), int(weights.argmax())))
    query, key = state.tokens[row], state.tokens[column]
    return f"Untrained heads differ a little, most where “{query}” reads “{key}”: {low}, {high}"

"""Notebook 05: heads side by side, each with its own weights, and their contexts in one row."""

from .head_columns import head_columns
from .multi_head import HeadsExplorer, task

STACK_OFFERED = {  # by weights
    "hand-made": {"num_heads": [1, 2], "d_out": [3], "example": [1, 2]},
    "trained": {"num_heads": [1, 2, 4], "d_out": [1, 2, 4, 8], "example": range(1, 9)},
}


class WrapperExplorer(HeadsExplorer):
    """One token asks for two digits: change the number of heads, made by hand or trained, their width, and dropout."""

    offered, of_d_out = STACK_OFFERED, "each head's queries, keys and values"
    high = 380

    def compute(self, num_heads, d_out, **more):
        """As notebook 06's class computes it, which gives the same, but without its output projection."""
        width = num_heads * d_out
        shown = super().compute(num_heads, width, **more)
        return shown | {"parameters": shown["parameters"] - width * (width + 1)}

    def picture(self, state):
        return [[head_columns(state, self.high)]]

    def headline(self, state):
        blend = state.accuracy is None and len(state.weights) == 1 and not state.dropped[0, -1].any()
        return super().headline(state) + " each, so it gets one average of two digits" * blend

    def readouts(self, state):
        n, width = len(state.weights), state.context.shape[1]
        sizes = f"{n} × {width // n} = {width}, {n} × {state.parameters // n} = {state.parameters}"
        return {"width, parameters": sizes} | task(state)

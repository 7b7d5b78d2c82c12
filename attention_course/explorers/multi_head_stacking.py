"""Notebook 05: heads side by side, each with its own weights, and their contexts in one row."""

from .ink import SIGNED_INK, largest
from .multi_head import HeadsExplorer, maps_and_planes, task
from .svg import in_row
from .svg_maps import colour_bar, strip

STACK_OFFERED = {  # by weights
    "hand-made": {"num_heads": [1, 2], "d_out": [3], "example": [1, 2]},
    "trained": {"num_heads": [1, 2, 4], "d_out": [1, 2, 4, 8], "example": range(1, 9)},
}


class WrapperExplorer(HeadsExplorer):
    """One token asks for two digits: change the number of heads, made by hand or trained, their width, and dropout."""

    offered, of_d_out = STACK_OFFERED, "each head's queries, keys and values"
    room = 388, 230  # of the maps, and of the planes

    def compute(self, num_heads, d_out, **more):
        """As notebook 06's class computes it, which gives the same, but without its output projection."""
        width = num_heads * d_out
        shown = super().compute(num_heads, width, **more)
        return shown | {"parameters": shown["parameters"] - width * (width + 1)}

    def picture(self, state):
        num_heads, width, tokens = len(state.weights), state.context.shape[1], state.tokens
        owners, trained = [column // (width // num_heads) for column in range(width)], state.accuracy is not None
        look = {"told": 2} if trained else {"label": "digit", "columns": [*"123"] * num_heads}
        context = strip(state.context, tokens, owners, "context vectors, head after head", 398, 95, **look)
        both = in_row(context, colour_bar(largest(state.context), SIGNED_INK, height=95))
        maps, planes = maps_and_planes(state, *self.room)
        # room for the words below planes, and the same height with upright and with slanted numbers below the entries
        return [[maps, planes._replace(width=336)], [both._replace(height=167)]]

    def headline(self, state):
        blend = state.accuracy is None and len(state.weights) == 1 and not state.dropped[0, -1].any()
        return super().headline(state) + " each, so it gets one average of two digits" * blend

    def readouts(self, state):
        n, width = len(state.weights), state.context.shape[1]
        sizes = f"{n} × {width // n} = {width}, {n} × {state.parameters // n} = {state.parameters}"
        return {"width, parameters": sizes} | task(state)

"""Notebook 15: a suspect's attention map and its influence map, in both modes."""

import torch

from attention_course import real_bugs
from attention_course.build import build_layer
from attention_course.plots import head_colour
from attention_helpers.layers import causal_mask
from attention_helpers.probes import attention_maps, perturbation_influence

from .base import Explorer
from .controls import buttons
from .ink import ink, largest
from .svg import LEFT, TOP, in_row, number, text
from .svg_maps import Entries, heatmap, influence_map

TOKENS = [f"token {n}" for n in range(1, 7)]
LAYERS = {"none": real_bugs.Heads} | {each.__name__[-1]: each for each in real_bugs.FIRST_SUSPECTS}
PICTURE_SIDE = 230  # of a map


class SuspectsExplorer(Explorer):
    """Choose one of the first six suspects or a layer without a bug, a mode, and the head whose map is shown.

    Dropout is 0 here, so that nothing is random.
    """

    def make_controls(self):
        return {
            "suspect": buttons("suspect", [*LAYERS], "Whose attention this is"),
            "training": buttons("mode", {"eval": False, "training": True}, "Which mode the layer is in"),
            "head": buttons("map of", {"head 1": 0, "head 2": 1}, "Whose attention weights are shown"),
        }

    def compute(self, suspect, training, head):
        maps, moves = self.look(suspect, training)  # maps: (2, 6, 6), before dropout; moves: (6, 6), of each row
        right_maps, right_moves = self.look("none", training)
        looks_right = torch.allclose(maps, right_maps) and torch.allclose(moves, right_moves, atol=1e-5)
        return {"maps": maps, "moves": moves, "looks_right": looks_right}  # as the layer without a bug in this mode

    def look(self, suspect, training):
        layer = build_layer(LAYERS[suspect], 0, 8, 8, 6, 0.0, 2).train(training)
        x = 2 * torch.randn(1, 6, 8, generator=torch.Generator().manual_seed(1))

        def rows(x):
            output = layer(x)
            return output[0] if isinstance(output, tuple) else output  # without a cache

        return attention_maps(layer, x)[0][0], perturbation_influence(rows, x, 1.0)

    def picture(self, state):
        of, title = Entries(ink(head_colour(state.head))), f"weights of head {state.head + 1}"
        weights = heatmap(state.maps[state.head], TOKENS, TOKENS, title, of, side=PICTURE_SIDE)
        moves = influence_map(state.moves, TOKENS, side=PICTURE_SIDE, limit=largest(state.moves))
        name = f"influence ({'training' if state.training else 'eval'})"
        title = text(LEFT + PICTURE_SIDE / 2, TOP - 12, f"{name}, red: future", size=12, font_weight="bold")
        return [[in_row(weights, moves._replace(svg=title + moves.svg, words=f"{name}, {moves.words}"))]]

    def headline(self, state):
        future = causal_mask(len(TOKENS))
        ahead, unread = state.moves[future].max(), (state.moves[~future] < 1e-6).sum().item()
        low, high = map(number, state.maps.sum(dim=-1).aminmax())
        rows = "all rows of weights sum to" if low == high else f"rows of weights sum to {low} to"
        seen = "Looks like none in this mode: later" if state.looks_right else "Later"
        return f"{seen} tokens move rows by up to {number(ahead)}, {unread} of 21 other influences are 0, {rows} {high}"

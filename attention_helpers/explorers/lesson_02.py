"""Notebook 02: what width, scaling, bias and the input do to scores and weights."""

from typing import NamedTuple

import ipywidgets as widgets
import torch

from .. import plots
from ..core import attention_scores, attention_weights
from ..layers import SelfAttention_v2
from ..seeded import seeded
from .base import SentenceExplorer, seed, slider
from .ink import SIGNED, WEIGHTS, largest, weight_limit
from .svg import BOTTOM, PALE, TOP, Drawing, beside, line, number, tag, text, title_of
from .svg_maps import colour_bar, heatmap
from .words import entropy_in_bits

SIDE = 230  # of a map


class QKVState(NamedTuple):
    """What the picture shows; `variance` is taken over the complete matrix that enters softmax."""

    scores: torch.Tensor  # (num_tokens, num_tokens), before scaling
    weights: torch.Tensor  # (num_tokens, num_tokens)
    variance: torch.Tensor
    entropy: torch.Tensor  # (num_tokens,), in bits
    parameters: int
    divided_by: int  # the d_k under the root, or 1


class QKVExplorer(SentenceExplorer):
    """Change the width of queries and keys, their input, the seed, the scaling and the bias.

    sentence: a Sentence of up to 8 tokens. Arrays: a QKVState. Units: entropy in bits. Errors: as in Explorer.
    """

    def make_controls(self):
        sources = [("toy sentence", "sentence"), ("standard normal queries and keys", "normal")]
        source = widgets.Dropdown(
            options=sources, value="normal", description="input", tooltip="Where queries and keys come from"
        )
        return {
            "source": source,
            "d_out": slider("d_out", 64, 1, 64, "The width of queries and keys, d_k"),
            "seed": seed(789),
            "scaling": widgets.Checkbox(False, description="divide by √d_k", tooltip="Scale the scores before softmax"),
            "qkv_bias": widgets.Checkbox(False, description="qkv_bias", tooltip="A bias for queries, keys and values"),
        }

    def compute(self, source, d_out, seed, scaling, qkv_bias):
        num_tokens, d_in = self.embeddings.shape
        if source == "sentence":
            layer = seeded(SelfAttention_v2, seed, d_in, d_out, qkv_bias=qkv_bias)
            scores = layer.steps(self.embeddings).scores
            parameters = sum(parameter.numel() for parameter in layer.parameters())
        else:
            generator = torch.Generator().manual_seed(seed)
            queries, keys = torch.randn(2, num_tokens, d_out, generator=generator)  # each (num_tokens, d_out)
            scores, parameters = attention_scores(queries, keys), 0
        divided_by = d_out if scaling else 1
        scale = divided_by**-0.5
        weights = attention_weights(scores, scale=scale)
        variance = (scores * scale).var() if num_tokens > 1 else torch.tensor(0.0)
        return QKVState(scores, weights, variance, entropy_in_bits(weights), parameters, divided_by)

    def note(self, wanted, values):
        normal = values["source"] == "normal"
        return "qkv_bias does nothing here, because queries and keys are drawn without matrices." if normal else ""

    def unused(self, values):
        return {"qkv_bias"} if values["source"] == "normal" else set()

    def picture(self, state):
        tokens, most, limit = self.tokens, largest(state.scores), weight_limit(len(self.tokens))
        signed = {"limit": most, "ink": SIGNED, "tell": "{} meets {}"}
        scores = heatmap(state.scores, tokens, tokens, "scores", side=SIDE, **signed)
        weights = heatmap(state.weights, tokens, tokens, "weights", side=SIDE, limit=limit)
        bar = colour_bar(limit, WEIGHTS, SIDE, more=limit < 1)
        return [[
            beside(scores, colour_bar(most, SIGNED, SIDE)),
            beside(weights, bar, entropy_bars(state.entropy, tokens)),
        ]]  # fmt: skip

    def headline(self, state):
        what = "Scores" if state.divided_by == 1 else f"Scores ÷ √{state.divided_by}"
        spread, top, even = f"{what} have variance {state.variance:.2g}", state.weights.max(), 1 / len(self.tokens)
        if top - even < 0.05:
            return f"{spread}: every row of weights stays nearly even, at most {number(top)}"
        row, column = divmod(int(state.weights.argmax()), len(self.tokens))
        query, read = self.tokens[row], "itself" if row == column else f"“{self.tokens[column]}”"
        if top >= 0.9:
            return f"{spread}: “{query}” reads almost only {read}, {number(top)}"
        return f"{spread}: the largest weight is {number(top)} (“{query}” reads {read})"

    def readouts(self, state):
        before = f" = {state.variance * state.divided_by:.4f} / {state.divided_by}" if state.divided_by > 1 else ""
        return {
            "variance entering softmax": f"{state.variance:.4f}{before}",
            "mean entropy": f"{state.entropy.mean():.2f} bits of at most {torch.tensor(len(self.tokens)).log2():.2f}",
            "parameters": f"{state.parameters or 'none'}",
        }

    def in_words(self, state):
        low, high = state.scores.min(), state.scores.max()
        return (
            f"Scores from {low:.2f} to {high:.2f}. Largest weight of each row: "
            f"{plots.strongest(state.weights, self.tokens, self.tokens)}. Mean entropy {state.entropy.mean():.2f} bits."
        )


def entropy_bars(entropy, names, width=150):
    """A bar for each row of the map to the left, with its number, up to the entropy of an even row."""
    most, each, room = max(torch.tensor(len(names)).log2().item(), 0.1), SIDE / len(names), width - 36
    parts = [title_of("entropy in bits", width), line(0, TOP, 0, TOP + SIDE), line(room, TOP, room, TOP + SIDE)]
    parts.append(text(room, TOP + SIDE + 14, f"even: {most:.2f}", **PALE))
    for n, (name, bits) in enumerate(zip(names, entropy.tolist(), strict=True)):
        y, long = TOP + (n + 0.5) * each, room * bits / most
        place = {"x": 0, "y": y - 0.3 * each, "width": long, "height": 0.6 * each}
        parts.append(tag("rect", says=f"{name}, entropy: {number(bits, 4)} bits", fill=plots.GREY, **place))
        parts.append(text(room + 5, y + 4, number(bits), "start"))
    return Drawing("".join(parts), width, TOP + SIDE + BOTTOM)

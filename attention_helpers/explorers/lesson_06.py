"""Notebook 06: one wide product, cut into heads, and what the heads read after the cut."""

import itertools
from typing import NamedTuple

import ipywidgets as widgets
import torch

from ..core import attention_scores, attention_weights, causal_mask
from ..layers import MultiHeadAttention
from ..plots import head_colour
from ..seeded import seeded
from .base import Markup, stops
from .ink import SIGNED, largest, weight_limit
from .lookup_models import HEADS, switch, trained
from .multi_head import HeadsExplorer, each_head, last_token_reads, right, task, two_lookups
from .svg import LEFT, TOP, Drawing, beside, moved, number, tag, text, title_of
from .svg_maps import colour_bar, head_maps, names_beside, strip
from .words import listed

WIDTH = 32  # of the trained layers
CUTS = ["view, then transpose", "view alone"]
OFFERED = {  # by weights
    "hand-made": {"num_heads": [1, 2, 3, 6], "example": [1, 2], "cut": CUTS},
    "trained": {"num_heads": HEADS, "example": range(1, 9), "cut": CUTS[:1]},
}
MOST_HEADS = 6
SIDE, HIGH = 166, 92  # of each wide table
LIGHT, STRONG = 0.18, 0.75  # opacity of a 0, and of the largest entry


class SplitState(NamedTuple):
    """What the picture shows."""

    wide: dict  # queries, keys and values, (num_tokens, d_out) each, by name
    owners: torch.Tensor  # (num_tokens, d_out): which head gets each entry of a wide table
    weights: torch.Tensor  # (num_heads, num_tokens, num_tokens)
    context: torch.Tensor  # (num_tokens, d_out), heads side by side
    output: torch.Tensor  # (num_tokens, d_out)
    parameters: int
    tokens: list
    cut: str
    accuracy: torch.Tensor | None  # (2,), on each question, with trained weights


class SplitExplorer(HeadsExplorer):
    """Cut queries, keys and values, each made in one product, into heads, in the right way and in a wrong one.

    Arrays: a SplitState. Errors: as in Explorer.
    """

    offered = OFFERED

    def make_controls(self):
        return {
            "num_heads": stops("num_heads", OFFERED["hand-made"]["num_heads"], 1, "How many heads share d_out"),
            "example": stops("example", [1, 2], 1, "Made by hand, the second one swaps two digits of the first"),
            "cut": widgets.ToggleButtons(options=CUTS, description="cut", tooltip="How a wide table becomes heads"),
            "weights": switch(),
        }

    def compute(self, num_heads, example, cut, weights):
        if weights == "trained":
            found = trained(WIDTH, num_heads, example - 1)
            layer = seeded(MultiHeadAttention, 0, WIDTH, WIDTH, len(found.x), 0.0, num_heads)
            layer.load_state_dict(found.state)
            return run(layer, found.x, found.tokens, cut, found.accuracy)
        tokens, x = two_lookups(swapped=example == 2)
        return run(made_by_hand(num_heads), x, tokens, cut)

    def picture(self, state):
        tokens, num_heads, d_out = state.tokens, len(state.weights), state.context.shape[1]
        tables = [cut_table(state, name, n == 0) for n, name in enumerate(state.wide)]
        limit, owners = weight_limit(len(tokens)), [column * num_heads // d_out for column in range(d_out)]
        bar = colour_bar(limit, height=100, more=limit < 1)
        maps = head_maps(state.weights, tokens, limit, causal_mask(len(tokens)), width=316, height=226, bar=bar)
        context = strip(state.context, tokens, owners, "contexts, side by side", SIDE, HIGH)
        context = beside(context, colour_bar(largest(state.context), SIGNED, height=HIGH))
        return [[beside(*tables)], [maps, context._replace(height=166)]]

    def headline(self, state):
        reads = last_token_reads(state.weights, state.tokens)
        if state.accuracy is not None:
            return f"{reads}; {right(state)}"
        return f"{reads}; first output {state.output[-1, 0]:.2f}, where {answer(state.tokens)} is right"

    def readouts(self, state):
        num_heads, (n, d_out) = len(state.weights), state.context.shape
        gets = f"{d_out // num_heads} entries of each token"
        if state.cut == CUTS[1]:
            gets = f"{n * d_out // num_heads} of {n * d_out} entries, token after token"
        return {
            "d_out / num_heads": offered(d_out, num_heads),
            "each head gets": gets,
            "parameters": str(state.parameters),
            **({f"query of “{state.tokens[-1]}”": listed(state.wide["queries"][-1], 0)} if d_out < WIDTH else {}),
            **task(state),
        }

    def in_words(self, state):
        low, high = (number(each.item()) for each in state.context.aminmax())
        return f"Cut by {state.cut}. {each_head(state)} The context vectors have entries from {low} to {high}."


def made_by_hand(num_heads):
    """A layer with the matrices of notebook 05's two heads side by side, whose first output reads two digits."""
    letter, digit, first, second = torch.eye(12).split(3)  # (3, 12) each, as an nn.Linear stores them
    layer = seeded(MultiHeadAttention, 0, 12, 6, 4, 0.0, num_heads)
    layer.W_query.weight.copy_(torch.cat((first, second)))
    layer.W_key.weight.copy_(torch.cat((10 * letter, 10 * letter)))
    layer.W_value.weight.copy_(torch.cat((digit, digit)))
    layer.out_proj.weight[0] = torch.tensor([10.0, 20, 30, 1, 2, 3])  # tens, then ones
    layer.out_proj.bias.zero_()
    return layer


def answer(tokens):
    """The digits of the two letters that the last token asks for, as one number."""
    digits = dict(token.split() for token in tokens[:-1])
    return "".join(digits[letter] for letter in tokens[-1][:2])


def run(layer, x, tokens, cut, accuracy=None):
    """What a layer computes for x (num_tokens, d_in) if its wide tables are cut in a given way."""
    n, d_out, num_heads = len(x), layer.d_out, layer.num_heads

    def heads(wide):  # (num_tokens, d_out) -> (num_heads, num_tokens, head_dim)
        return layer.split_heads(wide[None])[0] if cut == CUTS[0] else wide.view(num_heads, n, layer.head_dim)

    wide = {"queries": layer.W_query(x), "keys": layer.W_key(x), "values": layer.W_value(x)}
    q, k, v = map(heads, wide.values())
    weights = attention_weights(attention_scores(q, k), causal_mask(n), scale=layer.head_dim**-0.5)
    context = (weights @ v).transpose(0, 1).reshape(n, d_out)
    places, owners = heads(torch.arange(n * d_out).view(n, d_out)), torch.empty(n * d_out, dtype=torch.long)
    owners[places.flatten()] = torch.arange(num_heads).repeat_interleave(n * layer.head_dim)
    parameters, output = sum(parameter.numel() for parameter in layer.parameters()), layer.out_proj(context)
    return SplitState(wide, owners.view(n, d_out), weights, context, output, parameters, tokens, cut, accuracy)


def cut_table(state, name, named):
    """One wide table, each entry in the colour of the head that gets it, the stronger the larger it is."""
    table, owners, (n, d_out) = state.wide[name].tolist(), state.owners.tolist(), state.owners.shape
    w, h, left, most = SIDE / d_out, HIGH / n, LEFT if named else 0, largest(state.wide[name])
    parts, size = names_beside(state.tokens, TOP, h) if named else [], {"width": f"{w:.2f}", "height": f"{h:.2f}"}
    for i, j in itertools.product(range(n), range(d_out)):
        value, owner, x, y = table[i][j], owners[i][j], left + j * w, TOP + i * h
        opacity = f"{LIGHT + (STRONG - LIGHT) * abs(value) / most:.2f}"
        says = f"{state.tokens[i]}, entry {j} of {name}, head {owner + 1}: {number(value, 4)}"
        look = size | {"fill": head_colour(owner), "fill_opacity": opacity}
        parts.append(tag("rect", says=says if d_out < WIDTH else "", x=f"{x:.2f}", y=f"{y:.2f}", **look))
        if d_out < WIDTH:
            parts.append(text(x + w / 2, y + h / 2 + 4, number(value, 0), pointer_events="none"))
    title = moved(title_of(name, SIDE), left, 0)
    return Drawing("".join(parts) + title, left + SIDE, TOP + HIGH + 4)


def offered(d_out, num_heads):
    """The width of a head, and the numbers of heads that d_out can't be divided by, crossed out."""
    crossed = " ".join(f'<s style="opacity:0.65">{n}</s>' for n in range(1, MOST_HEADS + 1) if d_out % n)
    return Markup(f"{d_out} / {num_heads} = {d_out // num_heads} per head (num_heads can't be {crossed})")

"""The roles of a language model's heads: who reads the token before, what came next, or the first token."""

from typing import NamedTuple

import torch

from attention_course.plots import WEIGHTS, new_figure, show_figure
from attention_helpers.language_model.heads import best_heads, repeated_tokens


def weight_at(maps, distance, start=0):
    """Each head's mean weight, over the tokens from `start` on, on the token `distance` before.

    maps: (..., num_tokens, num_tokens). Returns (...,).
    """
    first = max(start, distance)
    given = maps.diagonal(-distance, dim1=-2, dim2=-1)  # (..., num_tokens - distance), of tokens from `distance` on
    return given[..., first - distance :].mean(dim=-1)


def after_opening(model, token_ids):
    """The same texts (b, num_tokens), after the token that the model expects at the beginning, if it has one."""
    return torch.cat((torch.tensor([model.opening], dtype=torch.long).expand(len(token_ids), -1), token_ids), dim=1)


class Role(NamedTuple):
    """A role, and how much weight each head gives to what the role reads, compared with a control."""

    name: str
    scores: torch.Tensor  # (num_layers, num_heads), mean weights
    control: str  # what the control reads
    controls: torch.Tensor  # (num_layers, num_heads), mean weights there

    def heads(self, least=0.3):
        """The heads, as pairs (layer, head), whose score is larger than its control by `least`; the best first."""
        above = self.scores - self.controls
        return [head for head in best_heads(above, above.numel()) if above[head] >= least]


def find_roles(model, num_tokens=32, texts=4, seed=0):
    """The Roles of a model's heads: induction heads, previous-token heads and those that rest on a sink.

    Measured on random tokens, whose repetition is all that's predictable. An induction head's control is the same
    distance in texts that repeat nothing; a previous-token head's, the token two before; a sink's, the second token.
    Source: Olsson et al. 2022 (arXiv 2209.11895); sinks: Xiao et al. 2023 (arXiv 2309.17453).
    """
    twice = repeated_tokens(model, num_tokens, seed, texts)
    once = repeated_tokens(model, 2 * num_tokens, seed + 1, texts)[:, : 2 * num_tokens]
    start, back = num_tokens + len(model.opening), num_tokens - 1
    again, new = (model.look(after_opening(model, each)).maps.mean(dim=0) for each in (twice, once))
    return [
        Role("induction", weight_at(again, back, start), "the same in a new text", weight_at(new, back, start)),
        Role("previous token", weight_at(new, 1), "two before", weight_at(new, 2)),
        Role("sink", new[..., 2:, 0].mean(dim=-1), "the second token", new[..., 2:, 1].mean(dim=-1)),
    ]


def show_roles(model, most=5, **how):
    """Print the heads found for each role, show all heads' scores in a figure, and return the Roles.

    most: heads per role that are printed. how: num_tokens, texts and seed, as in find_roles. Errors: as there.
    """
    roles = find_roles(model, **how)
    for role in roles:
        found = role.heads()
        print(f"{role.name}: {len(found)} of {role.scores.numel()} heads; control: {role.control}")
        for at in found[:most]:
            print(f"  layer {at[0]}, head {at[1]}: {role.scores[at]:.2f}, control {role.controls[at]:.2f}")
    figure, axes = new_figure(columns=len(roles), width=3.4, height=3.2)
    for ax, role in zip(axes, roles, strict=True):
        ax.imshow((role.scores - role.controls).clamp(min=0).T, cmap=WEIGHTS, vmin=0, vmax=1, aspect="auto")
        ax.set(title=role.name, xlabel="layer", ylabel="head")
    gaps = [role.scores.round(decimals=2) - role.controls.round(decimals=2) for role in roles]  # of what's printed
    best = "; ".join(f"{role.name}: {gap.max().item():.2f}" for role, gap in zip(roles, gaps, strict=True))
    show_figure(figure, f"one square per head, stronger the more its weight exceeds its control. The most: {best}.")
    return roles

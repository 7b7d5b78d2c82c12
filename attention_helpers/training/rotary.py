"""A character model with rotary positions, trained on short texts, and its loss at each position of longer ones."""

from functools import cache

import numpy as np
import torch
from torch import nn

from .._data import data_file
from ..checks import check_size, check_token_ids
from ..modern.layers import ModernAttention
from ..seeded import seeded
from .characters import Characters, load_text

FILE = data_file("rotary_models.npz")
BASES = {"rotary": 10_000.0, "none": None}  # of the two models in FILE, by their positions


class RotaryModel(nn.Module):
    """A character model of two layers with rotary positions: attention and an MLP, after RMSNorm, with residuals.

    x: token ids (b, num_tokens) of a Characters task; num_tokens can be larger than its window. Returns logits (b,
    num_tokens, characters). base: of the rotary positions, None for no positions.
    Errors: as in ModernAttention; also TypeError or ValueError if x doesn't fit the task.
    """

    def __init__(self, task, width=64, num_heads=4, base=10_000.0):
        super().__init__()
        self.embed = nn.Embedding(len(task.vocabulary), check_size("width", width))
        self.norms, self.attention, self.mlps = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for _ in range(2):
            self.norms.append(nn.RMSNorm(width))
            self.attention.append(ModernAttention(width, width, num_heads, num_heads, base=base))
            inner = nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
            self.mlps.append(nn.Sequential(nn.RMSNorm(width), *inner))
        self.output_layer = nn.Sequential(nn.RMSNorm(width), nn.Linear(width, len(task.vocabulary)))

    def change(self, **options):
        """Give all attention layers other frequencies, another factor or window: see ModernAttention. Returns self."""
        if unknown := options.keys() - {"frequencies", "factor", "window"}:
            raise ValueError(f"options must be frequencies, factor or window, got {', '.join(sorted(unknown))}")
        if options.get("window") is not None:
            check_size("window", options["window"])
        for layer in self.attention:
            vars(layer).update(options)
        return self

    def steps(self, x):
        """The logits, and the intermediate results of each layer's attention, a list of Steps."""
        check_token_ids("x", x, self.embed.num_embeddings)
        tokens, found = self.embed(x), []  # (b, num_tokens, width)
        for norm, attention, mlp in zip(self.norms, self.attention, self.mlps, strict=True):
            found.append(attention.steps(norm(tokens)))
            tokens = tokens + attention.out_proj(found[-1].context)
            tokens = tokens + mlp(tokens)
        return self.output_layer(tokens), found

    def forward(self, x):
        return self.steps(x)[0]


@cache
def short_texts():
    """The task that the stored models were trained on: 32 characters of the course's own text at a time."""
    return Characters(load_text())


def trained(positions="rotary"):
    """A model after 500 steps of training, ready to use.

    positions: "rotary" or "none". Source: data/README.md, which has the command that trains it again.
    """
    if positions not in BASES:
        raise ValueError(f"positions must be one of {', '.join(BASES)}, got {positions!r}")
    model = seeded(RotaryModel, 0, short_texts(), base=BASES[positions])
    with np.load(FILE) as sets:
        parts = {name: torch.from_numpy(sets[f"{positions}: {name}"]) for name in model.state_dict()}
    model.load_state_dict(parts)
    return model.eval()


def held_out_windows(task, length):
    """Stretches of the held-out text, each 64 characters after the one before: token ids (windows, length + 1)."""
    return task.held_out.unfold(0, check_size("length", length) + 1, 64)


@torch.no_grad()
def losses_by_position(model, task, length=256):
    """The mean loss at each position of held-out texts of so many characters, (length,), in nats."""
    windows = held_out_windows(task, length)
    losses = nn.functional.cross_entropy(model(windows[:, :-1]).transpose(1, 2), windows[:, 1:], reduction="none")
    return losses.mean(dim=0)

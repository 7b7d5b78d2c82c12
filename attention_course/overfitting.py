"""A model that memorizes: 16 noisy sequences, on which it's trained again and again, and 200 new ones (notebook 04)."""

from functools import cache
from typing import NamedTuple

import torch
from torch import nn

from attention_helpers.dropout import draw_dropout_from
from attention_helpers.layers import CausalAttention
from attention_helpers.probes import attention_maps

STEPS = range(0, 301, 5)  # when the losses are measured


class Run(NamedTuple):
    """A training run of `train`. It's in float64, so that other machines end at the same numbers."""

    losses: torch.Tensor  # (steps measured, 2): on the training sequences and on the new ones
    halves: torch.Tensor  # (steps measured, 2): on the first 100 new sequences and on the other 100
    maps: torch.Tensor  # (steps measured, 6, 6): the attention weights on the first training sequence
    always_0: float  # the loss on the new sequences of a model that always answers 0


def sequences(count, noise):
    """Days with 8 readings each, and for each day the mean of the first readings so far, plus noise."""
    x = torch.randn(count, 6, 8, dtype=torch.float64)
    mean_so_far = x[:, :, :1].cumsum(dim=1) / torch.arange(1, 7).view(6, 1)  # (count, 6, 1)
    return x, mean_so_far + noise * torch.randn(count, 6, 1, dtype=torch.float64)


def squared_error(model, x, y):
    return (model(x) - y).square().mean()


@cache
def train(p, seed):
    """300 steps on the same 16 sequences, with dropout p on the attention weights."""
    losses, maps = [], []
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # everything random comes from this seed
        training, new = sequences(16, noise=1.0), sequences(200, noise=0.0)
        halves = [[part[half] for part in new] for half in (slice(100), slice(100, 200))]
        model = nn.Sequential(CausalAttention(8, 32, 6, dropout=p), nn.Linear(32, 1)).double()
        draw_dropout_from(model)
        for step in range(STEPS[-1] + 1):
            if step > 0:
                squared_error(model.train(), *training).backward()
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter -= 0.2 * parameter.grad  # the gradient step from notebook 02
                        parameter.grad = None
            if step in STEPS:
                model.eval()
                losses.append([squared_error(model, *each).item() for each in (training, new, *halves)])
                maps.append(attention_maps(model[0], training[0][:1])[0][0].detach())
    losses = torch.tensor(losses)
    return Run(losses[:, :2], losses[:, 2:], torch.stack(maps), new[1].square().mean().item())

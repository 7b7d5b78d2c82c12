"""Models trained on the lookup task: twelve sets of weights in data/, to show next to random ones."""

from functools import lru_cache
from typing import NamedTuple

import ipywidgets as widgets
import numpy as np
import torch

from .._data import data_file
from ..seeded import seeded
from ..training.lookup import LookupModel, LookupTask

FILE = data_file("lookup_models.npz")
WIDTHS, HEADS = [8, 16, 32, 64], [1, 2, 4]
TASK = LookupTask(questions=2)  # two, because one head fails at that and two heads don't


class Trained(NamedTuple):
    """A trained LookupModel: its attention layer, and its accuracy on examples that it wasn't trained on."""

    state: dict  # the layer's parameters by name
    x: torch.Tensor  # (num_tokens, width), an embedded example
    tokens: list  # the same example in words
    accuracy: torch.Tensor  # (questions,)


@lru_cache
@torch.no_grad()
def trained(width, num_heads, example=0):
    """One of the twelve models, loaded on first use; example: the number of the one to show."""
    model = seeded(LookupModel, 0, TASK, width, num_heads)
    with np.load(FILE) as sets:
        parts = {name: sets[f"{width} wide, {num_heads} heads: {name}"] for name in model.state_dict()}
    model.load_state_dict({name: torch.from_numpy(part).float() for name, part in parts.items()})
    x, answers = TASK.batch(torch.Generator().manual_seed(2**32 - 1))  # a seed that no training step used
    accuracy = TASK.accuracy(model(x[:64]), answers[:64])  # as many as are fast enough for a slider
    return Trained(model.attention.state_dict(), model.embedded(x)[example], TASK.words(x[example]), accuracy)


def switch():
    tooltip = "Hand-made, or trained for the lookup task"
    return widgets.ToggleButtons(options=["hand-made", "trained"], description="weights", tooltip=tooltip)

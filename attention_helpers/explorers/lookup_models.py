"""What was trained for the look-up task: twelve sets of weights in data/, to show beside random ones."""

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
TASK = LookupTask(questions=2)  # two, because one head fails there and two do not


class Trained(NamedTuple):
    """A LookupModel that was trained: its attention layer, and what it makes of examples that it was not trained on."""

    state: dict  # the layer's parameters by name
    x: torch.Tensor  # (num_tokens, width), one example embedded
    tokens: list  # the same example in words
    accuracy: torch.Tensor  # (questions,), shares of right answers


@lru_cache
@torch.no_grad()
def trained(width, num_heads):
    """One of the twelve; read when it is first asked for."""
    model = seeded(LookupModel, 0, TASK, width, num_heads)
    with np.load(FILE) as sets:
        parts = {name: sets[f"{width} wide, {num_heads} heads: {name}"] for name in model.state_dict()}
    model.load_state_dict({name: torch.from_numpy(part).float() for name, part in parts.items()})
    x, answers = TASK.batch(torch.Generator().manual_seed(2**32 - 1))  # a seed that no step of the training drew from
    accuracy = TASK.accuracy(model(x[:64]), answers[:64])  # as many as a slider's move has time for
    return Trained(model.attention.state_dict(), model.embedded(x)[0], TASK.words(x[0]), accuracy)


def switch():
    return widgets.ToggleButtons(
        options=["random", "trained"], description="weights", tooltip="As drawn, or trained for the look-up task"
    )

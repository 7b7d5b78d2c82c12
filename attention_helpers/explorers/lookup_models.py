"""What was trained for the look-up task: twelve sets of weights in data/, to show beside random ones."""

from functools import lru_cache
from typing import NamedTuple

import ipywidgets as widgets
import numpy as np
import torch

from .._data import data_file
from ..seeded import seeded
from ..training.lookup import LookUp, Reader

FILE = data_file("readers.npz")
WIDTHS, HEADS = [8, 16, 32, 64], [1, 2, 4]
TASK = LookUp(questions=2)  # two, because one head fails there and two do not


class Trained(NamedTuple):
    """A Reader that was trained: its attention layer, and what it makes of examples that it was not trained on."""

    state: dict  # the layer's parameters by name
    x: torch.Tensor  # (num_tokens, width), one example embedded
    tokens: list  # the same example in words
    score: torch.Tensor  # (questions,), shares of right answers


@lru_cache
@torch.no_grad()
def trained(width, num_heads):
    """One of the twelve; read when it is first asked for."""
    reader = seeded(Reader, 0, TASK, width, num_heads)
    with np.load(FILE) as sets:
        parts = {name: sets[f"{width} wide, {num_heads} heads: {name}"] for name in reader.state_dict()}
    reader.load_state_dict({name: torch.from_numpy(part).float() for name, part in parts.items()})
    x, answers = TASK.batch(torch.Generator().manual_seed(2**32 - 1))  # a seed that no step of the training drew from
    score = TASK.score(reader(x[:64]), answers[:64])  # as many as a slider's move has time for
    return Trained(reader.attention.state_dict(), reader.embedded(x)[0], TASK.words(x[0]), score)


def switch():
    return widgets.ToggleButtons(
        options=["random", "trained"], description="weights", tooltip="As drawn, or trained for the look-up task"
    )

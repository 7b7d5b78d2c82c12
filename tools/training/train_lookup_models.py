"""Train the models of data/lookup_models.npz, which notebooks 05 and 06 show beside random weights.

Usage: python -m tools.training.train_lookup_models [FILE]     (about a minute)

Every width with every number of heads, on the look-up task with two questions. The same command writes other last bits
on another kind of CPU; what the sets achieve is held by tests/test_lookup_models.py.
"""

import sys

import numpy as np
import torch

from attention_helpers.explorers.lookup_models import FILE, HEADS, TASK, WIDTHS
from attention_helpers.training.lookup import LookupModel
from attention_helpers.training.loop import Training

STEPS = 600


def trained_set(width, num_heads, steps):
    """The parameters of a LookupModel after so many steps, by name, in half precision."""
    torch.manual_seed(0)
    state = Training(LookupModel(TASK, width, num_heads), TASK, keep=False).run(steps).model.state_dict()
    return {f"{width} wide, {num_heads} heads: {name}": part.half().numpy() for name, part in state.items()}


def main(path=FILE, steps=STEPS):
    torch.set_num_threads(1)  # models as small as these gain nothing from a second core
    sets = [trained_set(width, num_heads, steps) for width in WIDTHS for num_heads in HEADS]
    np.savez(path, **{name: part for parts in sets for name, part in parts.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Train the models of data/lookup_models.npz, which notebooks 05 and 06 show beside random weights.

Usage: python -m tools.training.train_lookup_models [FILE]     (about a minute)

Every width with every number of heads, on the look-up task with two questions. The same command writes other last bits
on another kind of CPU; what the sets achieve is held by tests/test_lookup_models.py.
"""

import sys
from itertools import product

import numpy as np
import torch

from attention_helpers.explorers.lookup_models import FILE, HEADS, TASK, WIDTHS
from attention_helpers.training.lookup import LookupModel
from attention_helpers.training.loop import Training


def main(path=FILE, steps=600):
    torch.set_num_threads(1)  # models as small as these gain nothing from a second core
    sets = {}
    for width, num_heads in product(WIDTHS, HEADS):
        torch.manual_seed(0)
        state = Training(LookupModel(TASK, width, num_heads), TASK, keep=False).run(steps).model.state_dict()
        sets |= {f"{width} wide, {num_heads} heads: {name}": part.half().numpy() for name, part in state.items()}
    np.savez(path, **sets)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Train the models of data/lookup_models.npz, which notebooks 02, 05 and 06 show.

Usage: python -m tools.training.train_lookup_models [FILE]     (about a minute)

On one question, models of several widths, at several steps of their training; on two questions, every width with every
number of heads, at the end. Of each, the parameters are one vector. The same command writes other last bits on another
kind of CPU; what the models achieve is held by tests/test_lookup_models.py.
"""

import sys

import numpy as np
import torch
from torch.nn.utils import parameters_to_vector

from attention_course.explorers.lookup_models import FILE, SIZES, STEPS, WIDTH
from attention_helpers.seeded import seeded
from attention_helpers.training.lookup import LookupModel, LookupTask
from attention_helpers.training.loop import Training


def rows(questions, d_out, num_heads, steps):
    """The parameters (steps, parameters) after each of these steps."""
    task = LookupTask(questions)
    training = Training(seeded(LookupModel, 0, task, WIDTH, num_heads, d_out=d_out), task, keep=False)
    for step in steps:
        while training.step < step:
            training.take_step()
        yield parameters_to_vector(training.model.parameters()).detach().half().numpy()


def main(path=FILE, sizes=SIZES, steps=STEPS):
    torch.set_num_threads(1)  # models as small as these gain nothing from a second core
    sets = {}
    for questions, pairs in sizes.items():
        for d_out, num_heads in pairs:
            name = f"{questions} questions, d_out {d_out}, {num_heads} heads"
            sets[name] = np.stack([*rows(questions, d_out, num_heads, steps if questions == 1 else steps[-1:])])
    np.savez_compressed(path, **sets)


if __name__ == "__main__":
    main(*sys.argv[1:])

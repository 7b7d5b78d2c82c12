"""Train the models of data/rotary_models.npz, with which notebook 11 reads texts longer than those in training.

Usage: python -m tools.training.train_rotary_models [FILE]     (half a minute)

One has rotary positions and one has none. The same command writes other last bits on another kind of CPU; what models
from several seeds have in common is held by tests/test_lesson_11_claims.py.
"""

import sys

import numpy as np
import torch

from attention_helpers.training.loop import Training
from attention_helpers.training.rotary import BASES, FILE, RotaryModel, short_texts


def trained_model(positions, seed=0, steps=500):
    """A RotaryModel with these positions after so many steps, its parameters in half precision."""
    torch.manual_seed(seed)
    task = short_texts()
    model = RotaryModel(task, base=BASES[positions])
    return Training(model, task, learning_rate=3e-3, seed=seed, keep=False).run(steps).model.half().eval()


def main(path=FILE, **options):
    torch.set_num_threads(1)  # models as small as these gain nothing from a second core
    models = {positions: trained_model(positions, **options).state_dict() for positions in BASES}
    sets = {f"{positions}: {name}": part.numpy() for positions, of in models.items() for name, part in of.items()}
    np.savez(path, **sets)


if __name__ == "__main__":
    main(*sys.argv[1:])

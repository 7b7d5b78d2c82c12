"""Train the models of data/character_models.npz, with which notebook 08 opens: one masked, one leaky.

Usage: python -m tools.training.train_character_models [FILE]     (about 10 seconds)

The notebook trains them in the same way. On another kind of CPU this command writes other last bits; what the models
achieve is held by tests/test_training_characters.py.
"""

import sys

import numpy as np
import torch

from attention_helpers.training.characters import FILE, NAMES, CharacterModel, Characters, load_text
from attention_helpers.training.loop import Training


def main(path=FILE, steps=400):
    torch.set_num_threads(1)  # models as small as these gain nothing from a second core
    task, sets = Characters(load_text()), {}
    for name in NAMES:
        torch.manual_seed(0)
        model = CharacterModel(task, leaky=name == "leaky")
        Training(model, task, learning_rate=5e-3, keep=False).run(steps, name=name)
        sets |= {f"{name}: {part}": value.half().numpy() for part, value in model.state_dict().items()}
    np.savez(path, **sets)


if __name__ == "__main__":
    main(*sys.argv[1:])

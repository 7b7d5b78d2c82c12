"""Train the models that DropoutExplorer shows in notebook 04, and write data/overfitting.npz: their losses and maps.

Usage: python -m tools.training.train_overfitting [FILE]     (a few seconds)

The notebook trains them in the same way. Another kind of CPU ends with other last digits.
"""

import sys

import numpy as np
import torch

from attention_course.explorers.lesson_04 import FILE, RATES, SEED
from attention_helpers.training.overfitting import train


def main(path=FILE):
    torch.set_num_threads(1)  # models as small as these gain nothing from a second core
    runs = [train(p, SEED) for p in RATES]
    losses, maps = (np.float32([getattr(run, name).numpy() for run in runs]) for name in ("losses", "maps"))
    np.savez_compressed(path, losses=losses, maps=maps, always_0=np.float32(runs[0].always_0))


if __name__ == "__main__":
    main(*sys.argv[1:])

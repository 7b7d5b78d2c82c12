"""Train the model of data/writing_model.npz, with which notebook 10 writes, with a KV cache and without.

Usage: python -m tools.training.train_writing_model [FILE]     (half a minute)

The same command writes other last bits on another kind of CPU.
"""

import sys

import numpy as np
import torch

from attention_helpers.training.loop import Training
from attention_helpers.training.writing import FILE, WritingModel, task


class Logits(WritingModel):
    """A WritingModel that returns only logits, as Training expects."""

    def forward(self, token_ids):
        return super().forward(token_ids)[0]


def main(path=FILE, steps=1000):
    torch.set_num_threads(1)  # a model as small as this gains nothing from a second core
    torch.manual_seed(0)
    model = Logits(task().vocabulary)
    trained = Training(model, task(), learning_rate=5e-3, seed=0, keep=False).run(steps).model.half()
    np.savez(path, **{name: part.numpy() for name, part in trained.state_dict().items()})


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Measure what LengthExplorer shows, for all of its states: data/long_texts.npz.

Usage: python -m tools.training.measure_long_texts [FILE]     (half a minute)

The model is that of data/rotary_models.npz, and isn't trained further. A character reads only what's before it, so a
pass over the longest texts has the numbers of all lengths. Another kind of CPU ends with other last digits.
"""

import sys
from itertools import product

import numpy as np
import torch
from torch.nn import functional as F

from attention_course.explorers.lesson_11 import FILE, HEAD, LENGTHS, LONGEST, SCALINGS, SCORE, SEEN, WINDOWS, scaled
from attention_helpers.training.rotary import held_out_windows, short_texts, trained


@torch.no_grad()
def measured(rule, factor, window):
    """Means over held-out texts: losses (LONGEST,), far (lengths,), and scores (lengths, pairs, LONGEST)."""
    frequencies, multiply = scaled(rule, factor)
    model = trained().double().change(frequencies=frequencies, factor=multiply, window=window)
    texts = held_out_windows(short_texts(), LONGEST)
    losses, weights, scores = 0, 0, 0
    for few in texts.split(5):  # all at once would take hundreds of megabytes
        logits, (_, second) = model.steps(few[:, :-1])
        losses += F.cross_entropy(logits.transpose(1, 2), few[:, 1:], reduction="none").sum(dim=0) / len(texts)
        weights += second.weights[:, HEAD - 1].sum(dim=0) / len(texts)
        queries, keys = (x[:, HEAD - 1].unflatten(-1, (-1, 2)) for x in (second.queries, second.keys))
        scores += torch.einsum("bqpi,bkpi->pqk", queries, keys) * model.attention[1].scale / len(texts)
    far = [weights[length - 1, : length - SEEN].sum().item() for length in LENGTHS]
    by_distance = np.zeros((len(LENGTHS), len(scores), LONGEST))
    for at, length in enumerate(LENGTHS):
        for distance in range(min(length, window)):
            by_distance[at, :, distance] = scores[:, :length, :length].diagonal(-distance, 1, 2).mean(dim=1)
    return losses.numpy(), far, by_distance


def main(path=FILE, scalings=SCALINGS):
    torch.set_num_threads(1)  # models as small as these gain nothing from a second core
    found = [measured(*scaling, window) for scaling, window in product(scalings, WINDOWS)]
    shape = len(scalings), len(WINDOWS)
    losses, far, scores = (np.reshape(each, shape + np.shape(each[0])) for each in zip(*found, strict=True))
    whole = (SCORE * scores).round().astype(np.int16)
    np.savez_compressed(path, losses=np.float32(losses), far=np.float32(far), scores=whole)


if __name__ == "__main__":
    main(*sys.argv[1:])

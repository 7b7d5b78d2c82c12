"""Train and measure again what data/*.npz holds.

Usage: python -m tools.training.make_data NAME [FILE]     NAME: a function below, such as lookup_models

Notebooks that train do so in the same way. Another kind of CPU ends with other last digits; what the models achieve is
held by tests.
"""

import sys
from itertools import product

import numpy as np
import torch
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector

from attention_course.explorers import dropout
from attention_course.explorers import lookup_models as lookup
from attention_course.explorers.past_the_training_length import (
    FILE,
    HEAD,
    LENGTHS,
    LONGEST,
    SCALINGS,
    SCORE,
    SEEN,
    WINDOWS,
    scaled,
)
from attention_helpers.seeded import seeded
from attention_helpers.training import characters, rotary, writing
from attention_helpers.training.lookup import LookupModel, LookupTask
from attention_helpers.training.loop import Training
from attention_helpers.training.overfitting import train


def overfitting(path=dropout.FILE):
    """What DropoutExplorer shows in notebook 04: losses and maps (a few seconds)."""
    runs = [train(p, dropout.SEED) for p in dropout.RATES]
    losses, maps = (np.float32([getattr(run, name).numpy() for run in runs]) for name in ("losses", "maps"))
    np.savez_compressed(path, losses=losses, maps=maps, always_0=np.float32(runs[0].always_0))


def lookup_models(path=lookup.FILE):
    """What notebooks 02, 05 and 06 show (a minute).

    On one question, models of several widths, at several steps of their training; on two questions, every width with
    every number of heads, at the end. Of each, the parameters are one vector.
    """
    sets = {}
    for questions, pairs in lookup.SIZES.items():
        for d_out, num_heads in pairs:
            task, rows = LookupTask(questions), []
            model = seeded(LookupModel, 0, task, lookup.WIDTH, num_heads, d_out=d_out)
            training = Training(model, task, keep=False)
            for step in lookup.STEPS if questions == 1 else lookup.STEPS[-1:]:
                while training.step < step:
                    training.take_step()
                rows.append(parameters_to_vector(model.parameters()).detach().half().numpy())
            sets[f"{questions} questions, d_out {d_out}, {num_heads} heads"] = np.stack(rows)
    np.savez_compressed(path, **sets)


def character_models(path=characters.FILE):
    """The models with which notebook 08 opens: one masked, one leaky (10 seconds)."""
    task, sets = characters.Characters(characters.load_text()), {}
    for name in characters.NAMES:
        torch.manual_seed(0)
        model = characters.CharacterModel(task, leaky=name == "leaky")
        Training(model, task, learning_rate=5e-3, keep=False).run(400, name=name)
        sets |= {f"{name}: {part}": value.half().numpy() for part, value in model.state_dict().items()}
    np.savez(path, **sets)


class Logits(writing.WritingModel):
    """A WritingModel that returns only logits, as Training expects."""

    def forward(self, token_ids):
        return super().forward(token_ids)[0]


def writing_model(path=writing.FILE, steps=1000):
    """The model with which notebook 10 writes (half a minute)."""
    torch.manual_seed(0)
    model = Logits(writing.task().vocabulary)
    trained = Training(model, writing.task(), learning_rate=5e-3, seed=0, keep=False).run(steps).model.half()
    np.savez(path, **{name: part.numpy() for name, part in trained.state_dict().items()})


def rotary_model(positions, seed=0):
    """A RotaryModel with these positions after 500 steps, its parameters in half precision."""
    torch.manual_seed(seed)
    task = rotary.short_texts()
    model = rotary.RotaryModel(task, base=rotary.BASES[positions])
    return Training(model, task, learning_rate=3e-3, seed=seed, keep=False).run(500).model.half().eval()


def rotary_models(path=rotary.FILE):
    """The models with which notebook 11 reads texts longer than those in training (half a minute)."""
    models = {positions: rotary_model(positions).state_dict() for positions in rotary.BASES}
    sets = {f"{positions}: {name}": part.numpy() for positions, of in models.items() for name, part in of.items()}
    np.savez(path, **sets)


@torch.no_grad()
def measured(rule, factor, window):
    """Means over held-out texts: losses (LONGEST,), far (lengths,), and scores (lengths, pairs, LONGEST)."""
    frequencies, multiply = scaled(rule, factor)
    model = rotary.trained().double().change(frequencies=frequencies, factor=multiply, window=window)
    texts = rotary.held_out_windows(rotary.short_texts(), LONGEST)
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


def long_texts(path=FILE, scalings=SCALINGS):
    """What LengthExplorer shows, for all of its states, of a stored rotary model (half a minute).

    A character reads only what's before it, so a pass over the longest texts has the numbers of all lengths.
    """
    found = [measured(*scaling, window) for scaling, window in product(scalings, WINDOWS)]
    shape = len(scalings), len(WINDOWS)
    losses, far, scores = (np.reshape(each, shape + np.shape(each[0])) for each in zip(*found, strict=True))
    whole = (SCORE * scores).round().astype(np.int16)
    np.savez_compressed(path, losses=np.float32(losses), far=np.float32(far), scores=whole)


if __name__ == "__main__":
    torch.set_num_threads(1)  # models as small as these gain nothing from a second core
    vars()[sys.argv[1]](*sys.argv[2:])

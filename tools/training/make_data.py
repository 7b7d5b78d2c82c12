"""Train and measure again what data/ holds of models.

Usage: python -m tools.training.make_data NAME [FILE]     NAME: a function below, such as lookup_models

Notebooks that train do so in the same way. Another kind of CPU ends with other last digits; what the models achieve is
held by tests.
"""

import sys
from functools import partial
from itertools import product

import numpy as np
import torch
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector

from attention_course.build import build_layer
from attention_course.explorers import dropout
from attention_course.explorers import lookup_models as lookup
from attention_course.explorers import past_the_training_length as long
from attention_course.overfitting import train
from attention_helpers import attention_maps
from attention_helpers.modern.positions import rotate
from attention_helpers.sentences import REAL_SENTENCES, load_real_sentences
from attention_helpers.training import small_models
from attention_helpers.training.characters import CharacterModel, Characters, load_text
from attention_helpers.training.lookup import LookupModel, LookupTask
from attention_helpers.training.loop import Training
from tools.training import real_sentence as real


def overfitting(path=dropout.RUNS_FILE):
    """What DropoutExplorer shows in notebook 04: losses and maps (a few seconds)."""
    runs = [train(p, dropout.RUN_SEED) for p in dropout.RATES]
    losses, maps = (np.float32([getattr(run, name).numpy() for run in runs]) for name in ("losses", "maps"))
    np.savez_compressed(path, losses=losses, maps=maps, always_0=np.float32(runs[0].always_0))


def lookup_models(path=lookup.MODELS_FILE):
    """What notebooks 02, 05 and 06 show (a minute).

    On one question, models of several widths, at several steps of their training; on two questions, every width with
    every number of heads, at the end. Of each, the parameters are one vector.
    """
    sets = {}
    for questions, pairs in lookup.MODEL_SIZES.items():
        for d_out, num_heads in pairs:
            task, rows = LookupTask(questions), []
            model = build_layer(LookupModel, 0, task, lookup.EMBEDDING_WIDTH, num_heads, d_out)
            training = Training(model, task, keep=False)
            for step in lookup.STORED_STEPS if questions == 1 else lookup.STORED_STEPS[-1:]:
                while training.step < step:
                    training.take_step()
                rows.append(parameters_to_vector(model.parameters()).detach().half().numpy())
            sets[f"{questions} questions, d_out {d_out}, {num_heads} heads"] = np.stack(rows)
    np.savez_compressed(path, **sets)


class Logits(small_models.WritingModel):
    """A WritingModel that returns only logits, as Training expects."""

    def forward(self, token_ids):
        return super().forward(token_ids)[0]


def trained_models(path=small_models.FILE, names=None, seed=0):
    """The models that notebooks 08, 10 and 11 load (a minute).

    For tests: only some names, or another seed.
    """
    task, long_task = Characters(load_text()), Characters(load_text(), window=small_models.LONGEST, batch_size=8)
    size, sets = len(task.vocabulary), {}
    runs = {  # name: the model, its task, learning rate and steps
        "masked": (partial(CharacterModel, size, 32), task, 5e-3, 400),
        "leaky": (partial(CharacterModel, size, 32, leaky=True), task, 5e-3, 400),
        "writing": (partial(Logits, size), long_task, 5e-3, 1000),
        "rotary": (partial(small_models.RotaryModel, size), task, 3e-3, 500),
    }
    for name in names or runs:
        model, texts, learning_rate, steps = runs[name]
        torch.manual_seed(seed)
        run = Training(model(), texts, learning_rate, seed, keep=False).run(steps)
        for part, parameter in run.model.named_parameters():
            sets[f"{name}: {part}"] = parameter.detach().half().numpy()
    np.savez(path, **sets)


def pairs_of(attention, W, x):
    """HEAD's rotated queries or keys, cut into the pairs that rotate: (b, num_tokens, pairs, 2)."""
    heads = rotate(attention.split_heads(W(x)), torch.arange(x.shape[1]), attention.frequencies)
    return heads[:, long.SHOWN_HEAD - 1].unflatten(-1, (-1, 2))


@torch.no_grad()
def measure(rule, factor, window):
    """Means over held-out texts: losses (LONGEST_TEXT,), far (lengths,), and scores (lengths, pairs, LONGEST_TEXT)."""
    frequencies, multiply = long.frequencies_by(rule, factor)
    model = small_models.load("rotary").double().change(frequencies=frequencies, window=window)
    for block in model.blocks:
        block.attention.W_query.weight *= multiply**2  # in place of multiplying both queries and keys
    texts = small_models.held_out_windows(Characters(load_text()), long.LONGEST_TEXT)
    losses, weights, scores = 0, 0, 0
    attention, inputs = model.blocks[1].attention, []
    attention.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    for few in texts.split(5):  # all at once would take hundreds of megabytes
        maps = attention_maps(model, few[:, :-1])
        weights += maps[1][:, long.SHOWN_HEAD - 1].sum(dim=0) / len(texts)
        logits = model(few[:, :-1]).transpose(1, 2)
        losses += F.cross_entropy(logits, few[:, 1:], reduction="none").sum(dim=0) / len(texts)
        queries, keys = (pairs_of(attention, W, inputs[-1]) for W in (attention.W_query, attention.W_key))
        scores += torch.einsum("bqpi,bkpi->pqk", queries, keys) * attention.head_dim**-0.5 / len(texts)
    far = [weights[length - 1, : length - long.SEEN].sum().item() for length in long.READ_LENGTHS]
    by_distance = np.zeros((len(long.READ_LENGTHS), len(scores), long.LONGEST_TEXT))
    for at, length in enumerate(long.READ_LENGTHS):
        for distance in range(min(length, window)):
            by_distance[at, :, distance] = scores[:, :length, :length].diagonal(-distance, 1, 2).mean(dim=1)
    return losses.numpy(), far, by_distance


def long_texts(path=long.SCORES_FILE, scalings=long.SCALINGS):
    """What LengthExplorer shows, for all of its states, of a stored rotary model (half a minute).

    A character reads only what's before it, so a pass over the longest texts has the numbers of all lengths.
    """
    found = [measure(*scaling, window) for scaling, window in product(scalings, long.WINDOW_WIDTHS)]
    shape = len(scalings), len(long.WINDOW_WIDTHS)
    losses, far, scores = (np.reshape(each, shape + np.shape(each[0])) for each in zip(*found, strict=True))
    whole = (long.SCORE * scores).round().astype(np.int16)
    np.savez_compressed(path, losses=np.float32(losses), far=np.float32(far), scores=whole)


def real_sentence(path=REAL_SENTENCES):
    """Which nouns a head of notebook 13's model links to pronouns and verbs, and its maps of two sentences.

    The sentences, and the noun that each asks for, are read from the file itself.
    """
    stored = load_real_sentences()
    real.measure(stored)
    real.write(path, stored)


if __name__ == "__main__":
    torch.set_num_threads(1)  # models as small as these gain nothing from a second core
    vars()[sys.argv[1]](*sys.argv[2:])

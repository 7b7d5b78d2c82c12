"""Numbers after dropout, which differ between systems: do some zeros fit, if not the lessons' own?"""

import itertools

import torch

from attention_helpers import max_difference
from attention_helpers.state import keep_state

from .numbers import Place, close
from .recipes import chapters_recipes, mistaken
from .tables import Table, computed

RATES = 0.5, 0.1, 0.2
OTHERWISE = "after dropout of {} with other zeros than in the lessons, as another system or an earlier draw gives them"


def dropped_otherwise(given):
    """The places whose numbers, some of them dropped and the others divided by 1 - p, are those that were given."""
    if len({len(row) for row in given.rows}) > 1:
        return []
    rows = torch.tensor(given.rows, dtype=torch.float64)
    if set(given.flat) == {0.0, 2.0}:
        words = "after dropout of 0.5, whose zeros depend on seed and system"
        return [Place(Table("matrix of ones", None, words), 0, len(rows))]
    return [*dropped_weights(rows, given.near), *contexts_of_dropped(rows, given.near)]


def dropped_weights(rows, near):
    """The places of tables of weights."""
    if rows.shape[1] != 6 or not (rows == 0).any() or (rows != 0).sum() < 3:
        return
    index = computed(1)
    numbers = index.stack(6).numbers
    for start, (table, row, count) in enumerate(index.stack(6).where.tolist()):
        name = index.tables[6][table][0]
        if row + len(rows) > count or not name.step.startswith(("weights", "causal weights")):
            continue
        weights = numbers[start : start + len(rows)]
        for p in RATES:
            if ((rows == 0) | close(rows * (1 - p), weights, near)).all():
                yield Place(name._replace(words=OTHERWISE.format(p)), row, count)


def contexts_of_dropped(rows, near):
    """The places of context vectors of a causal layer: each row averages some of the values that it can read."""
    base = next(recipe for recipe in chapters_recipes() if recipe.layer == "CausalAttention")
    kept = torch.tensor([*itertools.product((0.0, 1.0), repeat=6)], dtype=torch.float64)
    for recipe, p in itertools.product((base, *mistaken(base)), RATES):
        with keep_state(None):
            steps = recipe.tables()
        weights = steps["weights"][0].double()
        values = steps["values"][0].double()
        unlike = max_difference(weights @ values, steps["context vectors"][0]) > 1e-5
        if unlike or values.shape[1] != rows.shape[1]:
            continue
        # (6, 64, d_out): for each token, what it gets if only some keys are kept
        contexts = torch.einsum("qk,mk,kd->qmd", weights, kept, values) / (1 - p)
        for first in range(6 if len(rows) < 12 else 1):
            tokens = torch.arange(first, first + len(rows)) % 6
            if close(contexts[tokens], rows[:, None], near).all(dim=-1).any(dim=-1).all():
                words = f"in training, {OTHERWISE.format(p)}"
                yield Place(Table("context vectors", recipe, words), first, len(rows))

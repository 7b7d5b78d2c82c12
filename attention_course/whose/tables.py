"""Every table that `whose` knows: those that lessons print, and those that it computes."""

import json
from functools import cache
from typing import NamedTuple

import torch

from attention_helpers._data import data_file
from attention_helpers.state import keep_state

from .numbers import Index
from .recipes import Recipe, one_step_away, two_steps_away
from .steps import masked_by_hand, tables_without_matrices

ROUNDED = 6e-5  # how far a number with four decimals can be off
FROM_PRINTED = 3e-4  # how far what follows from printed scores can be off: their rounding, doubled by dropout


class Table(NamedTuple):
    """A computed table: the step that makes it, the recipe of its layer (None without one), and what's unusual."""

    step: str
    recipe: Recipe | None
    words: str = ""
    wrong: bool = False

    @property
    def effort(self):
        return self.recipe.effort if self.recipe else self.wrong


@cache
def figures():
    """The figures of data/published.json, by id."""
    text = data_file("published.json").read_text(encoding="utf-8")
    return {figure["id"]: figure for figure in json.loads(text)["figures"]}


def as_tensors(expected):
    """The tables of a figure: one, or several by name, or none where it's a word."""
    if isinstance(expected, str):
        return []
    tables = expected.values() if isinstance(expected, dict) else [expected]
    return [torch.tensor(with_infinity(table), dtype=torch.float64) for table in tables]


def with_infinity(table):
    """Nested lists of numbers, in which "-inf" is one."""
    return [with_infinity(part) for part in table] if isinstance(table, list) else float(table)


class Printed(NamedTuple):
    """A figure, or the columns of one of its two heads."""

    figure: dict
    head: str = ""

    @property
    def title(self):
        return f"{self.head}{self.figure['title']}"


@cache
def published():
    """An Index of what lessons print, as Printed."""
    index = Index()
    for figure in figures().values():
        for numbers in as_tensors(figure["expected"]):
            index.add(Printed(figure), numbers, ROUNDED)
            if numbers.shape[-1:] == (4,) and "leaky" in figure["id"]:  # two heads side by side
                index.add(Printed(figure, "the left half of "), numbers[..., :2], ROUNDED)
                index.add(Printed(figure, "the right half of "), numbers[..., 2:], ROUNDED)
    return index


@cache
def computed(steps):
    """An Index of Tables: those at most one step from the chapter's way, or those two steps away."""
    index = Index()
    for table, numbers in known_tables(steps).values():
        index.add(table, numbers, FROM_PRINTED if table.recipe is None else 0.0)
    return index


@cache
def known_tables(steps):
    """(Table, its numbers) by class, mistake and numbers: what comes out in several ways has the shortest."""
    with keep_state(None), torch.no_grad():
        tables = tables_of(one_step_away() if steps == 1 else two_steps_away())
        tables += tables_by_hand()
    found = {} if steps == 1 else dict(known_tables(1))
    for table, numbers in sorted(tables, key=lambda pair: pair[0].effort):
        digits = numbers.double().mul(1e5).round().numpy().tobytes()
        kind = (table.recipe.layer, table.recipe.mistake) if table.recipe else None
        found.setdefault((kind, numbers.shape, digits), (table, numbers))
    return found


def tables_of(recipes):
    """(Table, its numbers) for each step of each recipe."""
    return [(Table(step, recipe), numbers) for recipe in recipes for step, numbers in recipe.tables().items()]


def tables_by_hand():
    """(Table, its numbers) for section 3.3, and for what follows from printed scores of a layer without a seed."""
    for step, numbers, words in tables_without_matrices():
        yield Table(step, None, f"of section 3.3{', ' * bool(words)}{words}", bool(words)), numbers
    [scores] = as_tensors(figures()["unseeded_scores"]["expected"])
    steps = {"scores": scores, "weights": torch.softmax(scores / 2**0.5, dim=-1)}
    for step, numbers in (steps | masked_by_hand(steps)).items():
        yield Table(step, None, "that follow from the scores that a lesson prints of a layer without a seed"), numbers

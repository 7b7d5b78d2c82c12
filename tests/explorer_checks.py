"""What each explorer must show in any state: a check for each, and the states in which it is made."""

import random
import re
from contextlib import contextmanager

import explorer_checks_01_06 as first
import explorer_checks_07_14 as later
import explorer_checks_planes as planes
import torch
from explorer_page import SVG, tree_of
from made import settings_of

from attention_course.explorers.words import plain

CHECKS = vars(first) | vars(later) | vars(planes)


def draw_states(explorer, count):
    """Random states that spread over each control's range; some ask for what others then make impossible."""
    chance = random.Random(0)
    places = {name: chance.sample(range(count), count) for name in explorer.controls}
    for n in range(count):
        lists = {name: settings_of(control) for name, control in explorer.controls.items()}
        yield {name: values[places[name][n] * len(values) // count] for name, values in lists.items()}


@contextmanager
def naming(explorer, state):
    """Add the explorer and its state to a failure's message."""
    try:
        yield
    except BaseException as error:  # pytest's own failures aren't Exceptions
        error.add_note(f"{type(explorer).__name__} in the state {state}")
        raise


def check(explorer):
    """Check what an explorer shows against its layer, and its picture against the common format."""
    name = type(explorer).__name__.removesuffix("Explorer").lower()
    with naming(explorer, explorer.values), torch.random.fork_rng(devices=[]):
        CHECKS[f"check_{name}"](explorer, **explorer.values)
        root = tree_of(explorer)
        assert root.get("role") == "img"
        assert root.get("aria-label") == explorer.alt
        assert explorer.alt.startswith(plain(explorer.said).rstrip("."))
        assert "nan" not in re.sub('base64,[^"]*', "", explorer.svg + explorer.readout).lower()
        return [part.get("viewBox") for part in root.iter(f"{SVG}svg")]

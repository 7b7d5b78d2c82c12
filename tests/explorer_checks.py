"""What each explorer must show in any state: a check for each, and the states in which it is made."""

import itertools
import random
import re
from contextlib import contextmanager

import explorer_checks_01_06 as first
import explorer_checks_07_14 as later
import explorer_checks_planes as planes
import numpy as np
import torch
from explorer_page import SVG, tree_of
from made import settings_of

from attention_course import explorers
from attention_course.explorers.words import plain

CHECKS = {
    "ScoresExplorer": first.check_scores,
    "QKVExplorer": first.check_qkv,
    "KeyWidthExplorer": planes.check_key_width,
    "ScalingExplorer": first.check_scaling,
    "MaskExplorer": first.check_mask,
    "DropoutExplorer": first.check_dropout,
    "WrapperExplorer": planes.check_stack,
    "SplitExplorer": planes.check_split,
    "LayerExplorer": first.check_layer,
    "Playground": later.check_playground,
    "LearningExplorer": later.check_learning,
    "TextExplorer": later.check_text,
    "CostExplorer": later.check_cost,
    "CacheExplorer": later.check_cache,
    "LengthExplorer": later.check_length,
    "ModelsExplorer": later.check_models,
    "ReadingExplorer": later.check_reading,
    "SuspectsExplorer": later.check_suspects,
    "MachinesExplorer": later.check_machines,
}


def states(explorer, name, most):
    """The complete grid of control values, or `most` random states that cover each control's range."""
    lists = {name: settings_of(control) for name, control in explorer.controls.items()}
    if np.prod([len(values) for values in lists.values()]) <= most:
        rows = itertools.product(*lists.values())
    else:
        chance = random.Random(0)
        columns = [
            [values[n * max(len(values), most) // most % len(values)] for n in range(most)] for values in lists.values()
        ]
        for column in columns:
            chance.shuffle(column)
        rows = zip(*columns, strict=True)
    return [legal(name, dict(zip(lists, row, strict=True))) for row in rows]


def legal(name, state):
    """Give controls that depend on others a value that fits."""
    if name in ("WrapperExplorer", "SplitExplorer"):
        offered = dict(getattr(explorers, name).offered[state["weights"]])
        if name == "SplitExplorer":
            state["d_out"] = offered["d_out"][state["seed"] % len(offered["d_out"])]
            offered["num_heads"] = [heads for heads in offered["num_heads"] if state["d_out"] % heads == 0]
            del offered["d_out"]
        state |= {control: [*options][state["seed"] // 7 % len(options)] for control, options in offered.items()}
    elif name == "LayerExplorer":
        options = [n for n in range(1, 9) if state["d_out"] % n == 0]
        state["num_heads"] = options[state["seed"] % len(options)]
    elif name == "Playground":
        state["num_heads"] = min(state["num_heads"], state["d_out"])
    elif name == "CostExplorer":
        fits = [n for n in range(1, 65) if state["width"] % n == 0]
        state["num_heads"] = max(n for n in fits if n <= state["num_heads"])
    elif name == "MachinesExplorer":
        state["num_kv_heads"] = min(state["num_kv_heads"], state["num_heads"])
    elif name == "ModelsExplorer" and state["model"] == "GPT-2 124M":
        state["num_tokens"] = 1024
    elif name == "TextExplorer":
        state["back"] %= min(len(state["text"]), 32)
    elif name == "ReadingExplorer":
        state["token"] %= len(state["text"])  # the tests' small model has a token for each character
    return state


def impossible(name, state):
    """The error's message, if there is one."""
    return "x can have" if name == "LayerExplorer" and state["context_length"] < 6 else ""


@contextmanager
def naming(name, state):
    """Add the explorer and its state to a failure's message."""
    try:
        yield
    except BaseException as error:  # pytest's own failures aren't Exceptions
        error.add_note(f"{name} in the state {state}")
        raise


def check(explorer, name):
    """Check what an explorer shows against its layer, and its picture against the common format."""
    with naming(name, explorer.values), torch.random.fork_rng(devices=[]):
        CHECKS[name](explorer, **explorer.values)
        root = tree_of(explorer)
        assert root.get("role") == "img"
        assert root.get("aria-label") == explorer.alt
        assert explorer.alt.startswith(plain(explorer.said).rstrip("."))
        assert "nan" not in re.sub('base64,[^"]*', "", explorer.svg + explorer.readout).lower()
        return [part.get("viewBox") for part in root.iter(f"{SVG}svg")]

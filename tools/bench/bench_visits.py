"""What `make bench` runs inside a kernel: every control of every explorer, each value visited for the first time."""

import sys
import time

import numpy as np
import torch

from attention_helpers import explorers

from .bench import NO_LIMIT
from .bench_moves import LARGE
from .made import make, settings_of

MOST = 40  # values of a control that are visited, spread evenly
RUNS = 7  # new explorers of a class
STARTS = {  # an explorer and what is set before a control is moved
    **{name: (name, {}) for name in explorers.__all__},
    "MaskExplorer": ("MaskExplorer", {"poked": 0}),  # the one token that is there for any number of them
    "SplitExplorer 12x64": ("SplitExplorer", LARGE),
    "SplitExplorer trained": ("SplitExplorer", {"weights": "trained"}),
    NO_LIMIT: ("SplitExplorer", LARGE | {"num_tokens": 16}),
}
PARTS = {"compute": "computed", "picture": "picture", "in_words": "picture", "readouts": "picture"}


def visit_times():
    """Lists of pairs of milliseconds, on the clock and on the processor, by name.

    "SplitExplorer new": a new explorer. "SplitExplorer seed, computed": a first visit's share for the arrays; "...,
    picture": its share for picture, words and readouts; "..., together": all of the move, with what the page is sent.
    """
    torch.set_num_threads(1)
    times = {}
    for name in explorers.__all__:
        make(name)  # not counted: it imports what is not there yet
        times[f"{name} new"] = [new(name) for _ in range(RUNS)]
    for start, (name, values) in STARTS.items():
        for control in ("dropout", "seed") if start == NO_LIMIT else make(name).controls:
            visits = first_visits(name, values, control)
            for part in visits[0]:
                times[f"{start} {control}, {part}"] = [visit[part].tolist() for visit in visits]
    return times


def new(name):
    forget()
    start = now()
    make(name)
    return (now() - start).tolist()


def first_visits(name, values, control):
    """The parts' times at each value of a control, but for the first state's own."""
    forget()
    explorer, spent, visits = make(name), {}, []
    explorer.set(**values)
    for method, part in PARTS.items():
        setattr(explorer, method, watched(getattr(explorer, method), part, spent))
    options = [value for value in settings_of(explorer.controls[control]) if value != explorer.values[control]]
    for value in options[:: -(-len(options) // MOST)]:
        spent.update(computed=0, picture=0)
        start = now()
        try:
            explorer.set(**{control: value})
        except ValueError:  # a learner's class may refuse what the controls allow; there is no picture of that
            continue
        visits.append({**spent, "together": now() - start})
    return visits


def watched(method, part, spent):
    """The method, which adds its times to those of its part."""

    def call(*given, **named):
        start = now()
        try:
            return method(*given, **named)
        finally:
            spent[part] = spent[part] + now() - start

    return call


def forget():
    """Empty what explorers keep for all of their kind."""
    for module in [module for path, module in sys.modules.items() if path.startswith(explorers.__name__)]:
        for kept in vars(module).values():
            if hasattr(kept, "cache_clear"):
                kept.cache_clear()


def now():
    """Milliseconds: on the clock, and those of the processor, which other work does not slow as much."""
    return 1000 * np.array([time.perf_counter(), time.thread_time()])

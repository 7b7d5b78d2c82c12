"""Time every explorer without a browser: a new one, and each control's values visited for the first time.

    python -m tools.bench.explorers [NAME ...]       (make bench ARGS=QKVExplorer)

Each row: the median and the most, in milliseconds of the CPU's time on one thread.
"""

import statistics
import sys
import time
from contextlib import suppress

import torch

from attention_course import explorers
from tools.bench.made import make, settings_of

NEW, MOST = 7, 40  # explorers made of a class; values of a control visited


def milliseconds(call):
    start = time.process_time()  # other work on the machine hardly moves it
    call()
    return 1000 * (time.process_time() - start)


def forget():
    """Empty what explorers keep for all of their kind, so that visits are first ones."""
    for module in [module for path, module in sys.modules.items() if path.startswith(explorers.__name__)]:
        for kept in vars(module).values():
            if hasattr(kept, "cache_clear"):
                kept.cache_clear()


def new(name):
    forget()
    return milliseconds(lambda: make(name))


def visits(name, control):
    """What each move of a control takes, its values spread evenly."""
    forget()
    explorer = make(name)
    values = [value for value in settings_of(explorer.controls[control]) if value != explorer.values[control]]
    for value in values[:: len(values) // MOST + 1]:
        with suppress(ValueError):  # a learner's class may refuse what the controls allow
            yield milliseconds(lambda value=value: explorer.set(**{control: value}))


def main(names):
    torch.set_num_threads(1)
    for name in names or explorers.__all__:
        made = make(name)  # not timed, because it imports what isn't there yet
        rows = {"new": [new(name) for _ in range(NEW)]}
        rows |= {control: list(visits(name, control)) for control in made.controls}
        for row, times in rows.items():
            median, most = statistics.median(times or [0]), max(times, default=0)
            print(f"{name:20} {row:20} {median:8.2f} {most:8.2f} ms, {len(times)} times")


if __name__ == "__main__":
    main(sys.argv[1:])

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


def milliseconds(call):
    start = time.process_time()  # other work on the machine hardly moves it
    call()
    return 1000 * (time.process_time() - start)


def visits(explorer, control):
    """What each move of a control takes, of at most 40 values."""
    values = settings_of(explorer.controls[control])
    for value in values[:: len(values) // 40 + 1]:
        with suppress(ValueError):  # a learner's class may refuse what the controls allow
            yield milliseconds(lambda: explorer.set(**{control: value}))  # noqa: B023


def main(names):
    torch.set_num_threads(1)
    for name in names or explorers.__all__:
        explorer = make(name)  # not timed, because it imports what isn't there yet
        rows = {"new": [milliseconds(lambda: make(name)) for _ in range(7)]}  # noqa: B023
        rows |= {control: list(visits(explorer, control)) for control in explorer.controls}
        for row, times in rows.items():
            print(f"{name:20} {row:20} {statistics.median(times):8.2f} {max(times):8.2f} ms, {len(times)} times")


if __name__ == "__main__":
    main(sys.argv[1:])

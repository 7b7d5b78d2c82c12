"""Time every explorer in a kernel, without a browser: a new one, and each control's values visited for the first time.

    python -m tools.bench.explorers [NAME ...]       (make bench ARGS="explorers QKVExplorer --most 5")

To compare two versions, measure each with this file, and look at the difference:

    python -m tools.bench.explorers --json after.json
    python -m tools.bench.explorers --json before.json --package ../another_checkout
    diff before.json after.json

All numbers are medians in milliseconds. computed: the arrays; picture: the picture, its words and readouts; together:
the move up to the last message that the kernel sends; processor: what the kernel's thread worked in that time, which
other work on the machine slows less.
"""

import argparse
import ast
import inspect
import json
import os
import statistics
import sys
import time
from pathlib import Path

import torch
from jupyter_client.manager import start_new_kernel

from attention_helpers import explorers
from tools.bench.made import make, settings_of

ROOT = Path(__file__).resolve().parents[2]
LARGE = {"d_out": 48, "num_heads": 12, "num_tokens": 64}  # 12 heads of 64 x 64
STARTS = {  # what is set before a control moves; the first word is the explorer's name
    **{name: {} for name in explorers.__all__},
    "MaskExplorer": {"poked": 0},  # the one token that is there for any number of them
    "SplitExplorer 12x64": LARGE,
    "SplitExplorer trained": {"weights": "trained"},
}
PARTS = {"compute": "computed", **dict.fromkeys(("picture", "headline", "in_words", "readouts"), "picture")}
COLUMNS = ("moves", "computed", "picture", "together", "processor")
IN_KERNEL = """import json, runpy, sys
sys.path.insert(0, {package!r})
found = json.dumps(runpy.run_path({file!r})["measured"](*{arguments!r}))"""


def measured(names=(), most=40, runs=7):
    """A row for each new explorer, and for each of its controls: {"QKVExplorer seed": {"moves": 40, …}}.

    names: of explorers, all if there is none; most: how many values of a control are visited; runs: of new ones.
    """
    torch.set_num_threads(1)
    rows = {}
    for name in [name for name in explorers.__all__ if name in names or not names]:
        make(name)  # not counted, because it imports what isn't there yet
        rows[f"{name} new"] = row([new(name) for _ in range(runs)])
        for start in [start for start in STARTS if start.split()[0] == name]:
            for control in make(name).controls:
                rows[f"{start} {control}"] = row(first_visits(start, control, most))
    return rows


def row(moves):
    """The medians of moves, each a dictionary of milliseconds."""
    medians = {part: round(statistics.median(move[part] for move in moves), 2) for part in moves[0]} if moves else {}
    return {"moves": len(moves)} | medians


def moved(move):
    """The milliseconds of a call, all in all and on the processor."""
    clock, processor = time.perf_counter(), time.thread_time()
    move()
    return {"together": 1000 * (time.perf_counter() - clock), "processor": 1000 * (time.thread_time() - processor)}


def new(name):
    forget()
    return moved(lambda: make(name))


def started(start):
    """A new explorer as STARTS has it; what others of its kind computed is forgotten."""
    forget()
    explorer = make(start.split()[0])
    explorer.set(**STARTS[start])
    return explorer


def values_to_visit(explorer, control, most):
    """At most so many values of a control, spread evenly, without the one where it is."""
    values = [value for value in settings_of(explorer.controls[control]) if value != explorer.values[control]]
    return values[:: -(-len(values) // most)] if values else []


def first_visits(start, control, most):
    """What each move of a control to a new value takes, in its parts."""
    explorer, spent, visits = started(start), {}, []
    for method, part in [pair for pair in PARTS.items() if hasattr(explorer, pair[0])]:  # an older one has no headline
        setattr(explorer, method, watched(getattr(explorer, method), part, spent))
    for value in values_to_visit(explorer, control, most):
        spent.update(computed=0, picture=0)
        try:
            taken = moved(lambda value=value: explorer.set(**{control: value}))
        except ValueError:  # a learner's class may refuse what the controls allow; there is no picture of that
            continue
        visits.append(spent | taken)
    return visits


def watched(method, part, spent):
    """The method; it adds the milliseconds of each call to its part."""

    def call(*given, **named):
        clock = time.perf_counter()
        result = method(*given, **named)
        spent[part] += 1000 * (time.perf_counter() - clock)
        return result

    return call


def forget():
    """Empty what explorers keep for all of their kind, so that visits are first ones."""
    for module in [module for path, module in sys.modules.items() if path.startswith(explorers.__name__)]:
        for kept in vars(module).values():
            if hasattr(kept, "cache_clear"):
                kept.cache_clear()


def from_kernel(package, *arguments):
    """What measured(*arguments) returns in a kernel of its own, of the attention_helpers in the folder `package`."""
    manager, client = start_new_kernel(
        extra_arguments=["--log-level=ERROR"], cwd=package, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    try:
        code = IN_KERNEL.format(package=str(package), file=inspect.getfile(from_kernel), arguments=arguments)
        reply = client.execute_interactive(code, user_expressions={"found": "found"}, output_hook=lambda message: None)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    if reply["content"]["status"] != "ok":
        sys.exit("\n".join(reply["content"]["traceback"]))
    return json.loads(ast.literal_eval(reply["content"]["user_expressions"]["found"]["data"]["text/plain"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="which explorers (default: all)")
    parser.add_argument("--most", type=int, default=40, help="values of a control that are visited (default 40)")
    parser.add_argument("--runs", type=int, default=7, help="new explorers of a class (default 7)")
    parser.add_argument("--package", type=Path, default=ROOT, help="measure the checkout in this folder")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well, one a line")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(explorers.__all__):
        parser.error(f"no explorer is called {', '.join(sorted(unknown))}; there are {', '.join(explorers.__all__)}")
    rows = from_kernel(chosen.package.resolve(), chosen.names, chosen.most, chosen.runs)
    print(f"{'medians, ms':40}", *(f"{column:>9}" for column in COLUMNS))
    for name, numbers in rows.items():
        print(f"{name:40}", *(f"{numbers.get(column, ''):>9}" for column in COLUMNS))
    if chosen.json:
        lines = (f"{json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in rows.items())
        chosen.json.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""How long `make test` takes, against a floor: strict nbval over as many notebooks that only `import torch`.

Notebook 07 is left out on both sides: it trains models, and has a limit of its own.

Usage: python -m tools.bench.measure_suite [RUNS]      Everything in one run, in turns, medians; ratios are what counts.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Not for the inner make: what the outer one was told; and where the last is set, Python compiles all at each run.
KEPT_BACK = {"MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "ARGS", "NOTEBOOKS", "PYTHONDONTWRITEBYTECODE"}
WHAT = {
    "floor": ["test-notebooks", "NOTEBOOKS={floor}"],
    "notebooks": ["test-notebooks", "NOTEBOOKS={suite}"],
    "unit tests": ["test-unit"],
    "make test": ["test", "NOTEBOOKS={suite}"],
}


def make_floor(folder, count):
    """Notebooks that only import torch, as refresh would store them."""
    import nbformat  # here, because it costs a second

    for n in range(count):
        cell = nbformat.v4.new_code_cell("import torch", execution_count=1, id="cell-00")
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), folder / f"{n:02d}_floor.ipynb")


def seconds(*command):
    """Wall time of one make call."""
    environment = {name: value for name, value in os.environ.items() if name not in KEPT_BACK}
    start = time.perf_counter()
    done = subprocess.run(["make", *command], cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout[-3000:] + done.stderr[-1000:])
    return time.perf_counter() - start


def measure(runs, names=tuple(WHAT)):
    """Seconds of each run by name (see WHAT), taken in turns."""
    times = {name: [] for name in names}
    paths = [path.relative_to(ROOT) for path in sorted((ROOT / "notebooks").rglob("[0-9]*.ipynb"))]
    suite = [path.as_posix() for path in paths if not path.name.startswith("07") and "checkpoint" not in path.name]
    with tempfile.TemporaryDirectory() as folder:
        make_floor(Path(folder), len(suite))
        for _ in range(runs):
            for name in names:
                times[name].append(seconds(*(word.format(floor=folder, suite=" ".join(suite)) for word in WHAT[name])))
    return times


def main(runs):
    """Print medians, ratios to the floor, and each run."""
    times = measure(runs)
    floor = statistics.median(times["floor"])
    for name, taken in times.items():
        median = statistics.median(taken)
        print(
            f"{name:11} {median:6.1f} s  {median / floor:5.2f} x floor  (each: {', '.join(f'{t:.1f}' for t in taken)})"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)

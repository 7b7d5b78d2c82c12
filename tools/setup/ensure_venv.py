"""Bring .venv to what the requirement files say; if it's there already, that takes milliseconds.

    python tools/setup/ensure_venv.py venv       only .venv with pip, to install a torch build of your own first
    python tools/setup/ensure_venv.py lab        what a learner needs: requirements.txt, requirements-model.txt
    python tools/setup/ensure_venv.py test       and requirements-dev.txt
    python tools/setup/ensure_venv.py site       and docs/requirements.txt, for the reading site
    python tools/setup/ensure_venv.py classroom  test's and classroom/requirements.txt, for a hub and marks

Python 3.6 can read this file too, so that it can say that it's too old.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

OLDEST, NEWEST = (3, 11), (3, 14)  # the Pythons that every pin has a wheel for; torch has the fewest
RUNNING = "{}.{}".format(*sys.version_info)

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
WINDOWS = os.name == "nt"
PYTHON = VENV / ("Scripts/python.exe" if WINDOWS else "bin/python")
# How to come back here, and with another Python; there's no make on Windows.
AGAIN = "py -3.12 tools/setup/ensure_venv.py {}" if WINDOWS else "make {} (add PYTHON=python3.12 for another Python)"

LEVELS = {"venv": [], "lab": ["requirements.txt"], "test": ["requirements.txt", "requirements-dev.txt"]}
LEVELS["site"] = LEVELS["test"] + ["docs/requirements.txt"]
LEVELS["classroom"] = LEVELS["test"] + ["classroom/requirements.txt"]
ALONE = "requirements-model.txt"  # for all but venv, without its packages' own requirements: a pip call of its own
INPUTS = [*sorted({name for files in LEVELS.values() for name in files}), ALONE, "constraints.txt", "pyproject.toml"]
STAMP = VENV / ".ready"  # the fingerprint of what was last installed completely
IN_VENV = ROOT / "tools/setup/venv_files"  # what .venv gets besides packages: settings of Lab and of its kernels

# .venv's own folder for packages: a pip that's found may be the system's, in a .venv that sees its packages.
PROBE = "import sys, sysconfig; print('%d.%d' % sys.version_info[:2]); print(sysconfig.get_path('purelib'))"
# A user's settings that decide where pip installs, whether and what, and if one can read why it can't.
MISLEADING = "PYTHON|PIP_(TARGET|PREFIX|ROOT|USER|PYTHON|DRY_RUN|NO_DEPS|IGNORE_INSTALLED|QUIET|LOG)$"


def check_start():
    """Raise OSError under a Python without wheels, and at a .venv that isn't ours, because making it empties it."""
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        needed = "the course needs a Python from {}.{} to {}.{}".format(*OLDEST, *NEWEST)
        raise OSError(f"{needed}, and {sys.executable} is Python {RUNNING}")
    if os.path.lexists(str(VENV)) and (VENV.is_symlink() or not (VENV / "pyvenv.cfg").is_file()):
        raise OSError(f"{VENV} is a link, a file or a folder, but no virtual environment. Rename or remove it yourself")


def run(command, lock):
    """Return a program's exit status. It holds the lock even if we're killed, and installs nowhere but in .venv."""
    env = {name: value for name, value in os.environ.items() if not re.match(MISLEADING, name)}
    return subprocess.call(command, cwd=str(ROOT), env=env, pass_fds=lock)


def probe():
    """Return .venv's site-packages, or None if it doesn't work or has another Python than the one that asks."""
    try:
        # A .pth file in site-packages may print something before, or warn on stderr.
        answer = subprocess.check_output([str(PYTHON), "-I", "-c", PROBE], stderr=subprocess.DEVNULL)
        version, packages = os.fsdecode(answer).splitlines()[-2:]
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None
    # RECORD is the last file that an installation writes: without it, pip itself is only half there.
    return Path(packages) if version == RUNNING and list(Path(packages).glob("pip-*.dist-info/RECORD")) else None


def make_venv(lock):
    """Make .venv, and return its site-packages."""
    if find_spec("ensurepip") is None:  # as in Debian's and Ubuntu's own Python
        debian = f"on Debian and Ubuntu: sudo apt install python{RUNNING}-venv"
        raise OSError(f"{sys.executable} lacks the module ensurepip. Install it ({debian})")
    again = " again, since it has another Python or doesn't work" if VENV.exists() else ""
    print(f"Making .venv with Python {RUNNING}{again}.", flush=True)
    if run([sys.executable, "-I", "-m", "venv", "--clear", str(VENV)], lock) or not probe():
        raise OSError("no .venv works in this folder, for the reason printed above. Move the course elsewhere")
    return probe()


def fingerprint(level):
    """Hash what decides on an installation, and ROOT, which "-e ." notes. For another Python, .venv is made again."""
    digest = hashlib.sha256(os.fsencode("\n".join([str(ROOT), *LEVELS[level]])))
    for path in [ROOT / name for name in INPUTS] + sorted(filter(Path.is_file, IN_VENV.rglob("*"))):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def is_ready(level):
    """Whether a working .venv has this level, or one that includes it."""
    enough = [name for name in LEVELS if set(LEVELS[level]) <= set(LEVELS[name])]
    return level == "venv" or (STAMP.exists() and STAMP.read_text() in map(fingerprint, enough))


def remove_torn_packages(packages):
    """Remove what a killed pip leaves: it would take a package without RECORD for a complete one."""
    torn = [info for info in packages.glob("*.dist-info") if not (info / "RECORD").exists()] + list(packages.glob("~*"))
    for path in torn:
        shutil.rmtree(str(path)) if path.is_dir() else path.unlink()


def missing(files, packages):
    """Return the names in requirement files that aren't installed in this folder, wherever else they are."""
    from importlib.metadata import Distribution  # here, because Python 3.6 lacks it

    text = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in files)
    names = ["attention_helpers", *re.findall(r"^\w[\w.-]*", text, flags=re.M)]
    return [name for name in names if not any(Distribution.discover(name=name, path=[str(packages)]))]


def install(level, packages, lock):
    files, wanted = [*LEVELS[level], ALONE], fingerprint(level)
    STAMP.unlink(missing_ok=True)  # from here on .venv is neither what it was nor what it will be
    remove_torn_packages(packages)
    print(f"Installing {', '.join(files)} into .venv: a minute or two, more if torch must be downloaded.", flush=True)
    # Isolated, because pip takes a package on PYTHONPATH for an installed one.
    pip = [str(PYTHON), "-I", "-m", "pip", "install", "--disable-pip-version-check"]
    pinned = ["-c", "constraints.txt"] + [f"--requirement={name}" for name in LEVELS[level]]
    failed = run(pip + pinned, lock)
    for path in packages.glob("*attention_helpers.pth"):  # of "-e .": under LC_ALL=C, Python 3.11 can't read an ö in it
        path.write_text(os.path.relpath(str(ROOT), str(packages)))
    if failed or run([*pip, "--no-deps", f"--requirement={ALONE}"], lock):
        machine = f"torch is made for the systems that README.md names, and this is {platform.platform()}"
        raise OSError(f"pip failed, for the reason printed above ({machine} {platform.machine()})")
    elsewhere = ", ".join(missing(files, packages))
    if elsewhere:
        raise OSError(f"pip put {elsewhere} elsewhere. Find the setting with {PYTHON} -m pip config list and remove it")
    shutil.copytree(str(IN_VENV), str(VENV), dirs_exist_ok=True)
    STAMP.write_text(wanted)  # last, so that an interrupted installation has none


@contextmanager
def locked():
    """Let one terminal at a time install; yield what the programs that it starts must hold too, for `run`."""
    with open(str(ROOT / "requirements.txt")) as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another make is installing into .venv: waiting for it.", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        except (ImportError, OSError):  # Windows and some network folders have no such locks: go on without
            pass
        yield () if WINDOWS else (file.fileno(),)


def ensure(level):
    check_start()
    if probe() and is_ready(level):
        return
    with locked() as lock:
        packages = probe() or make_venv(lock)  # asked again: whoever held the lock may have done the work
        if not is_ready(level):
            install(level, packages, lock)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in LEVELS:
        sys.exit("usage: python tools/setup/ensure_venv.py " + "|".join(LEVELS))
    try:
        ensure(sys.argv[1])
    except (KeyboardInterrupt, OSError) as error:
        then = f"Then call again: {AGAIN}".format(sys.argv[1])
        sys.exit(f"Cannot bring .venv up to date: {str(error) or 'interrupted'}. {then}.")

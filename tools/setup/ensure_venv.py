"""Bring .venv to what the requirement files say, at the cost of milliseconds when it is there already.

    python tools/setup/ensure_venv.py venv    only .venv with pip, to install a torch build of your own first
    python tools/setup/ensure_venv.py lab     what a learner needs: requirements.txt
    python tools/setup/ensure_venv.py test    and requirements-dev.txt

The grammar is Python 2.7's, so that an old Python reads the file and can say that it is too old.
"""
# ruff: noqa: UP031, RUF005

import glob
import hashlib
import os
import shutil
import subprocess
import sys

OLDEST = (3, 11)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "Scripts", "python.exe") if os.name == "nt" else os.path.join(VENV, "bin", "python")

LEVELS = {"venv": [], "lab": ["requirements.txt"], "test": ["requirements.txt", "requirements-dev.txt"]}
INPUTS = ["requirements.txt", "requirements-dev.txt", "constraints.txt", "pyproject.toml"]

PROBE = "import os, pip, sys; print('%d.%d' % sys.version_info[:2]); print(os.path.dirname(pip.__path__[0]))"

# No news from the network, and slider callbacks in turn with the cells instead of on a second thread beside them.
LAB_SETTINGS = """{
  "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false},
  "@jupyterlab/apputils-extension:kernels-settings": {"commsOverSubshells": "disabled"}
}
"""


def say(sentence):
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


def check_python(version, executable, level):
    """Stop with one sentence under a Python that is too old."""
    if tuple(version[:2]) < OLDEST:
        sys.exit(
            "The course needs Python %d.%d or newer, and %s is Python %s: install a newer one, "
            "or name one that you have, as in: make %s PYTHON=python3.12"
            % (OLDEST + (executable, ".".join(str(part) for part in version[:3]), level))
        )


def check_venv_modules(level):
    """Stop with one sentence where the system's Python comes without venv or ensurepip, as Debian's does."""
    from importlib.util import find_spec

    missing = [name for name in ("venv", "ensurepip") if find_spec(name) is None]
    if missing:
        sys.exit(
            "%s lacks the module %s, so it cannot make .venv: install it (on Debian and Ubuntu: "
            "sudo apt install python%d.%d-venv), or name another Python, as in: make %s PYTHON=python3.12"
            % ((sys.executable, missing[0]) + tuple(sys.version_info[:2]) + (level,))
        )


def probe():
    """Return .venv's Python version and site-packages, or None if it does not work."""
    try:
        answer = subprocess.check_output([PYTHON, "-I", "-c", PROBE], stderr=subprocess.STDOUT, universal_newlines=True)
        version, packages = answer.splitlines()
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None
    # RECORD is the last file that an installation writes: without it, pip itself is half there.
    whole = glob.glob(os.path.join(glob.escape(packages), "pip-*.dist-info", "RECORD"))
    return (version, packages) if whole else None


def make_venv(found, level):
    check_venv_modules(level)
    running = "%d.%d" % sys.version_info[:2]
    if found:
        say("Making .venv anew: it has Python %s, and %s was asked for." % (found[0], running))
    elif os.path.lexists(VENV):
        say("Making .venv anew: it is half made, or its Python is gone.")
    else:
        say("Making .venv with Python %s." % running)
    from venv import create

    try:
        create(VENV, clear=True, symlinks=os.name != "nt", with_pip=True)
    except (ValueError, subprocess.CalledProcessError) as error:
        sys.exit("Python could not make .venv: %s." % error)


def stamp(level):
    return os.path.join(VENV, ".ready-" + level)


def fingerprint(version):
    """Hash everything that decides what an installation gives; ROOT too, for "-e ." notes down the folder."""
    digest = hashlib.sha256("\n".join([version, ROOT, LAB_SETTINGS]).encode())
    for name in INPUTS:
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(hashlib.sha256(file.read()).digest())
    return digest.hexdigest()


def is_ready(level, found):
    if not found or found[0] != "%d.%d" % sys.version_info[:2]:
        return False
    if level == "venv":
        return True
    if not os.path.exists(stamp(level)):
        return False
    with open(stamp(level)) as file:
        return file.read() == fingerprint(found[0])


def remove_torn_packages(packages):
    """Remove what a killed pip leaves: it would take a package without RECORD for a whole one."""
    packages = glob.escape(packages)
    torn = glob.glob(os.path.join(packages, "~*"))
    for info in glob.glob(os.path.join(packages, "*.dist-info")):
        if not os.path.exists(os.path.join(info, "RECORD")):
            torn.append(info)
    for path in torn:
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def install(level, found):
    version, packages = found
    wanted = fingerprint(version)
    for name in LEVELS:
        if os.path.exists(stamp(name)):
            os.remove(stamp(name))
    remove_torn_packages(packages)
    say("Installing %s into .venv: a minute or two, more if torch is to be downloaded." % " and ".join(LEVELS[level]))
    command = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "-c", "constraints.txt"]
    for name in LEVELS[level]:
        command += ["-r", name]
    if subprocess.call(command, cwd=ROOT):
        sys.exit(
            "pip could not install the course's packages, for the reason printed above; "
            "the next make %s goes on from here." % level
        )
    write_lab_settings()
    # Last of all, so that an interrupted installation has none.
    for name in ("lab", "test") if level == "test" else ("lab",):
        with open(stamp(name), "w") as file:
            file.write(wanted)


def write_lab_settings():
    folder = os.path.join(VENV, "share", "jupyter", "lab", "settings")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "overrides.json"), "w") as file:
        file.write(LAB_SETTINGS)


def lock():
    """Wait until no other terminal is installing; the lock lasts as long as the file returned is open."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    file = open(os.path.join(ROOT, "requirements.txt"))  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("Another make is installing into .venv: waiting for it.")
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:  # some network file systems cannot lock: go on without
        pass
    return file


def ensure(level):
    if is_ready(level, probe()):
        return
    held = lock()
    found = probe()  # again: whoever held the lock may have done the work
    if not is_ready("venv", found):
        make_venv(found, level)
        found = probe()
        if not found:
            sys.exit("Python made a .venv that does not run: remove the folder .venv and call make %s again." % level)
    if not is_ready(level, found):
        install(level, found)
    if held:
        held.close()


def main(arguments):
    if len(arguments) != 1 or arguments[0] not in LEVELS:
        sys.exit("usage: python tools/setup/ensure_venv.py venv|lab|test")
    check_python(sys.version_info, sys.executable, arguments[0])
    try:
        ensure(arguments[0])
    except KeyboardInterrupt:
        sys.exit("Interrupted: the next make %s goes on from here." % arguments[0])
    except OSError as error:
        sys.exit("Cannot bring .venv up to date: %s." % error)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Bring what the hub needs beside .venv, or say in a sentence what this machine lacks. `make classroom` calls it first.

    python classroom/set_up.py

The proxy comes from npm, in the versions of package-lock.json, into build/classroom; the language model of notebook 13
is decoded once for all learners, who may read it there.
"""

import filecmp
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

COURSE = Path(__file__).resolve().parents[1]
BUILD = COURSE / "build" / "classroom"
PROXY = BUILD / "node_modules" / ".bin" / "configurable-http-proxy"
NODE = 20  # or newer


def lacking():
    """What keeps a hub from running here, in a sentence, or "" if nothing does."""
    if not sys.platform.startswith("linux"):
        return "A hub with an account for each learner is made for Linux."
    if os.geteuid() != 0:
        return "A hub starts each server under its learner's account, and only root may do that (sudo make classroom)."
    if closed := closed_to_learners():
        fix = "open it with chmod o+x, or move the course and take a Python that stands elsewhere"
        folders = ", ".join(map(str, closed))
        return f"Learners' servers need what is in {folders}, where other accounts may not enter: {fix}."
    if shutil.which("npm") is None or (node := node_version()) < NODE:
        found = "no npm" if shutil.which("npm") is None else f"Node {node}" if node else "no Node"
        return f"The hub's proxy needs Node {NODE} or newer and npm, and there is {found}."
    return ""


def closed_to_learners():
    """The folders on the way to the course, its Python and its packages that other accounts may not enter."""
    python = Path(sys.executable)
    return closed_folders(COURSE, python, python.resolve(), Path(sysconfig.get_path("purelib")))


def closed_folders(*paths):
    """The folders above these paths that may not be entered by those who are neither their owner nor in their group."""
    above = {folder for path in paths for folder in (path, *path.parents) if folder.is_dir()}
    return sorted(folder for folder in above if not folder.stat().st_mode & 0o001)


def node_version():
    """The first number of node's version, 0 where there is none."""
    try:
        return int(subprocess.check_output(["node", "--version"], text=True).lstrip("v").split(".")[0])
    except (OSError, ValueError, subprocess.CalledProcessError):
        return 0


def install_proxy():
    """Install the proxy with npm, unless what is there came from the same lists."""
    ours = [COURSE / "classroom" / name for name in ("package.json", "package-lock.json")]
    if PROXY.exists() and all(filecmp.cmp(path, BUILD / path.name, shallow=False) for path in ours):
        return
    BUILD.mkdir(parents=True, exist_ok=True)
    for path in ours:
        shutil.copy(path, BUILD)
    # npm warns that one of the proxy's packages asks for a newer Node than the proxy does: it runs under both.
    if subprocess.call(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=BUILD):
        sys.exit("npm could not install the hub's proxy, for the reason printed above.")


def decode_model():
    """Decode the language model where all may read it and none but root may write; some seconds at the first time.

    Where it can't be kept, end here: no learner could read it.
    """
    from attention_helpers.language_model.model_file import read_model

    folder = BUILD / "model"
    try:
        read_model(folder=folder)
    except (OSError, ValueError) as error:
        sys.exit(f"The language model of notebook 13 can't be decoded into {folder}: {error}")
    open_to_readers(folder)


def open_to_readers(folder):
    """Let every account read this folder's files."""
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)


def main():
    if sentence := lacking():
        sys.exit(sentence)
    if (git := COURSE / ".git").is_dir():  # its settings may hold a token, and its history what was taken back
        git.chmod(git.stat().st_mode & 0o700)
    install_proxy()
    decode_model()
    for folder in (BUILD.parent, BUILD):
        folder.chmod(0o755)  # whatever root's umask is
    (BUILD / "hub").mkdir(mode=0o700, exist_ok=True)


if __name__ == "__main__":
    main()

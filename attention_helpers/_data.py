"""Where the course's data lie: a wheel carries them beside this file, a checkout has them in ../data."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def data_file(name):
    """The path of a file of data/. In no other place is it looked for: an editable installation leaves old copies."""
    beside = PACKAGE / "data" / name
    return beside if beside.exists() else PACKAGE.parent / "data" / name

"""Where the course's data files are: next to this file in a wheel, in ../data in a checkout."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def data_file(name):
    """The path of a file in data/. We look nowhere else, because editable installations leave old copies behind."""
    beside = PACKAGE / "data" / name
    return beside if beside.exists() else PACKAGE.parent / "data" / name

"""Let nbval compare all but what was measured: the numbers after ≈, as measured.cfg says."""

from pathlib import Path


def pytest_configure(config):
    if getattr(config.option, "nbval_sanitize_with", "") is None:  # nbval is there, and was told nothing else
        config.option.nbval_sanitize_with = str(Path(__file__).with_name("measured.cfg"))

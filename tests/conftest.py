"""Fixtures for all tests, and how many examples a property test takes: see sizes.py."""

import os
from functools import cache
from pathlib import Path

import pytest

# No torch up here: xdist's own process reads this file before it starts those that test, and they would wait for it.


def pytest_configure(config):
    """Under `-m slow` the property tests run once more, each with many random examples."""
    # The language model is decoded once for all runs, and not into the cache folder of whoever runs them.
    os.environ.setdefault("ATTENTION_HELPERS_CACHE", str(Path(__file__).parents[1] / "build" / "cache"))
    if config.option.markexpr == "slow":
        os.environ["PROPERTY_PROFILE"] = "thorough"


@pytest.hookimpl(tryfirst=True)  # before pytest deselects what has no mark
def pytest_collection_modifyitems(config, items):
    if config.option.markexpr == "slow":
        for item in items:
            if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
                item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def language_model():
    """SmolLM2-135M-Instruct, decoded at the first run on a machine: some seconds, later ones less than one."""
    from attention_helpers.language_model.model import load_model

    return load_model()


@pytest.fixture(scope="session")
def browser():
    """Chromium, for the tests of JupyterLab and of the site."""
    from lab import CHROMIUM, FLAGS, PATIENCE
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=1000 * PATIENCE)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def explorer():
    """Each explorer, made once, in its first state: explorer("ScoresExplorer")."""
    from made import make

    made = cache(make)

    def first(name):
        e = made(name)
        e.set(**e._first)
        return e

    return first

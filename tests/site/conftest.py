"""A browser for all tests of the site."""

import pytest
from playwright.sync_api import sync_playwright

from tools.notebooks.lab import CHROMIUM, FLAGS


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()

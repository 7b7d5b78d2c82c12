"""What a hub needs of the machine: where it is not there, its tests are skipped and say why; in CI they may not be."""

import os

import pytest

from classroom import set_up


@pytest.fixture(scope="session")
def machine():
    """A machine that can run a hub, with the hub's proxy installed. CLASSROOM=required turns a skip into a failure."""
    if sentence := set_up.lacking():
        (pytest.fail if os.environ.get("CLASSROOM") == "required" else pytest.skip)(sentence)
    set_up.install_proxy()

"""One server for all tests, one page for each notebook."""

from pathlib import Path
from typing import NamedTuple

import course
import nbformat
import pytest
from lab import CHROMIUM, server
from visit import Visit
from xdist.scheduler import LoadScopeScheduling

from tools.notebooks.manifest import HELP
from tools.setup import workbook

START = course.FOLDER / "00_start_here.ipynb"


def pytest_configure(config):
    if not CHROMIUM:
        raise pytest.UsageError(
            "the browser tests need Chromium or Chrome: install one (on Debian and Ubuntu: sudo apt install chromium)."
        )


class ByNotebook(LoadScopeScheduling):
    """All tests of one notebook run in one process, which opens it once: what stops its kernel comes last there."""

    def _split_scope(self, nodeid):
        return nodeid.rpartition("[")[2].rpartition("-")[2]  # a test's other parameters come before its notebook


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return ByNotebook(config, log)


class Served(NamedTuple):
    """A running Lab: its address, and folders: of its notebooks, of its settings, of how to reach its kernels."""

    address: str
    folder: Path
    scratch: Path
    runtime: Path


def fill(folder, scratch):
    """Make a workbook of a folder as `make lab` does, for the Lab that has its settings in `scratch`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_DATA_DIR", str(scratch / "jupyter_data_dir"))  # where this server looks whom to trust
        patch.setattr(workbook, "WORKBOOK", folder)
        patch.setattr(workbook, "VERSIONS", folder / workbook.VERSIONS.name)
        workbook.fill()


def write_notebook(path, code, *more):
    """A notebook with a cell of code, and more cells."""
    kernel = {"name": "python3", "display_name": "Python 3"}
    cells = [nbformat.v4.new_code_cell(code), *more]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)


def choose(page, menu, command):
    """Choose a command from one of Lab's menus, and agree to what it asks."""
    page.locator(".lm-MenuBar-itemLabel", has_text=menu).first.click()
    page.locator(f".lm-Menu-item[data-command='{command}']").click()
    page.locator(".jp-Dialog .jp-mod-accept").click()


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """A Lab with the course's settings, over a learner's workbook."""
    folder, scratch = tmp_path_factory.mktemp("course"), tmp_path_factory.mktemp("scratch")
    fill(folder, scratch)
    with server(folder, scratch) as (address, runtime):
        yield Served(address, folder, scratch, runtime)


@pytest.fixture(scope="session", params=[START, *course.LESSONS, HELP], ids=lambda path: path.stem)
def notebook(request, browser, served):
    """One of the notebooks: looked at as it opens, then run from top to bottom, and left open."""
    with Visit(browser, served, request.param) as visit:
        yield visit

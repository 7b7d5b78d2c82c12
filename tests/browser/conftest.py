"""One server for all tests, one page for each notebook."""

import course
import nbformat
import pytest
from lab import Kernel, Lab, pytest_xdist_make_scheduler, server  # noqa: F401 (for pytest)
from visit import Visit

from tools.notebooks.manifest import HELP
from tools.setup import workbook

START = course.FOLDER / "00_start_here.ipynb"


def each(paths):
    """A test of each of these notebooks."""
    return pytest.mark.parametrize("notebook", paths, indirect=True, ids=lambda path: path.stem)


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


def alone(lab, name, code):
    """Run a notebook with this one cell, and return its explorer's box and its kernel."""
    write_notebook(lab.served.folder / name, code)
    lab.open(name)
    lab.run_all(1)
    box = lab.page.locator(".attention-explorer")
    box.locator("[role=img]").wait_for()
    lab.kernel = Kernel(lab.served, name)
    return box, lab.kernel


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """A Lab with the course's settings, over a learner's workbook."""
    folder, scratch = tmp_path_factory.mktemp("course"), tmp_path_factory.mktemp("scratch")
    fill(folder, scratch)
    with server(folder, scratch) as served:
        yield served


@pytest.fixture
def lab(browser, served):
    """A page for a notebook of the test's own. No error may have appeared on it."""
    lab = Lab(browser, served)
    yield lab
    assert lab.errors == []
    lab.kernel and lab.kernel.stop()
    lab.page.close()


@pytest.fixture(scope="session", params=[START, *course.LESSONS, HELP], ids=lambda path: path.stem)
def notebook(request, browser, served):
    """One of the notebooks: looked at as it opens, then run from top to bottom, and left open."""
    with Visit(browser, served, request.param) as visit:
        yield visit

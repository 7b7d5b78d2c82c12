"""One server for all tests, and one visit to each notebook: at first, and after all its cells have run."""

from contextlib import contextmanager, suppress

import course
import nbformat
import pytest
from lab import SIZE, TALL, Kernel, Lab, pytest_xdist_make_scheduler, server  # noqa: F401 (for pytest)
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tools.notebooks.manifest import HELP
from tools.setup import workbook

START = course.FOLDER / "00_start_here.ipynb"
# What a cell's text is, the page always knows; innerText is empty where the browser has not rendered the cell yet.
SHOWN = """([prompts, outputs, pictures]) => {
    document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0;
    const all = kind => [...document.querySelectorAll('.jp-CodeCell ' + kind)], said = it => it.textContent;
    const ready = it => it.querySelector('img, svg') || said(it).trim() && !said(it).includes('Loading widget');
    const made = all('.jp-OutputArea-output'), images = all('.jp-OutputArea-output :is(img, [role=img])');
    return made.some(it => it.dataset.mimeType?.endsWith('error'))
        || all('.jp-InputPrompt').map(said).join() == prompts.join() && made.length >= outputs && made.every(ready)
        && images.length >= pictures && images.every(image => image.complete !== false);
}"""
LOOK = """() => ({
    dirty: document.querySelectorAll('.jp-mod-dirty').length > 0,
    said: [...document.querySelectorAll('.jp-OutputArea-output:not(:has(img, svg))')].map(box => box.textContent),
    prompts: [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map(prompt => prompt.textContent),
    errors: [...document.querySelectorAll('.jp-OutputArea-output[data-mime-type$=error]')].map(box => box.textContent),
    pictures: [...document.querySelectorAll('.jp-OutputArea-output img')]
        .filter(picture => picture.complete && picture.naturalWidth).map(picture => picture.src),
})"""


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


def prompt(cell, count=None):
    """What stands beside a cell that was run as the so-manieth, or was not run; a folded one has none."""
    folded = cell.metadata.get("jupyter", {}).get("source_hidden", False)
    return "" if folded else f"[{count or cell.execution_count or ' '}]:"


def stored_pictures(cells):
    """The pictures in the notebook's file, as the page writes them: a PNG's code, an SVG's text."""
    outputs = [output.get("data", {}) for cell in cells for output in cell.outputs]
    pngs = [data["image/png"].replace("\n", "") for data in outputs if "image/png" in data]
    return pngs + [data[course.SVG] for data in outputs if course.SVG in data]


class Visit:
    """`first` and `last`: what the page shows before a cell is run, and after all are; `lab`: the page itself."""

    def __init__(self, browser, served, path):
        self.source = course.read(path)
        self.cells = course.code_cells(self.source)
        self.name = path.relative_to(course.FOLDER).as_posix()
        self.copied = course.code_cells(course.read(served.folder / self.name))
        self.stored = stored_pictures(self.copied)
        self.lab, self.served = Lab(browser, served), served
        self.page = self.lab.page

    def __enter__(self):
        self.lab.open(self.name)
        self.kernel = Kernel(self.served, self.name)
        self.first = self.look(self.copied)
        self.lab.run_all(len(self.cells))
        self.last = self.look(self.cells)
        return self

    def __exit__(self, *error):
        self.kernel.stop()
        self.page.close()

    @contextmanager
    def all_in_view(self):
        """A screen as tall as the page: Lab renders only what is in view."""
        self.page.set_viewport_size(TALL)
        yield
        self.page.set_viewport_size(SIZE)

    def look(self, cells):
        """What the page shows, from top to bottom, as soon as that is what these cells have."""
        outputs, pictures = sum(len(cell.outputs) for cell in cells), len(stored_pictures(cells))
        with self.all_in_view():
            with suppress(PlaywrightTimeout):  # a test names what lacks
                self.page.wait_for_function(SHOWN, arg=[[*map(prompt, cells)], outputs, pictures], polling=100)
            return self.page.evaluate(LOOK)


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

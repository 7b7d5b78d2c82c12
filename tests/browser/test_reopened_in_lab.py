"""A notebook that was saved with an explorer shows its picture when it is opened again, whatever its kernel knows."""

import json
import time
from contextlib import contextmanager

import nbformat
import pytest
from kernel import Kernel

from tools.notebooks.lab import Lab
from tools.setup.lab_hook import STATE, VIEW

NAME, PATIENCE = "reopened.ipynb", 120  # seconds
EXPLORER = """from attention_helpers import load_sentence
from attention_helpers.explorers import ScoresExplorer
ScoresExplorer(load_sentence("journey"))"""
CELLS = [EXPLORER, "1 + 1"]
PICTURE = ".jp-OutputArea-output :is([role=img], img[src^='data:image/svg+xml'])"
BROKEN = "Error displaying widget"


@pytest.fixture
def opened(browser, served):
    """with opened() as lab: the notebook in a page and with a kernel of its own; both end with the block."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, served.folder / NAME)

    @contextmanager
    def open_it():
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.set_default_timeout(1000 * PATIENCE)
        lab = Lab(page, served.address)
        lab.open(NAME)
        kernel = Kernel(served, NAME)
        yield lab
        kernel.stop()
        page.close()

    return open_it


def shows_picture(page):
    """Whether the explorer's cell shows a picture, and not that a widget was not found."""
    page.locator(PICTURE).or_(page.get_by_text(BROKEN)).first.wait_for()
    sizes = page.locator(PICTURE).evaluate_all("pictures => pictures.map(each => each.getBoundingClientRect().width)")
    return len(sizes) == 1 and sizes[0] > 300 and page.get_by_text(BROKEN).count() == 0


def run_second_cell(page):
    page.locator(".jp-CodeCell .jp-InputArea-editor").last.click()
    page.keyboard.press("Control+Enter")
    page.locator(".jp-CodeCell .jp-InputPrompt").last.get_by_text("[1]:", exact=True).wait_for()


def save(page, path, count):
    """Save, and return the notebook once its file says that the last cell was the kernel's `count`th to run."""
    page.keyboard.press("Control+s")
    deadline = time.monotonic() + PATIENCE
    while not (saved := parsed(path)) or saved["cells"][-1]["execution_count"] != count:
        assert time.monotonic() < deadline, f"{path.name} was not saved"
        page.wait_for_timeout(50)
    return saved


def parsed(path):
    """The notebook in a file, or None while Jupyter is still writing it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError:  # half of it: not JSON, or cut within a character
        return None


def data_of(notebook):
    [output] = notebook["cells"][0]["outputs"]
    return output["data"]


def test_a_picture_is_there_when_the_notebook_is_opened_again(opened, served):
    file = served.folder / NAME
    with opened() as lab:
        lab.run_all(len(CELLS))
        assert shows_picture(lab.page)
        saved = save(lab.page, file, len(CELLS))
    assert data_of(saved)[VIEW]["model_id"] in saved["metadata"]["widgets"][STATE]["state"]
    with opened() as lab:
        assert shows_picture(lab.page), "with the widgets that the file holds"
        assert lab.page.locator(".noUi-handle").count() > 0
        run_second_cell(lab.page)
        saved = save(lab.page, file, 1)
    assert {"image/svg+xml", "text/plain"} <= set(data_of(saved))
    with opened() as lab:
        assert shows_picture(lab.page), "without, since the kernel that saved last knew of none"

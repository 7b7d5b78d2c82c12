"""A notebook that is opened or loaded again shows its explorers' first pictures, and nothing that is dead."""

import xml.etree.ElementTree as ET
from urllib.parse import unquote

import course
from conftest import START, each
from lab import PATIENCE, Kernel
from playwright.sync_api import expect

from tools.setup.lab_hook import SVG, VIEW

NOTEBOOKS = [START, *(path for path in course.LESSONS if path.stem[:2] in ("01", "13"))]
IMAGES = """() => [...document.querySelectorAll('.jp-OutputArea-output img')]
    .filter(image => image.complete && image.naturalWidth > 300).map(image => image.src)"""
WIDGETS = ".jp-OutputArea-output :is(.jupyter-widgets, .jupyter-widgets-disconnected)"
FAILED = "Error displaying widget"


# Of a notebook's tests this comes last: it stops the kernel that the others share.
@each(NOTEBOOKS)
def test_the_first_picture_is_there_when_the_notebook_is_opened_again(notebook):
    page, lab = notebook.page, notebook.lab
    with notebook.all_in_view():
        labels = labels_of(stored_pictures(notebook.source))
        move(lab)
        lab.save()
        move(lab)  # the open page stays live when it's saved
        saved = course.read(notebook.served.folder / notebook.name)
        assert labels_of(stored_pictures(saved)) == labels
        assert page.locator(".jp-Dialog").count() == 0
        assert "widgets" not in saved["metadata"]
        page.reload()  # while the kernel, and in it the widgets, live on
        assert dead_or_missing(page, labels) == []
        page.goto("about:blank")
        notebook.kernel.stop()
        lab.open(notebook.name)
        notebook.kernel = Kernel(notebook.served, notebook.name)
        assert dead_or_missing(page, labels) == []
    assert lab.errors == []


def move(lab):
    """Move the first explorer's first slider by a key, or choose another trial, and wait for its other picture."""
    box = lab.page.locator(".attention-explorer").first
    picture = box.locator("[role=img]").first
    before = picture.get_attribute("aria-label")
    trial = box.get_by_text("Trial 1: " if "head 2" in before else "Trial 2: ")
    if trial.count():  # whose sliders aren't shown
        trial.first.click()
    else:
        lab.nudge(box.locator(".noUi-handle").first)
    expect(picture).not_to_have_attribute("aria-label", before, timeout=1000 * PATIENCE)
    lab.rest()


def stored_pictures(saved):
    """The SVGs that a notebook has in place of widgets."""
    outputs = [output.get("data", {}) for cell in course.code_cells(saved) for output in cell.outputs]
    return [data[SVG] for data in outputs if SVG in data and VIEW not in data]


def labels_of(pictures):
    return [ET.fromstring(picture).get("aria-label") for picture in pictures]


def dead_or_missing(page, labels):
    """What is wrong with a page that should show pictures with these labels, and no widgets."""
    page.locator("img[src*='data:image/svg+xml']").nth(len(labels) - 1).or_(page.get_by_text(FAILED)).first.wait_for()
    shown = [unquote(source.partition(",")[2]) for source in page.evaluate(IMAGES) if "svg+xml" in source]
    missing = [label for label in labels if label not in labels_of(shown)]
    return missing + ["a widget"] * page.locator(WIDGETS).count() + [FAILED] * page.get_by_text(FAILED).count()

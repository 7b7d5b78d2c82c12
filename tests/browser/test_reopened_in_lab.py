"""A notebook that is opened or loaded again shows its explorers' first pictures, and nothing that is dead."""

import json
import time
import xml.etree.ElementTree as ET
from urllib.parse import unquote

import course
import pytest
from conftest import START, choose
from kernel import Kernel
from lab import PATIENCE

from tools.setup.lab_hook import SVG, VIEW

NOTEBOOKS = [START, *(path for path in course.LESSONS if path.stem[:2] in ("01", "13"))]
# In each file's tests of a notebook these come last: they stop the kernel that the others share.
pytestmark = pytest.mark.parametrize("notebook", NOTEBOOKS, indirect=True, ids=lambda path: path.stem)
LABELS = """() => [...document.querySelectorAll('.attention-explorer')].map(
    box => box.querySelector('[role=img]')?.getAttribute('aria-label'))"""
IMAGES = """() => [...document.querySelectorAll('.jp-OutputArea-output img')]
    .filter(image => image.complete && image.naturalWidth > 300).map(image => image.src)"""
WIDGETS = ".jp-OutputArea-output :is(.jupyter-widgets, .jupyter-widgets-disconnected)"
FAILED = "Error displaying widget"


def test_the_first_picture_is_there_when_the_notebook_is_opened_again(notebook):
    page, lab, file = notebook.page, notebook.lab, notebook.served.folder / notebook.name
    with notebook.all_in_view():
        labels = labels_of(stored_pictures(notebook.source))
        for _ in range(2):  # the open page stays live when it's saved
            move(page)
            saved = save(page, file, labels)
        assert page.locator(".jp-Dialog").count() == 0
        assert "widgets" not in saved["metadata"]
        page.reload()  # while the kernel, and in it the widgets, live on
        assert dead_or_missing(page, labels) == []
        choose(page, "File", "filemenu:close-and-cleanup")
        page.locator(".jp-Notebook").wait_for(state="detached")
        notebook.kernel.client.stop_channels()
        lab.open(notebook.name)
        notebook.kernel = Kernel(notebook.served, notebook.name)
        assert dead_or_missing(page, labels) == []
    assert lab.errors == []


def move(page):
    """Move the first explorer's first slider by a key, and wait for its other picture."""
    before, box = page.evaluate(LABELS), page.locator(".attention-explorer").first
    handle = box.locator(".noUi-handle").first
    at_end = handle.get_attribute("aria-valuenow") == handle.get_attribute("aria-valuemax")
    handle.press("ArrowLeft" if at_end else "ArrowRight")
    page.wait_for_function(f"before => ({LABELS})().join() != before", arg=",".join(before))
    if (pause := box.locator("button", has_text="Pause")).count():
        pause.click()


def save(page, file, labels):
    """Save, and return the notebook once its file has these pictures."""
    page.keyboard.press("Control+s")
    deadline = time.monotonic() + PATIENCE
    while labels_of(pictures := stored_pictures(saved := parsed(file))) != labels:
        assert time.monotonic() < deadline, f"{file.name} has {labels_of(pictures)}, not {labels}"
        page.wait_for_timeout(100)
    return saved


def parsed(file):
    """The notebook in a file; one without cells while Jupyter is still writing it."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError:  # half of it: not JSON, or cut within a character
        return {"cells": []}


def stored_pictures(saved):
    """The SVGs that a notebook has in place of widgets."""
    outputs = [output.get("data", {}) for cell in saved["cells"] for output in cell.get("outputs", [])]
    return [course.joined(data[SVG]) for data in outputs if SVG in data and VIEW not in data]


def labels_of(pictures):
    return [ET.fromstring(picture).get("aria-label") for picture in pictures]


def dead_or_missing(page, labels):
    """What is wrong with a page that should show pictures with these labels, and no widgets."""
    page.locator("img[src*='data:image/svg+xml']").nth(len(labels) - 1).or_(page.get_by_text(FAILED)).first.wait_for()
    shown = [unquote(source.partition(",")[2]) for source in page.evaluate(IMAGES) if "svg+xml" in source]
    missing = [label for label in labels if label not in labels_of(shown)]
    return missing + ["a widget"] * page.locator(WIDGETS).count() + [FAILED] * page.get_by_text(FAILED).count()

"""Lab as it first starts, as it starts again, and after its kernel was restarted."""

import shutil

import nbformat
import pytest
from filled import fill
from kernel import Kernel

from tools.notebooks.lab import TOKEN, Lab, server
from tools.setup.workbook import LAYOUT

EXPLORER = """
from attention_course import explorers
explorers.MaskExplorer()
"""
# The icons and sentences that styles add, and whether a control can be reached by a key or by the mouse.
DEAD = """box => ({
    said: [box, ...box.querySelectorAll('.jupyter-widgets')].filter(part => part.checkVisibility())
        .map(part => getComputedStyle(part, '::before').content).filter(said => !['none', '""'].includes(said)),
    opacity: getComputedStyle(box.firstElementChild).opacity,
    reached: [...box.querySelectorAll('button, select, .noUi-handle')].filter(part => !part.closest('[inert]')).length,
})"""


@pytest.fixture(scope="module")
def started(browser, tmp_path_factory):
    """A Lab that keeps its layout where the workbook has a first one: its address."""
    folder, scratch = tmp_path_factory.mktemp("workbook"), tmp_path_factory.mktemp("settings")
    fill(folder, scratch)
    shutil.copytree((folder / LAYOUT).parent, scratch / "jupyterlab_workspaces_dir")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(EXPLORER)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, folder / "mine.ipynb")
    with server(folder, scratch) as lab:
        yield lab.address
        Kernel(lab, "mine.ipynb").stop()


def test_the_file_browser_is_collapsed_at_first_and_then_as_the_learner_left_it(browser, started):
    for left in (False, True):
        page = browser.new_page(viewport={"width": 1024, "height": 768})
        lab = Lab(page, started)
        page.goto(f"{started}/lab/tree/mine.ipynb?token={TOKEN}")
        page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        page.wait_for_selector("#jupyterlab-splash", state="detached")
        assert page.locator("#filebrowser").is_visible() == left
        with page.expect_response(lambda answer: "/api/workspaces" in answer.url and answer.request.method == "PUT"):
            page.keyboard.press("Control+b")
        page.locator("#filebrowser").wait_for(state="hidden" if left else "visible")
        assert lab.errors == []
        page.close()


def test_after_a_restart_the_explorer_says_to_run_its_cell_again(browser, started):
    page = browser.new_page()
    lab = Lab(page, started)
    lab.open("mine.ipynb")
    lab.run_all(1)
    box = page.locator(".MaskExplorer")
    box.locator("[role=img]").wait_for()
    assert box.evaluate(DEAD) == {"said": [], "opacity": "1", "reached": 4}
    page.locator(".lm-MenuBar-itemLabel", has_text="Kernel").click()
    page.locator(".lm-Menu-item[data-command='kernelmenu:restart']").click()
    page.locator(".jp-Dialog .jp-mod-warn").click()
    page.locator(".MaskExplorer.jupyter-widgets-disconnected").wait_for()
    page.locator(".MaskExplorer > [inert]").first.wait_for()
    dead = box.evaluate(DEAD)
    assert "Run this cell again" in dead.pop("said")[0]
    assert dead == {"opacity": "0.4", "reached": 0}
    lab.run_all(1)
    page.locator(".MaskExplorer:not(.jupyter-widgets-disconnected) [role=img]").wait_for()
    assert box.evaluate(DEAD) == {"said": [], "opacity": "1", "reached": 4}
    assert lab.errors == []
    page.close()

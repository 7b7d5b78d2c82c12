"""An explorer after its kernel was restarted."""

import nbformat
from lab import Lab

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


def test_after_a_restart_the_explorer_says_to_run_its_cell_again(browser, served):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(EXPLORER)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, served.folder / "mine.ipynb")
    page = browser.new_page()
    lab = Lab(page, served.address)
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

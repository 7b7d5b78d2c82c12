"""One explorer in a short notebook: its kernel is restarted, it's one of two in a window, and it's in Notebook 7."""

import json

import nbformat
import pytest
from conftest import choose, write_notebook
from lab import TOKEN, Lab, server

CODE = "from attention_course import explorers\nexplorers.MaskExplorer()"
# The icons and sentences that styles add, and whether a control can be reached by a key or by the mouse.
DEAD = """box => ({
    said: [box, ...box.querySelectorAll('.jupyter-widgets')].filter(part => part.checkVisibility())
        .map(part => getComputedStyle(part, '::before').content).filter(said => !['none', '""'].includes(said)),
    reached: [...box.querySelectorAll('button, select, .noUi-handle')].filter(part => !part.closest('[inert]')).length,
})"""
LIVE = {"said": [], "reached": 4}
# Every pattern that a picture on the page refers to, and whether it's in that very picture.
PATTERNS = """() => [...document.querySelectorAll('[fill^="url(#"]')].map(part => {
    const name = part.getAttribute('fill').slice(5, -1);
    return [name, part.closest('svg').querySelector('pattern')?.id == name];
})"""


@pytest.fixture
def page(browser):
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    yield page
    page.close()


def test_after_a_restart_the_explorer_says_to_run_its_cell_again(page, served):
    write_notebook(served.folder / "mine.ipynb", CODE)
    lab = Lab(page, served.address)
    lab.open("mine.ipynb")
    lab.run_all(1)
    box = page.locator(".MaskExplorer")
    box.locator("[role=img]").wait_for()
    assert box.evaluate(DEAD) == LIVE
    choose(page, "Kernel", "kernelmenu:restart")
    page.locator(".MaskExplorer.jupyter-widgets-disconnected").wait_for()
    page.locator(".MaskExplorer > [inert]").first.wait_for()
    dead = box.evaluate(DEAD)
    assert "Run this cell again" in dead["said"][0]
    assert dead["reached"] == 0
    lab.run_all(1)
    page.locator(".MaskExplorer:not(.jupyter-widgets-disconnected) [role=img]").wait_for()
    assert box.evaluate(DEAD) == LIVE
    assert lab.errors == []


def test_two_notebooks_in_one_window_do_not_disturb_each_other(page, served):
    """Each explorer hears its own controls only, and draws with its own pattern."""
    names, lab = ("first_of_two.ipynb", "second_of_two.ipynb"), Lab(page, served.address)
    for name in names:
        write_notebook(served.folder / name, CODE)
    boxes = [page.locator(".jp-NotebookPanel").nth(n).locator(".attention-explorer") for n in range(2)]
    lab.open(names[0])
    lab.run_all(1)
    boxes[0].locator("[role=img]").wait_for()
    lab.kernel_answers = False
    page.locator(".jp-DirListing-item", has_text=names[1]).dblclick()
    lab.wait_until(lambda: lab.kernel_answers, "the second kernel did not answer")
    lab.run_all(1)
    boxes[1].locator("[role=img]").wait_for()
    first = boxes[0].locator(".attention-headline").text_content()
    switch_mask_on(boxes[1])
    assert boxes[0].locator(".attention-headline").text_content() == first
    page.locator(".lm-DockPanel .lm-TabBar-tab", has_text=names[0]).click()
    switch_mask_on(boxes[0])
    patterns = page.evaluate(PATTERNS)
    assert len({name for name, _ in patterns}) >= 2
    assert all(own for _, own in patterns)
    assert lab.errors == []


def switch_mask_on(box):
    box.locator("button", has_text="on").first.click()
    box.locator(".attention-headline", has_text="has to guess").wait_for()


@pytest.mark.parametrize("mode", ["full", "defer"])
def test_an_explorer_works_in_notebook_7(page, tmp_path, mode):
    """It comes back into view, is saved, and its picture is there when it's reopened."""
    pytest.importorskip("notebook", reason="Notebook 7 isn't installed")
    folder, scratch = tmp_path / "course", tmp_path / "scratch"
    folder.mkdir()
    settings = scratch / "jupyterlab_settings_dir/@jupyterlab/notebook-extension"
    settings.mkdir(parents=True)
    (settings / "tracker.jupyterlab-settings").write_text(json.dumps({"windowingMode": mode}))
    file = folder / "explorer.ipynb"
    write_notebook(file, CODE, *(nbformat.v4.new_markdown_cell(f"{n}\n\n" * 9) for n in range(30)))
    with server(folder, scratch, "notebook") as (address, _):
        lab = Lab(page, address)
        page.goto(f"{address}/notebooks/explorer.ipynb?token={TOKEN}")
        lab.wait_until(lambda: lab.kernel_answers, "the kernel did not answer")
        page.locator(".jp-CodeCell .cm-content").first.click()
        page.keyboard.press("Control+Enter")
        box = page.locator(".attention-explorer")
        box.locator("[role=img]").wait_for()
        switch_mask_on(box)
        for place in (10_000, 0):
            page.locator(".jp-WindowedPanel-outer").evaluate("(panel, top) => panel.scrollTo(0, top)", place)
            page.wait_for_timeout(500)
        said = box.locator(".attention-headline", has_text="has to guess")
        said.wait_for()
        box.locator("button", has_text="Reset").click()
        said.wait_for(state="detached")
        page.keyboard.press("Control+s")
        lab.wait_until(lambda: "image/svg+xml" in file.read_text(), "it wasn't saved")
        page.reload()
        page.locator(".jp-OutputArea-output img, .jp-OutputArea-output svg").first.wait_for()
        assert [error for error in lab.errors if "idget" in error or "attention" in error] == []

"""An explorer in Notebook 7: it works, comes back into view, is saved, and its picture is there when it's reopened."""

import json

import nbformat
import pytest
from lab import TOKEN, Lab, server

pytest.importorskip("notebook", reason="Notebook 7 isn't installed")
CODE = "from attention_course import explorers\nexplorers.MaskExplorer()"


@pytest.mark.parametrize("mode", ["full", "defer"])
def test_an_explorer_works_in_notebook_7(browser, tmp_path, mode):
    folder, scratch = tmp_path / "course", tmp_path / "scratch"
    folder.mkdir()
    settings = scratch / "jupyterlab_settings_dir/@jupyterlab/notebook-extension"
    settings.mkdir(parents=True)
    (settings / "tracker.jupyterlab-settings").write_text(json.dumps({"windowingMode": mode}))
    cells = [nbformat.v4.new_code_cell(CODE), *(nbformat.v4.new_markdown_cell(f"{n}\n\n" * 9) for n in range(30))]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, folder / "explorer.ipynb")
    with server(folder, scratch, "notebook") as (address, _):
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        lab = Lab(page, address)
        page.goto(f"{address}/notebooks/explorer.ipynb?token={TOKEN}")
        lab.wait_until(lambda: lab.kernel_answers, "the kernel did not answer")
        page.locator(".jp-CodeCell .cm-content").first.click()
        page.keyboard.press("Control+Enter")
        box = page.locator(".attention-explorer")
        box.locator("[role=img]").wait_for()
        box.locator("button", has_text="on").first.click()
        said = box.locator(".attention-headline", has_text="has to guess")
        said.wait_for()
        scrolled = page.locator(".jp-WindowedPanel-outer")
        for place in (10_000, 0):
            scrolled.evaluate("(panel, top) => panel.scrollTo(0, top)", place)
            page.wait_for_timeout(500)
        said.wait_for()
        box.locator("button", has_text="Reset").click()
        said.wait_for(state="detached")
        page.keyboard.press("Control+s")
        lab.wait_until(lambda: "image/svg+xml" in (folder / "explorer.ipynb").read_text(), "it wasn't saved")
        page.reload()
        page.locator(".jp-OutputArea-output img, .jp-OutputArea-output svg").first.wait_for()
        assert [error for error in lab.errors if "idget" in error or "attention" in error] == []
        page.close()

"""Two notebooks open in one window: each explorer hears its own controls only, and draws with its own pattern."""

import nbformat
from lab import Lab

CODE = "from attention_course import explorers\nexplorers.MaskExplorer()"
# Every pattern that a picture on the page refers to, and whether it's in that very picture.
PATTERNS = """() => [...document.querySelectorAll('[fill^="url(#"]')].map(part => {
    const name = part.getAttribute('fill').slice(5, -1);
    return [name, part.closest('svg').querySelector('pattern')?.id == name];
})"""


def test_two_notebooks_in_one_window_do_not_disturb_each_other(browser, served):
    names = "first_of_two.ipynb", "second_of_two.ipynb"
    for name in names:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CODE)])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
        nbformat.write(notebook, served.folder / name)
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    lab = Lab(page, served.address)
    lab.open(names[0])
    lab.run_all(1)
    boxes = [page.locator(".jp-NotebookPanel").nth(n).locator(".attention-explorer") for n in range(2)]
    boxes[0].locator("[role=img]").wait_for()
    lab.kernel_answers = False
    page.locator(".jp-DirListing-item", has_text=names[1]).dblclick()
    lab.wait_until(lambda: lab.kernel_answers, "the second kernel did not answer")
    lab.run_all(1)
    boxes[1].locator("[role=img]").wait_for()
    first, *_ = heads = [box.locator(".attention-headline").text_content() for box in boxes]
    assert heads == [first, first]
    for n in (1, 0):
        page.locator(".lm-DockPanel .lm-TabBar-tab", has_text=names[n]).click()
        boxes[n].locator("button", has_text="on").first.click()
        boxes[n].locator(".attention-headline", has_text="has to guess").wait_for()
        if n:
            assert boxes[0].locator(".attention-headline").text_content() == first
    patterns = page.evaluate(PATTERNS)
    assert len({name for name, _ in patterns}) >= 2
    assert all(own for _, own in patterns)
    assert lab.errors == []
    page.close()

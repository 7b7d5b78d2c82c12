"""One explorer in a short notebook: touched in its picture, restarted, one of two in a window, and in Notebook 7."""

import json
import os
import random
import time

import nbformat
import pytest
from conftest import alone, write_notebook
from lab import TOKEN, wait_until

CODE = """
from attention_course import explorers
from attention_helpers import load_sentence
shown = explorers.{}
shown"""
MASK = CODE.format("MaskExplorer()")
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
MIDDLE = """kind => {
    const {x, y, width, height} = document.querySelector(kind).getBoundingClientRect();
    return [x + width / 2, y + height / 2];
}"""
COUNT = """() => {
    window.pictures = 0;
    const shown = document.querySelector('.attention-shown');
    new MutationObserver(() => { window.pictures += 1; }).observe(shown, {childList: true});
}"""
ON_TOP = "spot => document.elementFromPoint(...spot).closest('[data-touch]').dataset.touch"


def switch_mask_on(box):
    box.locator("button", has_text="on").first.click()
    box.locator(".attention-headline", has_text="has to guess").wait_for()


def test_after_a_restart_the_explorer_says_to_run_its_cell_again(lab):
    box, _ = alone(lab, "mine.ipynb", MASK)
    assert box.evaluate(DEAD) == LIVE
    lab.restart()
    lab.page.locator(".MaskExplorer.jupyter-widgets-disconnected > [inert]").first.wait_for()
    dead = box.evaluate(DEAD)
    assert "Run this cell again" in dead["said"][0]
    assert dead["reached"] == 0
    lab.run_all(1)
    lab.page.locator(".MaskExplorer:not(.jupyter-widgets-disconnected) [role=img]").wait_for()
    assert box.evaluate(DEAD) == LIVE


def test_two_notebooks_in_one_window_do_not_disturb_each_other(lab):
    """Each explorer hears its own controls only, and draws with its own pattern."""
    page = lab.page
    write_notebook(lab.served.folder / "second_of_two.ipynb", MASK)
    alone(lab, "first_of_two.ipynb", MASK)
    lab.kernel_answers = False
    page.locator(".jp-DirListing-item", has_text="second_of_two").dblclick()
    lab.wait_for_kernel()
    lab.run_all(1)
    boxes = [page.locator(".jp-NotebookPanel").nth(n).locator(".attention-explorer") for n in range(2)]
    first = boxes[0].locator(".attention-headline").text_content()
    switch_mask_on(boxes[1])
    assert boxes[0].locator(".attention-headline").text_content() == first
    page.locator(".lm-DockPanel .lm-TabBar-tab", has_text="first_of_two").click()
    switch_mask_on(boxes[0])
    patterns = page.evaluate(PATTERNS)
    assert len({name for name, _ in patterns}) >= 2
    assert all(own for _, own in patterns)


def test_an_explorer_in_notebook_7_comes_back_into_view_and_its_picture_is_there_when_reopened(lab):
    page, file = lab.page, lab.served.folder / "seven.ipynb"
    write_notebook(file, MASK, *(nbformat.v4.new_markdown_cell(f"{n}\n\n" * 9) for n in range(30)))
    settings = lab.served.scratch / "jupyterlab_settings_dir/@jupyterlab/notebook-extension/tracker.jupyterlab-settings"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"windowingMode": "full"}))  # without cells that are out of view
    page.goto(f"{lab.served.address}/notebooks/{file.name}?token={TOKEN}")
    lab.wait_for_kernel()
    settings.unlink()
    page.locator(".jp-CodeCell .cm-content").first.click()
    page.keyboard.press("Control+Enter")
    box = page.locator(".attention-explorer")
    box.locator("[role=img]").wait_for()
    switch_mask_on(box)
    for top, state in (10_000, "attached"), (0, "detached"):
        page.locator(".jp-WindowedPanel-outer").evaluate("(panel, top) => panel.scrollTo(0, top)", top)
        page.locator(".jp-CodeCell[style*='opacity: 0']").wait_for(state=state)
    said = box.locator(".attention-headline", has_text="has to guess")
    said.wait_for()
    box.locator("button", has_text="Reset").click()
    said.wait_for(state="detached")
    page.keyboard.press("Control+s")
    lab.wait_until(lambda: "image/svg+xml" in file.read_text(), "it wasn't saved")
    page.reload()
    page.locator(".jp-OutputArea-output :is(img, svg)").first.wait_for()
    lab.errors[:] = [error for error in lab.errors if "idget" in error or "attention" in error]  # it has others


def middle_of(box, touch):
    part = f"[data-touch='{touch}']"
    return tuple(box.page.evaluate(MIDDLE, f"{part} > :not(title):last-child, rect{part}"))


def pull(mouse, spot, *places):
    mouse.move(*spot)
    mouse.down()
    for place in places:
        mouse.move(*place)
    mouse.up()


def drag(box, touch, *places):
    """Drag what's touched from place to place, and wait until it is where the hand left it."""
    spot = middle_of(box, touch)
    held = box.page.evaluate(ON_TOP, spot)  # another may be above it by now
    pull(box.page.mouse, spot, *places)
    end = pytest.approx(places[-1], abs=2)
    wait_until(lambda: middle_of(box, held) == end, lambda: f"{held} is at {middle_of(box, held)}, not {end}")


def test_a_row_is_chosen_by_pointer_and_by_keys_and_read_aloud_and_a_bar_is_dragged(lab):
    box, kernel = alone(lab, "scores.ipynb", CODE.format("ScoresExplorer(load_sentence('journey'))"))
    box.locator("[data-touch='query 4']").first.click()
    kernel.wait_for("shown.values['query']", 4)
    key = box.locator(".attention-touch")
    key.focus()
    key.press("ArrowDown")
    assert key.get_attribute("aria-valuetext").startswith("step looks at Your: ")
    assert box.locator(".attention-here").count() == 6
    key.press("Enter")
    kernel.wait_for("shown.values['query']", 5)
    box.locator(".attention-said", has_text=kernel.ask("shown.said")).wait_for(state="attached")
    key.press("Escape")
    assert box.evaluate("box => !box.contains(document.activeElement)")
    box.get_by_role("button", name="Reset").click()
    kernel.wait_for("shown.values['query']", 1)
    x, y = middle_of(box, "entry 0")
    box.locator(".attention-headline", has_text="“journey” looks").wait_for()
    top = lambda: box.locator("[data-touch='entry 0']").evaluate("bar => bar.getBoundingClientRect().y")  # noqa: E731
    end = pytest.approx(top() + 30, abs=2)
    pull(box.page.mouse, (x, y), (x, y + 15), (x, y + 30))  # by its middle: the bar's end moves as far as the hand
    lab.wait_until(lambda: top() == end, lambda: f"the bar's end is at {top()}, not {end}")
    assert kernel.ask("shown.shown['changed'][1, 0] < float(shown.embeddings[1, 0]) - 0.1")


def test_an_entry_of_a_matrix_is_typed_over(lab):
    box, kernel = alone(lab, "matrices.ipynb", CODE.format("QKVExplorer(made='matrices')"))
    box.locator("[data-touch='W_key 1,6']").click()
    key = box.locator(".attention-touch")
    assert key.get_attribute("aria-valuetext") == "W_key, row ?, column B: -10.00"
    key.press_sequentially("-2.5")
    entry = "float(shown.arrays.matrices['W_key'][{}])"
    kernel.wait_for(entry.format("6, 1"), -2.5)
    assert kernel.ask("bool((shown.embeddings @ shown.arrays.matrices['W_key'] == shown.arrays.keys).all())")
    cells = box.page.locator(".jp-Cell")
    before = cells.count()
    for pressed in ("Control+a", "x", "a", "b", "d", "d", "Delete"):
        key.press(pressed)
    assert (cells.count(), box.page.locator(".jp-Cell.jp-mod-selected").count()) == (before, 1)
    kernel.wait_for(entry.format("6, 1"), -10.0)  # Delete puts it back
    key.press("ArrowUp")
    key.press_sequentially("7")
    kernel.wait_for(entry.format("5, 1"), 7.0)
    key.press("Escape")
    kernel.wait_for(entry.format("5, 1"), 0.0)
    key.press("Escape")  # from now on, keys are Lab's again
    box.page.keyboard.press("b")
    lab.wait_until(lambda: cells.count() == before + 1, "no cell was added")


def test_a_click_asks_a_query_and_a_dragged_key_follows_and_its_last_place_is_never_lost(lab):
    box, kernel = alone(lab, "keys.ipynb", CODE.format("KeyWidthExplorer()"))
    page, draw = box.page, random.Random(0)
    page.mouse.click(*middle_of(box, "query 6"))
    kernel.wait_for("(shown.values['asked'], shown.shown['moved'])", (6, {}))
    page.evaluate(COUNT)
    plane, rates = box.locator("rect[stroke-width='0.5']").first.bounding_box(), []
    for _ in range(3):
        along = [(draw.uniform(9, plane["width"] - 9), draw.uniform(9, plane["height"] - 9)) for _ in range(60)]
        before, start = page.evaluate("window.pictures"), time.perf_counter()
        drag(box, "key 1", *((plane["x"] + x, plane["y"] + y) for x, y in along))
        rates.append((page.evaluate("window.pictures") - before) / (time.perf_counter() - start))
    assert max(rates) >= 20 or os.getloadavg()[0] > os.cpu_count()  # a second
    key = box.locator(".attention-touch")
    box.get_by_role("button", name="Reset").click()
    kernel.wait_for("shown.shown['moved']", {})
    key.focus()
    key.press("Enter")  # takes hold of what was last touched
    key.press("ArrowRight")
    kernel.wait_for("len(shown.shown['moved'])", 1)
    key.press("Escape")
    kernel.wait_for("shown.shown['moved']", {})
    kernel.do(*["shown.view.send('heard')"] * 3)  # as another view of it would be answered
    box.get_by_role("button", name="Play").click()
    kernel.wait_for("shown.values['step'] < 600")

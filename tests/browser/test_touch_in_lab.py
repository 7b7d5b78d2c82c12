"""What can be touched in an explorer's picture: by a pointer, by keys, and heard by a screen reader."""

import os
import random
import time

import pytest
from conftest import write_notebook
from kernel import Kernel
from lab import Lab

CODE = """
from attention_course import explorers
from attention_helpers import load_sentence
shown = explorers.{}
shown"""
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


@pytest.fixture
def opened(browser, served, request):
    """An explorer alone in a notebook: its box, its kernel and the errors of the page."""
    name = f"touch_{abs(hash(request.node.name))}.ipynb"
    write_notebook(served.folder / name, CODE.format(request.param))
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    lab = Lab(page, served.address)
    lab.open(name)
    lab.run_all(1)
    box = page.locator(".attention-explorer")
    box.locator("[role=img]").wait_for()
    kernel = Kernel(served, name)
    yield box, kernel
    assert lab.errors == []
    kernel.stop()
    page.close()


def wait_for(box, kernel, expression, value):
    deadline = time.monotonic() + 60
    while (found := kernel.ask(expression)) != value:
        assert time.monotonic() < deadline, f"{expression} is {found}, not {value}"
        box.page.wait_for_timeout(20)


def middle_of(box, touch):
    part = f"[data-touch='{touch}']"
    return tuple(box.page.evaluate(MIDDLE, f"{part} > :not(title):last-child, rect{part}"))


def settle(box, touch, to):
    """Wait until what's touched is where the hand left it."""
    deadline = time.monotonic() + 10
    while (found := middle_of(box, touch)) != pytest.approx(to, abs=2):
        assert time.monotonic() < deadline, f"{touch} is at {found}, not {to}"
        box.page.wait_for_timeout(20)


@pytest.mark.parametrize("opened", ["ScoresExplorer(load_sentence('journey'))"], indirect=True)
def test_a_row_is_chosen_by_pointer_and_by_keys_and_read_aloud_and_a_bar_is_dragged(opened):
    box, kernel = opened
    box.locator("[data-touch='query 4']").first.click()
    wait_for(box, kernel, "shown.values['query']", 4)
    key = box.locator(".attention-touch")
    key.focus()
    key.press("ArrowDown")
    assert key.get_attribute("aria-valuetext").startswith("step looks at Your: ")
    assert box.locator(".attention-here").count() == 6
    key.press("Enter")
    wait_for(box, kernel, "shown.values['query']", 5)
    box.locator(".attention-said", has_text=kernel.ask("shown.said")).wait_for(state="attached")
    key.press("Escape")
    assert box.evaluate("box => !box.contains(document.activeElement)")
    box.get_by_role("button", name="Reset").click()
    wait_for(box, kernel, "shown.values['query']", 1)
    x, y = middle_of(box, "entry 0")
    box.page.mouse.move(x, y)
    box.page.mouse.down()
    box.page.mouse.move(x, y + 30, steps=5)
    box.page.mouse.up()
    settle(box, "entry 0", (x, y + 30))
    assert kernel.ask("shown.shown['changed'][1, 0] < float(shown.embeddings[1, 0]) - 0.1")


@pytest.mark.parametrize("opened", ["QKVExplorer(made='matrices')"], indirect=True)
def test_an_entry_of_a_matrix_is_typed_over(opened):
    box, kernel = opened
    box.locator("[data-touch='W_key 1,6']").click()
    key = box.locator(".attention-touch")
    assert key.get_attribute("aria-valuetext") == "W_key, row ?, column B: -10.00"
    key.press_sequentially("-2.5")
    entry = "float(shown.arrays.matrices['W_key'][{}])"
    wait_for(box, kernel, entry.format("6, 1"), -2.5)
    assert kernel.ask("bool((shown.embeddings @ shown.arrays.matrices['W_key'] == shown.arrays.keys).all())")
    key.press("ArrowUp")
    key.press_sequentially("7")
    wait_for(box, kernel, entry.format("5, 1"), 7.0)
    key.press("Escape")
    wait_for(box, kernel, entry.format("5, 1"), 0.0)


@pytest.mark.parametrize("opened", ["KeyWidthExplorer()"], indirect=True)
def test_a_click_asks_a_query_and_a_dragged_key_follows_and_its_last_place_is_never_lost(opened):
    box, kernel = opened
    page, draw = box.page, random.Random(0)
    page.mouse.click(*middle_of(box, "query 6"))
    wait_for(box, kernel, "(shown.values['asked'], shown.shown['moved'])", (6, {}))
    page.evaluate(COUNT)
    rates, plane = [], box.locator("rect[stroke-width='0.5']").first.bounding_box()
    for _ in range(5):
        spot = middle_of(box, "key 1")
        held = page.evaluate(ON_TOP, spot)  # another may be above it by now
        page.mouse.move(*spot)
        page.mouse.down()
        before, start = page.evaluate("window.pictures"), time.perf_counter()
        for _ in range(60):
            to = (plane["x"] + draw.uniform(9, plane["width"] - 9), plane["y"] + draw.uniform(9, plane["height"] - 9))
            page.mouse.move(*to)
        rates.append((page.evaluate("window.pictures") - before) / (time.perf_counter() - start))
        page.mouse.up()
        settle(box, held, to)
    assert max(rates) >= 20 or os.getloadavg()[0] > os.cpu_count()  # a second
    key = box.locator(".attention-touch")
    box.get_by_role("button", name="Reset").click()
    wait_for(box, kernel, "shown.shown['moved']", {})
    key.focus()
    key.press("Enter")  # takes hold of what was last touched
    key.press("ArrowRight")
    wait_for(box, kernel, "len(shown.shown['moved'])", 1)
    key.press("Escape")
    wait_for(box, kernel, "shown.shown['moved']", {})
    kernel.ask("[shown.view.send('heard') for _ in range(3)] and None")  # as another view of it would be answered
    box.get_by_role("button", name="Play").click()
    wait_for(box, kernel, "shown.values['step'] < 600", True)

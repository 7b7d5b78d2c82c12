"""Every notebook in JupyterLab, run from top to bottom, and every explorer, operated by keyboard and mouse."""

import re
from urllib.parse import unquote

import course
import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import START, each
from visit import prompt

from attention_course import explorers

WITH_EXPLORER = [path for path in course.PATHS if "Explorer(" in path.read_text(encoding="utf-8")]
with_explorer = each(WITH_EXPLORER)
ROOM = """box => {
    const [picture, place] = [box.querySelector('[role=img]'), box.closest('.jp-OutputArea-output')];
    const parts = [...picture.querySelectorAll('svg')].map(svg => ({svg, room: svg.getBoundingClientRect()}));
    const inside = (a, b) => a.left > b.left - 2 && a.right < b.right + 2
        && a.top > b.top - 4 && a.bottom < b.bottom + 4;  // a line of type is higher than its letters
    const cut = ({svg, room}) => [...svg.querySelectorAll('text')]
        .filter(word => !inside(word.getBoundingClientRect(), room)).map(word => word.textContent);
    const words = parts.flatMap(({svg}) => [...svg.querySelectorAll('text')]);
    return {
        height: box.getBoundingClientRect().height, scrolls: place.scrollWidth > place.clientWidth,
        cut: parts.flatMap(cut), scales: parts.map(({svg, room}) => room.width / svg.viewBox.baseVal.width),
        smallest: Math.min(...words.map(word => parseFloat(getComputedStyle(word).fontSize))),
    };
}"""
CUT = """row => [...row.querySelectorAll('.widget-label, button')].filter(
    part => part.scrollWidth > part.clientWidth).map(part => part.innerText)"""


@pytest.fixture
def explorer(notebook):
    """The notebook's explorer in its first state."""
    explorer = notebook.explorer
    explorer.reset()
    return explorer


@with_explorer
def test_keyboard_moves_every_control_and_resets(explorer):
    """Tab goes from control to control; each key changes picture, alt text and words, as the kernel has them."""
    first = explorer.settle()
    said = {first["said"]}
    for number in explorer.enabled():
        name, before = explorer.names[number], explorer.values()
        explorer.walk_to(number)
        explorer.press_to_change(number)
        page = explorer.settle(lambda values, name=name, before=before: values[name] != before[name])
        said.add(page["said"])
        assert page["alt"] != first["alt"], name
        explorer.walk_to(len(explorer.names))
        assert explorer.reset() == first
    assert len(said) > 1


@with_explorer
def test_fast_drag_ends_in_the_final_state(explorer):
    for number in explorer.enabled():
        name, before = explorer.names[number], explorer.values()
        if explorer.drag(number):
            explorer.settle(lambda values, name=name, before=before: values[name] != before[name])


@with_explorer
def test_it_fits_on_a_screen_and_nothing_is_cut_off_or_too_small(explorer):
    for width in (800, 1024, 1400):  # the last as before
        explorer.page.set_viewport_size({"width": width, "height": 900})
        room = still(explorer.box, ROOM)
        assert max(room["scales"]) <= 1.01
        assert room["smallest"] * min(room["scales"]) >= 8
        assert room["cut"] == []
        assert not room["scrolls"]
        assert explorer.box.locator(":scope > .widget-gridbox").evaluate(CUT) == []
    assert room["height"] <= 660
    assert min(room["scales"]) >= 0.99  # where there's room, a drawing has its own size


def still(box, look):
    """What a look at a box says as soon as two looks in a row say the same."""
    before, now = None, box.evaluate(look)
    while before != now:
        box.page.wait_for_timeout(150)
        before, now = now, box.evaluate(look)
    return now


@each([START, *WITH_EXPLORER])
def test_axe_finds_nothing_messages_are_read_aloud_and_buttons_have_tooltips(notebook):
    page, boxes = notebook.page, notebook.page.locator(".jp-OutputArea-output .attention-explorer")
    boxes.locator("[role=img]").first.wait_for()
    with notebook.all_in_view():
        dark = {"runOnly": ["color-contrast"]}  # what else axe asks is the same in both
        for theme, rules in ("JupyterLab Dark", dark), ("JupyterLab Light", {}):  # the last as before
            choose_theme(page, theme)
            notebook.lab.rest()
            found = Axe().run(page, context=".attention-explorer", options=rules).response["violations"]
            assert {violation["help"]: [node["html"] for node in violation["nodes"]] for violation in found} == {}
        for box in boxes.all():
            assert box.get_by_role("status").count() == 1
            assert box.locator("button:is(:not([title]), [title=''], [title=null])").all_inner_texts() == []
    assert notebook.lab.errors == []


def choose_theme(page, name):
    """Menu Settings, Theme, and a name."""
    page.locator(".lm-MenuBar-itemLabel", has_text="Settings").click()
    page.locator(".lm-Menu-itemLabel").get_by_text("Theme", exact=True).hover()
    page.locator("[data-command='apputils:change-theme']").get_by_text(name, exact=True).click()
    page.wait_for_function("name => document.body.dataset.jpThemeName == name", arg=name)


def test_every_explorer_stands_in_a_notebook():
    """So that the tests of a live explorer leave none out."""
    source = "\n".join(cell.source for path in course.PATHS for cell in course.code_cells(course.read(path)))
    assert [name for name in explorers.__all__ if f"{name}(" not in source] == []


def test_stored_pictures_are_shown_at_first_but_nothing_is_said_or_changed_before_a_cell_is_run(notebook):
    """A stored answer would spoil the prediction, and "unsaved changes" a learner's trust."""
    shown = {unquote(picture.partition(",")[2]) for picture in notebook.first["pictures"]}
    missing = [n for n, picture in enumerate(notebook.stored) if picture not in shown]
    assert missing == [], f"of {len(notebook.stored)} stored pictures; the page shows {len(shown)}"
    assert notebook.first["said"] == []
    assert notebook.first["prompts"] == [prompt(cell, " ") for cell in notebook.cells]
    assert not notebook.first["dirty"]
    assert notebook.last["dirty"], "or it cannot be seen"


def test_it_runs_without_an_error_and_code_and_what_it_prints_fit_on_a_screen(notebook):
    assert notebook.last["errors"] == []
    assert notebook.last["prompts"] == [prompt(cell, n) for n, cell in enumerate(notebook.cells, 1)]
    assert [said for said in notebook.last["said"] if re.search("model not found|fails: ", said, re.IGNORECASE)] == []
    assert notebook.lab.errors == []
    assert notebook.cut_off == [], "on a small screen"

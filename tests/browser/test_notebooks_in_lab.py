"""Every notebook in JupyterLab, run from top to bottom, and every explorer, operated by keyboard and mouse."""

import re
import time
from urllib.parse import unquote

import course
import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import START, each, prompt
from lab import PATIENCE

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
LOOK = """(box, controls) => {
    const [said, message] = ['headline', 'message'].map(kind => box.querySelector(`.attention-${kind}`).textContent);
    const value = control => {
        const [choice, tick, button] = ['select', 'input', '.mod-active'].map(kind => control.querySelector(kind));
        if (choice) return choice.selectedOptions[0].value;
        if (tick?.type === 'text') return tick.value;
        if (tick) return tick.checked ? 'True' : 'False';
        return (button || control.querySelector('.widget-readout')).textContent;
    };
    return {
        values: [...box.firstElementChild.children].slice(0, controls).map(value),
        alt: box.querySelector('[role=img]').getAttribute('aria-label'), said, message,
    };
}"""
HELD = """{
    'values': [
        c.label if hasattr(c, 'label') else format(c.value, getattr(c, 'readout_format', ''))
        for c in _live.controls.values()
    ],
    'alt': _live.alt,
    'said': __import__('attention_course.explorers.words').explorers.words.plain(_live.said),
    'message': __import__('html').unescape(__import__('re').sub('<[^>]*>', '', _live.message)),
}"""
# A second thread may be between a new value and its picture: an impossible state has a message and no picture.
DRAWN = "_live.values.items() <= _live.shown.items() or _live.message != ''"
FOUND = "globals().update(_live=next(shown for _, shown in sorted(Out.items()) if hasattr(shown, 'controls')))"


class LiveExplorer:
    """The first explorer that the notebook shows; `names` are those of its controls."""

    def __init__(self, lab, kernel):
        self.lab, self.page, self.kernel = lab, lab.page, kernel
        kernel.ask(FOUND)
        self.names, self.kind = kernel.ask("list(_live.controls)"), kernel.ask("type(_live).__name__")
        self.box = lab.page.locator(f".jp-OutputArea-output .{self.kind}").first
        self.box.locator("[role=img]").wait_for()  # some time after the cell's end
        self.first = kernel.ask("{name: _live._first[name] for name in _live.controls}")

    def settle(self, until=lambda values: True):
        """Wait until the kernel's values are as `until` asks, and the page shows what the kernel holds; return that.

        A slider's own number changes in the page at once: as long as the kernel has not heard of it, the two differ.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            page = self.box.evaluate(LOOK, len(self.names))
            values, drawn, kernel = self.kernel.ask(f"(_live.values, {DRAWN}, {HELD})")
            if until(values) and drawn and page == kernel:
                return page
            assert time.monotonic() < deadline, f"in state {values} the page has {page}, the kernel {kernel}"
            self.page.wait_for_timeout(30)

    def settle_away(self, name):
        """Settle where this control has another value than at first."""
        return self.settle(lambda values: values[name] != pytest.approx(self.first[name]))

    def control(self, number):
        """A control by its place in the row; the Reset button's place is behind the last."""
        if number == len(self.names):
            return self.box.locator(".attention-reset")
        return self.box.locator(":scope > .widget-hbox > *").nth(number)

    def enabled(self):
        """The places of the controls that aren't greyed out."""
        greyed = self.kernel.ask("[control.disabled for control in _live.controls.values()]")
        return [number for number, out in enumerate(greyed) if not out]

    def focus(self, number):
        first = "control.querySelector('.noUi-handle, select, input, button')"
        self.control(number).evaluate(f"control => (control.matches('button') ? control : {first}).focus()")

    def walk_to(self, number):
        """Tab from the first control to another."""
        self.focus(0)
        for _ in range(3 * number + 16):  # a slider and its number are one stop each, and so is each button of a row
            if self.control(number).evaluate("control => control.contains(document.activeElement)"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not reach control {number}")

    def press_to_change(self, number):
        """Press the key that changes the control's value, whatever its kind."""
        control, press = self.control(number), self.page.keyboard.press
        if control.locator(".noUi-handle").count():
            self.lab.nudge(control.locator(".noUi-handle"))
        elif control.locator("select").count():
            press("Space")
            control.locator("select:open").wait_for()  # an arrow on a closed list belongs to Lab: to the next cell
            last = control.locator("select").evaluate("box => box.selectedIndex == box.options.length - 1")
            press("ArrowUp" if last else "ArrowDown")
            press("Enter")
        elif control.locator("input[type=text]").count():
            value = self.kernel.ask(f"_live.values[{self.names[number]!r}]")
            press("End")
            self.page.keyboard.type(f", {value.partition(',')[0]}" if self.names[number] == "sentence" else "s")
            press("Enter")
        elif control.locator("input").count():
            press("Space")
        else:  # of a row of buttons, the first or the second
            if control.locator("button").first.get_attribute("aria-pressed") == "true":
                press("Tab")
            press("Space")

    def drag(self, number):
        """Drag a slider's handle to the far end and a third of the way back, in many moves without a pause.

        The far end is a step away or more, so two thirds of the way there are another value, if there are two at all;
        else, and for a control that's no slider, this returns False.
        """
        handle, track = (self.control(number).locator(part) for part in (".noUi-handle", ".noUi-base"))
        if not handle.count() or handle.get_attribute("aria-valuemin") == handle.get_attribute("aria-valuemax"):
            return False
        handle.hover()
        start, room, mouse = handle.bounding_box(), track.bounding_box(), self.page.mouse
        x, y = start["x"] + start["width"] / 2, start["y"] + start["height"] / 2
        far = max(room["x"] - x, room["x"] + room["width"] - x, key=abs)
        mouse.down()
        mouse.move(x + far, y, steps=15)
        mouse.move(x + 2 / 3 * far, y, steps=15)
        mouse.up()
        return True

    def reset(self):
        """Press the Reset button by a key."""
        self.focus(len(self.names))
        self.page.keyboard.press("Enter")
        # The page may send a slider's 1.0 back as 1.0000000000000002.
        return self.settle(lambda values: values == pytest.approx(self.first))


@pytest.fixture
def explorer(notebook):
    """The notebook's explorer in its first state."""
    explorer = LiveExplorer(notebook.lab, notebook.kernel)
    explorer.reset()
    return explorer


@with_explorer
def test_keyboard_moves_every_control_and_resets(explorer):
    """Tab goes from control to control; each key changes picture, alt text and words, as the kernel has them."""
    first = explorer.settle()
    said = {first["said"]}
    for number in explorer.enabled():
        name = explorer.names[number]
        explorer.walk_to(number)
        explorer.press_to_change(number)
        page = explorer.settle_away(name)
        said.add(page["said"])
        assert page["alt"] != first["alt"], name
        explorer.walk_to(len(explorer.names))
        assert explorer.reset() == first
    assert len(said) > 1


@with_explorer
def test_fast_drag_ends_in_the_final_state(explorer):
    for number in explorer.enabled():
        if explorer.drag(number):
            explorer.settle_away(explorer.names[number])


@with_explorer
def test_it_fits_on_a_screen_and_nothing_is_cut_off_or_too_small(explorer):
    for width in (800, 1024, 1400):  # the last as before
        explorer.page.set_viewport_size({"width": width, "height": 900})
        room = still(explorer.box, ROOM)
        assert max(room["scales"]) <= 1.01
        assert room["smallest"] * min(room["scales"]) >= 8
        assert room["cut"] == []
        assert not room["scrolls"]
        assert explorer.box.locator(":scope > .widget-hbox").evaluate(CUT) == []
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


def test_stored_pictures_are_shown_at_first_but_nothing_is_said_or_changed_before_a_cell_is_run(notebook):
    """A stored answer would spoil the prediction, and "unsaved changes" a learner's trust."""
    shown = {unquote(picture.partition(",")[2]) for picture in notebook.first["pictures"]}
    missing = [n for n, picture in enumerate(notebook.stored) if picture not in shown]
    assert missing == [], f"of {len(notebook.stored)} stored pictures; the page shows {len(shown)}"
    assert notebook.first["said"] == []
    assert notebook.first["prompts"] == [prompt(cell, " ") for cell in notebook.cells]
    assert not notebook.first["dirty"]
    assert notebook.last["dirty"], "or it cannot be seen"


def test_it_runs_without_an_error(notebook):
    assert notebook.last["errors"] == []
    assert notebook.last["prompts"] == [prompt(cell, n) for n, cell in enumerate(notebook.cells, 1)]
    assert [said for said in notebook.last["said"] if re.search("model not found|fails: ", said, re.IGNORECASE)] == []
    assert notebook.lab.errors == []

"""An explorer in an open notebook, as a hand on the keyboard and an eye on the page meet it."""

import time

import pytest
from lab import PATIENCE

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

    def __init__(self, page, kernel):
        self.page, self.kernel = page, kernel
        kernel.ask(FOUND)
        self.names, self.kind = kernel.ask("list(_live.controls)"), kernel.ask("type(_live).__name__")
        self.box = page.locator(f".jp-OutputArea-output .{self.kind}").first
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

    def values(self):
        return self.kernel.ask("_live.values")

    def control(self, number):
        """A control by its place in the grid; the Reset button's place is behind the last."""
        if number == len(self.names):
            return self.box.locator(":scope > .widget-hbox > button").first
        return self.box.locator(":scope > .widget-gridbox > *").nth(number)

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
            handle = control.locator(".noUi-handle")
            at_end = handle.get_attribute("aria-valuenow") == handle.get_attribute("aria-valuemax")
            press("ArrowLeft" if at_end else "ArrowRight")
        elif control.locator("select").count():
            press("Space")
            control.locator("select:open").wait_for()  # an arrow on a closed list belongs to Lab: to the next cell
            last = control.locator("select").evaluate("box => box.selectedIndex == box.options.length - 1")
            press("ArrowUp" if last else "ArrowDown")
            press("Enter")
        elif control.locator("input[type=text]").count():
            value = self.values()[self.names[number]]
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
        handle.scroll_into_view_if_needed()
        start, room, mouse = handle.bounding_box(), track.bounding_box(), self.page.mouse
        x, y = start["x"] + start["width"] / 2, start["y"] + start["height"] / 2
        far = max(room["x"] - x, room["x"] + room["width"] - x, key=abs)
        mouse.move(x, y)
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

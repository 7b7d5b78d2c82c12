"""Every explorer in JupyterLab: operated by keyboard and mouse, it shows what the kernel computed."""

import course
import pytest
from axe_playwright_python.sync_playwright import Axe

WITH_EXPLORER = [path for path in course.PATHS if "Explorer(" in path.read_text(encoding="utf-8")]
pytestmark = pytest.mark.parametrize("notebook", WITH_EXPLORER, indirect=True, ids=lambda path: path.stem)
# One step from the first state leads there: the page says why, and the picture stays.
IMPOSSIBLE = {
    ("MaskExplorer", "num_tokens"): "⚠ token 5 is not among the first 5: poke an earlier one, or take more tokens",
}
# To see another picture, press so often: renormalised weights are the same as those of a mask of -inf.
PRESSES = {("MaskExplorer", "method"): 2}
# ipywidgets gives its sliders no accessible name: a fault that axe finds while it looks.
UNNAMED_SLIDERS = {"aria-input-field-name": "ARIA input fields must have an accessible name"}
# Nor do its Play's buttons have one; what they do, the slider beside them does as well.
UNNAMED_BUTTONS = {"LearningExplorer": {"button-name": "Buttons must have discernible text"}}


@pytest.fixture
def explorer(notebook):
    """The notebook's explorer in its first state."""
    explorer = notebook.explorer
    explorer.reset()
    return explorer


def test_keyboard_moves_every_control(explorer):
    """Tab goes from control to control; each key changes picture, alt text and readout, as the kernel has them."""
    first, readouts = explorer.settle(), set()
    for number, name in enumerate(explorer.names):
        explorer.walk_to(number)
        for _ in range(PRESSES.get((explorer.kind, name), 1)):
            before = explorer.values()[name]
            explorer.press_to_change(number)
            page = explorer.settle(lambda values, name=name, before=before: values[name] != before)
        readouts.add(page["readout"])
        if (explorer.kind, name) in IMPOSSIBLE:
            assert page == first | {"values": page["values"], "message": IMPOSSIBLE[explorer.kind, name]}
        else:
            assert page["png"] != first["png"], name
            assert page["alt"] != first["alt"], name
            explorer.check(page)
        explorer.reset()
    assert len(readouts) > 1


def test_reset_by_keyboard(explorer):
    first = explorer.settle()
    last = len(explorer.names) - 1
    explorer.focus(last)
    explorer.press_to_change(last)
    assert explorer.settle(lambda values: not explorer.is_first(values))["png"] != first["png"]
    explorer.walk_to(len(explorer.names))
    explorer.page.keyboard.press("Enter")
    page = explorer.settle(explorer.is_first)
    assert page == first
    explorer.check(page)


def test_fast_drag_ends_in_the_final_state(explorer):
    for number in explorer.sliders():
        name, before = explorer.names[number], explorer.values()
        explorer.drag(number, events=30)
        explorer.check(explorer.settle(lambda values, name=name, before=before: values[name] != before[name]))


def test_thirty_fast_keys_end_in_the_final_state(explorer):
    for number in explorer.sliders():
        explorer.focus(number)
        for n in range(30):
            explorer.page.keyboard.press("ArrowLeft" if n % 10 < 5 else "ArrowRight")
        explorer.check(explorer.settle())


def test_picture_is_drawn_for_twice_the_pixel_density(explorer):
    drawn, shown = explorer.settle()["size"]
    assert drawn >= 2 * shown - 1


def test_axe_finds_nothing_else(explorer):
    box = explorer.box.evaluate("box => { box.id = 'the-explorer'; return '#' + box.id }")
    found = Axe().run(explorer.page, context=box).response["violations"]
    known = UNNAMED_SLIDERS | UNNAMED_BUTTONS.get(explorer.kind, {})
    assert {violation["id"]: violation["help"] for violation in found} == known

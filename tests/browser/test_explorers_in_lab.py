"""Every explorer in JupyterLab: operated by keyboard and mouse, it shows what the kernel computed."""

import course
import pytest

WITH_EXPLORER = [path for path in course.PATHS if "Explorer(" in path.read_text(encoding="utf-8")]
pytestmark = pytest.mark.parametrize("notebook", WITH_EXPLORER, indirect=True, ids=lambda path: path.stem)
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


def test_fast_drag_ends_in_the_final_state(explorer):
    for number in [number for number in explorer.enabled() if len(set(explorer.ends(number))) > 1]:
        name, before = explorer.names[number], explorer.values()
        explorer.drag(number, events=30)
        explorer.settle(lambda values, name=name, before=before: values[name] != before[name])


def test_it_fits_on_a_screen_and_nothing_is_cut_off_or_too_small(explorer):
    for width in (800, 1024, 1400):  # the last as before
        explorer.page.set_viewport_size({"width": width, "height": 900})
        room = still(explorer, ROOM)
        assert max(room["scales"]) <= 1.01
        assert room["smallest"] * min(room["scales"]) >= 8
        assert room["cut"] == []
        assert not room["scrolls"]
        assert explorer.box.locator(":scope > .widget-gridbox").evaluate(CUT) == []
    assert room["height"] <= 660
    assert min(room["scales"]) >= 0.99  # where there's room, a drawing has its own size


def still(explorer, look):
    """What a look at the explorer's box says as soon as two looks in a row say the same."""
    before, now = None, explorer.box.evaluate(look)
    while before != now:
        explorer.page.wait_for_timeout(250)
        before, now = now, explorer.box.evaluate(look)
    return now

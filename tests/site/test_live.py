"""The site's live explorers: what they show is what the explorers compute, for keyboards, without scripts, in calm."""

import random

import pytest
from course import PATHS, ROOT, code_cells, read
from playwright.sync_api import expect

from tools.notebooks.live_pages import PLAYGROUND, Live
from tools.notebooks.pages import explorer_of

SITE = ROOT / "build" / "site"
FRONT = "docs/index.html"
# Goes from place to place, then compares what is shown, whatever the order of its attributes.
MOVE = """(box, [places, code]) => {
    const inputs = box.querySelectorAll('label > input, label > select');
    for (const place of places) {
        inputs.forEach((input, n) => { input.value = place[n]; });
        inputs[inputs.length - 1]?.dispatchEvent(new Event('input'));
    }
    const seen = box.querySelector('.live-view').cloneNode(true), made = seen.cloneNode();
    seen.querySelectorAll('[tabindex]').forEach((each) => each.removeAttribute('tabindex')); // the theme gives them
    made.innerHTML = code;
    return seen.isEqualNode(made);
}"""


LIVE = {FRONT: [(PLAYGROUND, "Playground")]}  # of each page, its explorers in turn: the code of each, and its kind
for path in PATHS:
    cells = code_cells(read(path))
    found = [explorer_of(cell, [each.source for each in cells]) for cell in cells]
    LIVE[path.relative_to(ROOT).with_suffix(".html").as_posix()] = [*filter(None, found)]
ADDRESSED = next(page for page, found in LIVE.items() if "ScoresExplorer" in dict(map(reversed, found)))


@pytest.fixture
def opened(browser, request):
    """Opens a page of the site, as a reader with these settings sees it."""

    def at(page, motion="reduce", **settings):
        tab = browser.new_page(viewport={"width": 1300, "height": 900}, reduced_motion=motion, **settings)
        request.addfinalizer(tab.close)
        tab.goto(f"{SITE.as_uri()}/{page}")
        return tab

    return at


@pytest.mark.parametrize("page", [page for page, found in LIVE.items() if found])
def test_a_random_state_of_each_explorer_is_what_it_computes(opened, page):
    tab = opened(page)
    for nth, (codes, kind) in enumerate(LIVE[page]):
        draw, live = random.Random(kind), Live(codes, kind)
        places = [[draw.randrange(len(offered)) for offered in live.grid.values()] for _ in range(5)]
        assert tab.locator(".live").nth(nth).evaluate(MOVE, [places, live.page(places[-1])]), kind


def test_without_javascript_the_first_state_is_a_picture(opened):
    box = opened(ADDRESSED, java_script_enabled=False).locator(".live")
    assert box.locator(".live-view svg").first.is_visible()
    assert not box.locator(".live-controls").is_visible()


def test_the_playground_plays_when_seen_and_stays_still_for_those_who_want_no_motion(opened):
    still, moves = opened(FRONT), opened(FRONT, motion="no-preference")
    step = "Number(document.querySelector('.live input').value)"
    first = still.evaluate(step)
    moves.wait_for_function(f"{step} > 2")
    moves.get_by_role("button", name="Pause").click()
    at = moves.evaluate(step)
    moves.wait_for_timeout(500)
    assert moves.evaluate(step) == at
    assert still.evaluate(step) == first


def test_arrow_keys_move_a_slider_the_headline_is_announced_and_each_state_has_an_address(opened):
    tab = opened(ADDRESSED)
    box = tab.locator(".live.ScoresExplorer")
    view, slider = box.locator(".live-view"), box.locator("input").first
    first, at = view.inner_html(), int(slider.input_value())
    slider.focus()
    slider.press("ArrowRight")
    assert int(slider.input_value()) == at + 1
    assert slider.get_attribute("aria-valuetext") == slider.locator("~ output").text_content()
    expect(box.locator(".live-said")).to_contain_text(box.locator(".attention-headline").text_content())
    tab.wait_for_url("**#ScoresExplorer?*")
    moved = view.inner_html()
    assert moved != first
    again = opened(f"{ADDRESSED}#{tab.url.partition('#')[2]}")
    assert again.locator(".live.ScoresExplorer .live-view").inner_html() == moved
    old = opened(f"{ADDRESSED}#ScoresExplorer?query=no+such&temperature=1")
    assert old.locator(".live.ScoresExplorer .live-view").inner_html() == first

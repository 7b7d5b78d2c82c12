"""The site's live explorers: what they show is what the explorers compute, for keyboards, without scripts, in calm."""

import random
from functools import cache

import pytest
from course import PATHS, ROOT, code_cells, read
from playwright.sync_api import expect

from tools.notebooks.live_pages import PLAYGROUND, Live
from tools.notebooks.pages import explorer_of

SITE = ROOT / "build" / "site"
FRONT, MOST = "docs/index.html", 150_000
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


def explorers():
    """The code of each live explorer, by its page, its kind, and its place among those of its kind on the page."""
    found = {(FRONT, "Playground", 0): PLAYGROUND}
    for path in PATHS:
        cells, page = code_cells(read(path)), path.relative_to(ROOT).with_suffix(".html").as_posix()
        for cell in cells:
            if live := explorer_of(cell, [each.source for each in cells]):
                codes, kind = live
                found[page, kind, sum(each[:2] == (page, kind) for each in found)] = codes
    return found


LIVE = explorers()
PAGES = sorted({page for page, *_ in LIVE})
fresh = cache(lambda page, kind, nth: Live(LIVE[page, kind, nth], kind))


@pytest.fixture
def opened(browser):
    """Opens a page of the site, as a reader with these settings sees it."""
    contexts = []

    def at(page, **settings):
        contexts.append(browser.new_context(viewport={"width": 1300, "height": 900}, **settings))
        tab = contexts[-1].new_page()
        path, _, place = page.partition("#")
        tab.goto((SITE / path).as_uri() + (f"#{place}" if place else ""))
        return tab

    yield at
    for context in contexts:
        context.close()


@pytest.mark.parametrize("place", range(len(LIVE)))
def test_a_random_state_is_what_the_explorer_computes(opened, place):
    draw = random.Random(place)
    page, kind, nth = [*LIVE][place]
    live = fresh(page, kind, nth)
    places = [[draw.randrange(len(offered)) for offered in live.grid.values()] for _ in range(5)]
    tab = opened(page, reduced_motion="reduce")
    assert tab.locator(f".live.{kind}").nth(nth).evaluate(MOVE, [places, live.page(places[-1])])


@pytest.mark.parametrize(("page", "kind", "nth"), [each for each in LIVE if each[1] != "QKVExplorer"])  # it has a list
def test_the_arrow_keys_move_a_slider_and_the_headline_is_announced(opened, page, kind, nth):
    tab = opened(page, reduced_motion="reduce")
    box = tab.locator(f".live.{kind}").nth(nth)
    view, said, slider = box.locator(".live-view"), box.locator(".live-said"), box.locator("input").last
    before = view.inner_html()
    slider.focus()
    at = int(slider.input_value())
    slider.press("ArrowLeft" if at else "ArrowRight")
    assert int(slider.input_value()) == (at - 1 if at else 1)
    assert view.inner_html() != before
    assert tab.evaluate("document.activeElement.type") == "range"
    assert slider.get_attribute("aria-valuetext") == slider.locator("~ output").text_content()
    expect(said).to_contain_text(box.locator(".attention-headline").text_content())


@pytest.mark.parametrize("page", PAGES)
def test_without_javascript_the_first_state_is_a_picture(opened, page):
    tab = opened(page, java_script_enabled=False)
    assert tab.locator(".live-view svg").first.is_visible()
    assert not tab.locator(".live-controls").first.is_visible()


def test_the_playground_plays_when_seen_and_stays_still_for_those_who_want_no_motion(opened):
    still, moves = opened(FRONT, reduced_motion="reduce"), opened(FRONT)
    step = "Number(document.querySelector('.live input').value)"
    moves.wait_for_function(f"{step} > 2")
    moves.get_by_role("button", name="Pause").click()
    at = moves.evaluate(step)
    first = still.evaluate(step)
    moves.wait_for_timeout(500)
    assert moves.evaluate(step) == at
    assert still.evaluate(step) == first


ADDRESSED = next(each for each in LIVE if each[1] == "ScoresExplorer")


def test_each_state_has_an_address_and_one_that_does_not_fit_opens_the_first(opened):
    page, kind, _ = ADDRESSED
    view, headline = f".live.{kind} .live-view", f".live.{kind} .attention-headline"
    tab = opened(page, reduced_motion="reduce")
    first = tab.locator(view).inner_html()
    slider = tab.locator(f".live.{kind} input").first
    slider.focus()
    slider.press("ArrowLeft")  # from its last value
    tab.wait_for_url(f"**#{kind}?*")
    address, moved = tab.url, tab.locator(view).inner_html()
    assert moved != first
    again = opened(f"{page}#{address.partition('#')[2]}", reduced_motion="reduce")
    assert again.locator(view).inner_html() == moved
    assert again.locator(headline).is_visible()
    for old in (f"{kind}?query=no+such&temperature=1", f"{kind}?former=2", "another-anchor"):
        assert opened(f"{page}#{old}", reduced_motion="reduce").locator(view).inner_html() == first

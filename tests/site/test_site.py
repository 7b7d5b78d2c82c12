"""The reading site, as a reader meets it in a browser: from files, with no server. `make site` has made it."""

import gzip
import html
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from course import PATHS, ROOT, SVG, code_cells, read

SITE = ROOT / "build" / "site"
PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.glob("*/**/*.html") if "_static" not in path.parts)
PAGES.append("search.html")
PNG = "image/png"
MOST = 250_000  # bytes of a page with its pictures, compressed
WIDE, LAPTOP, PHONE = ({"width": width, "height": 800} for width in (1300, 1200, 390))
LOOK = """() => ({
    links: [...document.querySelectorAll('a[href]')].map(link => link.href),
    wrong: document.querySelectorAll('.math:not(:has(svg))').length,
    figures: [...document.querySelectorAll('.cell_output img')].map(it => it.alt),
    broken: [...document.images].filter(picture => !picture.naturalWidth || !picture.alt).map(picture => picture.src),
    drawings: [...document.querySelectorAll('.bd-article [role=img]:not(.formula)')].map(it => it.ariaLabel),
})"""
CUT_OFF = """() => [...document.querySelectorAll('.bd-article pre')].filter(
    it => it.checkVisibility() && it.scrollWidth > it.clientWidth).map(it => it.innerText)"""
# The theme has noticed, and no colour is on its way any more.
TURNED = "name => document.documentElement.dataset.theme == name && !document.getAnimations().length"

# Words of code that are of one kind have one colour: with one of each, axe needs seconds, with all of them a minute.
THIN_OUT = """() => {
    const known = new Set();
    for (const word of document.querySelectorAll('pre span')) {
        known.has(word.className) ? word.replaceWith(...word.childNodes) : known.add(word.className);
    }
}"""


class Visit:
    """A page, opened once and seen in light, in dark and as wide as a phone; what it asked for and complained of."""

    def __init__(self, page, name):
        self.page, self.name, self.requests, self.complaints = page, name, [], []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("requestfailed", lambda request: self.complaints.append(f"not loaded: {request.url}"))
        page.on("console", lambda said: said.type in ("error", "warning") and self.complaints.append(said.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto((SITE / name).as_uri())
        self.seen = page.evaluate(LOOK)
        page.evaluate(THIN_OUT)
        self.light = self.scheme("light", {})
        self.dark = self.scheme("dark", {"runOnly": ["color-contrast"]})  # what else axe asks is the same in both
        page.set_viewport_size(LAPTOP)
        self.cut_off = page.evaluate(CUT_OFF)
        page.set_viewport_size(PHONE)
        self.width_on_phone = page.evaluate("document.documentElement.scrollWidth")

    def scheme(self, name, rules):
        """How bright the page's ground is, from 0 to 765, and what axe finds."""
        self.page.emulate_media(color_scheme=name)
        self.page.wait_for_function(TURNED, arg=name)
        ground = self.page.evaluate("getComputedStyle(document.body).backgroundColor")
        # Unless told not to, axe fetches the styles, which a page that was read from a file may not.
        axe = Axe().run(self.page, options={"preload": False, **rules})
        return sum(map(int, re.findall(r"\d+", ground)[:3])), axe.response["violations"]


NOTEBOOKS = [page for page in PAGES if (ROOT / page).with_suffix(".ipynb").is_file()]


def in_turn(pages):
    """A test of each page; pytest groups them, so that each page is opened once."""
    return pytest.mark.parametrize("visit", pages, indirect=True, ids=str)


@pytest.fixture(scope="session")
def visit(browser, request):
    page = browser.new_page(viewport=WIDE)
    yield Visit(page, request.param)
    page.close()


@cache
def anchors(file):
    return set(re.findall(r'\bid="([^"]+)"', file.read_text(encoding="utf-8")))


def test_every_notebook_is_a_page():
    assert sorted(path.relative_to(ROOT).with_suffix(".html").as_posix() for path in PATHS) == NOTEBOOKS
    assert "docs/index.html" in PAGES


@in_turn(PAGES)
def test_a_page_asks_nobody_and_complains_of_nothing(visit):
    assert visit.requests
    assert not [url for url in visit.requests if not url.startswith(("file:", "data:", "blob:"))]
    assert visit.complaints == []


@in_turn(PAGES)
def test_every_link_and_anchor_leads_somewhere(visit):
    assert visit.seen["links"]
    for link in visit.seen["links"]:
        parts = urlsplit(link)
        if parts.scheme == "file":
            file = Path(unquote(parts.path))
            assert file.is_file(), link
            assert not parts.fragment or unquote(parts.fragment) in anchors(file), link
        else:
            assert parts.scheme == "https", link


@in_turn(PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_has_no_fault_for_those_who_cannot_see_it(visit, scheme):
    _, faults = getattr(visit, scheme)
    assert not faults, [(fault["id"], node["html"]) for fault in faults for node in fault["nodes"]]


@in_turn(PAGES)
def test_a_page_is_dark_where_the_reader_wants_it_and_fits_a_phone(visit):
    assert visit.dark[0] < 150 < 600 < visit.light[0]
    assert visit.width_on_phone <= PHONE["width"]


@in_turn([page for page in NOTEBOOKS if "/solutions/" not in page])
def test_a_notebooks_code_and_what_it_prints_are_not_cut_off(visit):
    assert visit.cut_off == []


def picture_in_words(output):
    if PNG in output.data:
        return output.metadata[PNG]["alt"]
    return html.unescape(re.search('aria-label="([^"]*)"', output.data[SVG])[1])


@in_turn(NOTEBOOKS)
def test_a_notebooks_page_shows_its_formulas_figures_and_explorers(visit):
    cells = code_cells(read((ROOT / visit.name).with_suffix(".ipynb")))
    pictures = [output for cell in cells for output in cell.outputs if {PNG, SVG} & {*output.get("data", {})}]
    figures = [output for output in pictures if ": run this cell" not in output.data["text/plain"]]
    assert visit.seen["figures"] == [*map(picture_in_words, figures)]
    assert len(visit.seen["drawings"]) == len(pictures) - len(figures)
    assert visit.seen["broken"] == []
    assert visit.seen["wrong"] == 0


@pytest.mark.parametrize("page", NOTEBOOKS)
def test_a_notebooks_page_is_small(page):
    file = SITE / page
    pictures = re.findall(r'<img [^>]*src="(?!data:)([^"]+)"', file.read_text(encoding="utf-8"))
    parts = {file, *(file.parent / unquote(picture) for picture in pictures)}
    assert sum(len(gzip.compress(part.read_bytes())) for part in parts) <= MOST

"""The site's figures are drawings of what the notebooks show: in the page's colours, small, and readable on a phone."""

import base64
import gzip
import re

import pytest
from course import LESSONS, ROOT

from attention_helpers import plots
from tools.notebooks import live_pages
from tools.notebooks.figures import drawings, drawn

SITE = ROOT / "build" / "site"
MOST = 150_000  # bytes of a page with its figures, compressed
# A figure's letters in pixels, also of one below a prediction that hides it, and the ids of the page.
SEEN = """() => document.querySelectorAll('details').forEach((each) => (each.open = true)) || [
    [...document.querySelectorAll('svg.figure')].map((figure) => {
        const scale = figure.getBoundingClientRect().width / figure.viewBox.baseVal.width;
        const letters = [...figure.querySelectorAll('text, tspan')].filter((text) => text.textContent.trim());
        return Math.min(...letters.map((text) => parseFloat(getComputedStyle(text).fontSize) * scale));
    }),
    [...document.querySelectorAll('svg.figure [id]')].map((each) => each.id),
    [...document.querySelectorAll('.cell_output img')].map((picture) => picture.alt),
]"""
SHOWS = r"""
from attention_helpers.plots import draw_heatmap, new_figure, show_figure
figure, [ax] = new_figure()
draw_heatmap(ax, [[1, {value}], [0, 0.5]], ["<a>", "b"], ["  c", "d"], "two\nlines", hidden=[[0, 0], [0, 1]])
show_figure(figure, "at most 1")
"""


def stored(monkeypatch, code):
    """The picture that a code's figure is stored as."""
    pictures = []
    with monkeypatch.context() as patched:
        patched.setattr(plots, "show_figure", lambda figure, caption: pictures.append(plots.png_bytes(figure)))
        exec(code, {})
    return pictures[0]


def test_a_figure_is_drawn_only_if_it_is_the_stored_one(monkeypatch):
    code = SHOWS.format(value=0.25)
    picture = stored(monkeypatch, code)
    svg = drawn([code], {"at most 1": picture})["at most 1"]
    assert {"1.00", "0.25", "&lt;a&gt;", "  c", "two", "lines"} <= set(re.findall(r">([^<>]+)<", svg))
    assert set(re.findall(r"#[0-9a-f]{6}\b", svg)) == {"#ffffff", "#999999"}  # letters on full colour, and hatching
    assert drawn([SHOWS.format(value=0.5)], {"at most 1": picture}) == {}
    assert drawn([code], {"at most 2": picture}) == {}
    trained = code.replace("at most 1", "≈ 0.99 at most")
    assert drawn([trained], {"≈ 1.00 at most": picture}).keys() == {"≈ 1.00 at most"}


def test_a_figure_that_comes_out_differently_stays_as_it_is_stored_and_the_build_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(live_pages, "KEPT", tmp_path)
    picture = base64.b64encode(stored(monkeypatch, SHOWS.format(value=0.25))).decode()
    output = {"data": {"image/png": picture}, "metadata": {"image/png": {"alt": "at most 1"}}}
    for value, found, lines in ((0.25, {"at most 1"}, 0), (0.5, set(), 1)):
        cell = {"cell_type": "code", "source": SHOWS.format(value=value), "outputs": [output]}
        assert drawings({"cells": [cell]}, "notebooks/99_new").keys() == found
        assert len(capsys.readouterr().out.splitlines()) == lines


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_a_lessons_figures_are_readable_on_a_phone_and_small(browser, lesson):
    file = SITE / lesson.relative_to(ROOT).with_suffix(".html")
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(file.as_uri())
    letters, ids, pictures = page.evaluate(SEEN)
    page.close()
    assert all(size >= 8 for size in letters)
    assert len(set(ids)) == len(ids)
    assert all("≈" in alt for alt in pictures)  # a measurement, or a training that went otherwise on this machine
    code = file.read_text(encoding="utf-8")
    shown = {file.parent / name for name in re.findall(r'<img (?![^>]*≈)[^>]*src="([^"]+)"', code)}
    assert sum(len(gzip.compress(each.read_bytes())) for each in [file, *shown]) <= MOST

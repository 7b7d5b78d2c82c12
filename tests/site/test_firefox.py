"""The site in Firefox: one slider, so that a browser of another make is there at all."""

import pytest
from course import ROOT
from firefox import FIREFOX, RIGHT, firefox

PAGE = ROOT / "build" / "site" / "notebooks" / "01_dot_product_scores.html"
BOX = "document.querySelector('.live.ScoresExplorer {}')"


@pytest.mark.skipif(not FIREFOX, reason="there's no Firefox on this machine")
def test_a_key_moves_a_slider():
    temperature, picture = BOX.format("label:nth-of-type(2) input"), BOX.format("[role=img]") + ".ariaLabel"
    with firefox() as page:
        page.open(PAGE.as_uri())
        page.wait_for(f"!{BOX.format('.live-controls')}.hidden")
        before, value = page.evaluate(picture), page.evaluate(f"+{temperature}.value")
        page.evaluate(f"{temperature}.focus()")
        page.press(RIGHT)
        page.wait_for(f"{picture} !== {before!r}")
        assert page.evaluate(f"+{temperature}.value") == value + 1

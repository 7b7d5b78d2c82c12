"""For ears and keyboards: axe finds no fault with an explorer, and what it says is announced."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import START
from test_explorers_in_lab import WITH_EXPLORER

pytestmark = pytest.mark.parametrize("notebook", [START, *WITH_EXPLORER], indirect=True, ids=lambda path: path.stem)


@pytest.fixture
def boxes(notebook):
    """The explorers of a notebook, at rest."""
    boxes = notebook.page.locator(".jp-OutputArea-output .attention-explorer")
    boxes.locator("[role=img]").first.wait_for()
    with notebook.all_in_view():
        rest(notebook.page)
        yield boxes.all()
        rest(notebook.page)


def rest(page):
    """Pause what plays, all at once: a training may end by itself between two clicks."""
    playing = page.locator(".attention-explorer button:has-text('Pause')")
    playing.evaluate_all("buttons => buttons.forEach(button => button.click())")


def test_axe_finds_nothing_messages_are_read_aloud_and_buttons_have_tooltips(notebook, boxes):
    for theme in ("JupyterLab Dark", "JupyterLab Light"):  # the last as before
        choose_theme(notebook.page, theme)
        found = Axe().run(notebook.page, context=".attention-explorer").response["violations"]
        assert {violation["help"]: [node["html"] for node in violation["nodes"]] for violation in found} == {}
    for box in boxes:
        assert box.get_by_role("status").count() == 1
        assert box.locator("button:is(:not([title]), [title=''], [title=null])").all_inner_texts() == []
    assert notebook.lab.errors == []


def choose_theme(page, name):
    """Menu Settings, Theme, and a name."""
    page.locator(".lm-MenuBar-itemLabel", has_text="Settings").click()
    page.locator(".lm-Menu-itemLabel").get_by_text("Theme", exact=True).hover()
    page.locator("[data-command='apputils:change-theme']").get_by_text(name, exact=True).click()
    page.wait_for_function("name => document.body.dataset.jpThemeName == name", arg=name)

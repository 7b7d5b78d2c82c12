"""For ears and keyboards: each control of an explorer has a name and a value as shown, and no key raises an error."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import START
from test_explorers_in_lab import WITH_EXPLORER, choose_theme

pytestmark = pytest.mark.parametrize("notebook", [START, *WITH_EXPLORER], indirect=True, ids=lambda path: path.stem)
# What a keyboard reaches in an explorer, in its order, with the name and the value that an eye finds beside it.
SEEN = """box => {
    const kinds = '.noUi-handle, .widget-readout[contenteditable=true], select, input, button';
    const reached = control => control.checkVisibility({visibilityProperty: true});
    window.controls = [...box.querySelectorAll(kinds)].filter(reached);
    return window.controls.map(control => {
        const [row, tick] = [control.closest('.widget-inline-hbox'), control.matches('[type=checkbox]')];
        const name = control.matches('button') ? control.textContent || control.title
            : (tick ? control.closest('label') : row.querySelector('.widget-label')).textContent;
        const value = tick ? `${control.checked}`
            : control.matches('.widget-toggle-button') ? `${control.matches('.mod-active')}`
            : control.matches('select') ? control.selectedOptions[0].text
            : control.matches('div') ? row.querySelector('.widget-readout').textContent : control.value;
        return [name, value].map(text => text.replaceAll('\\xa0', ' ').trim());
    });
}"""
# A control that can be used now gets the focus; in a list also an option is chosen, since an open one takes more keys.


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
    playing = page.locator(".attention-explorer button:is(:has-text('Pause'), [title=Pause])")
    playing.evaluate_all("buttons => buttons.forEach(button => button.click())")


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])  # the last as before
def test_axe_finds_nothing(notebook, boxes, theme):
    choose_theme(notebook.page, theme)
    found = Axe().run(notebook.page, context=".jp-OutputArea-output").response["violations"]
    assert {violation["help"]: [node["html"] for node in violation["nodes"]] for violation in found} == {}
    assert notebook.lab.errors == []


def test_each_control_has_its_name_and_speaks_its_value(notebook, boxes):
    reader = notebook.page.context.new_cdp_session(notebook.page)
    for box in boxes:
        check_what_is_heard(box, reader)
        for handle in box.locator(".noUi-handle").all():
            if handle.is_visible():
                handle.press("ArrowLeft")
        check_what_is_heard(box, reader)


def check_what_is_heard(box, reader):
    for _ in range(100):  # a control may move, come or go between a look and the next
        seen = box.evaluate(SEEN)
        told = [heard(box.page, reader, number) for number in range(len(seen))]
        if seen == told:
            break
        box.page.wait_for_timeout(100)
    assert seen == told
    assert len(seen) > 2
    assert all(name for name, _ in seen)


def heard(page, reader, number):
    """The name and value of a control that the browser gives to a screen reader, as SEEN has them."""
    control = reader.send("Runtime.evaluate", {"expression": f"window.controls[{number}]"})["result"]["objectId"]
    node = reader.send("Accessibility.getPartialAXTree", {"objectId": control, "fetchRelatives": False})["nodes"][0]
    if "name" not in node:  # gone since it was looked at, or the browser's tree for readers comes after the page
        return None
    value = str(node.get("value", {}).get("value", ""))
    if node["role"]["value"] in ("button", "checkbox"):
        states = [each for each in node["properties"] if each["name"] in ("pressed", "expanded", "checked")]
        value = ", ".join(str(each["value"]["value"]).lower() for each in states)
    elif node["role"]["value"] == "slider":  # the browser speaks these words, but doesn't list them
        value = page.evaluate(f"window.controls[{number}].getAttribute('aria-valuetext')")
    return [text.replace("\xa0", " ").strip() for text in (node["name"]["value"], value)]


def test_messages_are_read_aloud_and_buttons_have_tooltips(boxes):
    for box in boxes:
        assert box.get_by_role("status").count() == 1
        assert box.locator("button:is(:not([title]), [title=''], [title=null])").all_inner_texts() == []

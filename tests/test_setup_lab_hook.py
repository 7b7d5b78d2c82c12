"""Before Lab saves a notebook: which widget views are dropped, and that nothing else is."""

import copy

import pytest

from tools.setup.lab_hook import STATE, VIEW, drop_dead_views


def model(*outputs, held=()):
    """What the server hands to its hook: a notebook of one cell with these outputs, which holds these widgets."""
    cells = [{"cell_type": "markdown", "source": "text"}, {"cell_type": "code", "outputs": list(outputs)}]
    widgets = {"widgets": {STATE: {"version_major": 2, "state": {name: {} for name in held}}}} if held else {}
    return {"type": "notebook", "format": "json", "content": {"cells": cells, "metadata": widgets, "nbformat": 4}}


def output(name, **data):
    return {"output_type": "display_data", "metadata": {}, "data": {VIEW: {"model_id": name}} | data}


def test_only_views_of_widgets_that_the_file_does_not_hold_are_dropped():
    picture = {"image/svg+xml": "<svg/>", "text/plain": "words"}
    stream = {"output_type": "stream", "text": "printed"}
    saved = model(output("here", **picture), stream, output("gone", **picture), held=["here"])
    drop_dead_views(model=saved, path="01.ipynb", contents_manager=None)
    dead = {"output_type": "display_data", "metadata": {}, "data": picture}
    assert saved == model(output("here", **picture), stream, dead, held=["here"])


def test_a_notebook_that_holds_no_widgets_keeps_their_pictures_alone():
    saved = model(output("gone", **{"image/svg+xml": "<svg/>"}))
    drop_dead_views(saved)
    assert saved["content"]["cells"][1]["outputs"][0]["data"] == {"image/svg+xml": "<svg/>"}


def test_an_output_that_is_nothing_but_a_view_stays():
    saved = model(output("gone"))
    drop_dead_views(saved)
    assert saved == model(output("gone"))


@pytest.mark.parametrize("metadata", [None, [], {"widgets": None}, {"widgets": {STATE: []}}, {"widgets": {STATE: {}}}])
def test_metadata_of_another_form_holds_no_widget(metadata):
    saved = model(output("gone", text="words"))
    saved["content"]["metadata"] = metadata
    drop_dead_views(saved)
    assert saved["content"]["cells"][1]["outputs"][0]["data"] == {"text": "words"}
    assert saved["content"]["metadata"] == metadata


@pytest.mark.parametrize("view", [None, "gone", [], {}, {"model_id": None}, {"model_id": ["gone"]}])
def test_a_view_that_names_no_widget_is_dropped(view):
    saved = model(output("gone", text="words") | {"data": {VIEW: view, "text": "words"}}, held=["here"])
    drop_dead_views(saved)
    assert saved["content"]["cells"][1]["outputs"][0]["data"] == {"text": "words"}


@pytest.mark.parametrize(
    "saved",
    [
        {},
        {"type": "directory", "content": None},
        {"type": "file", "content": f"text with {VIEW}"},
        {"type": "notebook", "content": {"worksheets": []}},
        {"type": "notebook", "content": {"cells": [None, "x", {"outputs": None}, {"outputs": ["x", {"data": []}]}]}},
    ],
)
def test_what_is_no_notebook_is_left_as_it_is(saved):
    before = copy.deepcopy(saved)
    drop_dead_views(saved)
    assert saved == before

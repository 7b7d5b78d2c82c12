"""Before Lab saves a notebook: which widget views are dropped, and that nothing else is."""

import copy

import pytest

from tools.setup.lab_hook import STATE, VIEW, drop_dead_views

PICTURE = {"image/svg+xml": "<svg/>", "text/plain": "words"}


def model(*outputs, held=()):
    """What the server hands to its hook: a notebook of one cell with these outputs, which holds these widgets."""
    cells = [{"cell_type": "markdown", "source": "text"}, {"cell_type": "code", "outputs": list(outputs)}]
    widgets = {"widgets": {STATE: {"version_major": 2, "state": {name: {} for name in held}}}} if held else {}
    return {"type": "notebook", "format": "json", "content": {"cells": cells, "metadata": widgets, "nbformat": 4}}


def output(name, **data):
    return {"output_type": "display_data", "metadata": {}, "data": {VIEW: {"model_id": name}} | data}


@pytest.mark.parametrize("held", [[], ["here"]])
def test_only_views_of_widgets_that_the_file_does_not_hold_are_dropped(held):
    others = [{"output_type": "stream", "text": "printed"}, *(output(name, **PICTURE) for name in held)]
    saved = model(*others, output("gone", **PICTURE), held=held)
    drop_dead_views(model=saved, path="01.ipynb", contents_manager=None)
    assert saved == model(*others, {"output_type": "display_data", "metadata": {}, "data": PICTURE}, held=held)


@pytest.mark.parametrize(
    "saved",
    [
        model(output("gone")),  # nothing but a view: there is no picture to show instead
        {"type": "directory", "content": None},
        {"type": "file", "content": f"text with {VIEW}"},
    ],
)
def test_what_has_no_picture_to_show_is_left_as_it_is(saved):
    before = copy.deepcopy(saved)
    drop_dead_views(saved)
    assert saved == before

"""What Lab's server stores of an explorer when it saves a notebook: its picture."""

import copy

import pytest
from made import make

from tools.setup.lab_hook import SVG, VIEW, drop_dead_views


def stored(*outputs):
    """What's stored of a notebook's outputs."""
    cells = [{"cell_type": "markdown", "source": "text"}, {"cell_type": "code", "outputs": list(outputs)}]
    model = {"type": "notebook", "content": {"cells": cells, "metadata": {}, "nbformat": 4}}
    drop_dead_views(model=model, path="01.ipynb", contents_manager=None)
    return model["content"]["cells"][1]["outputs"]


def output(**data):
    return {"output_type": "display_data", "metadata": {}, "data": {VIEW: {"model_id": "1"}} | data}


@pytest.mark.parametrize("name", ["ScoresExplorer", "Playground"])
def test_an_explorer_is_stored_as_its_first_picture(name):
    bundle = make(name)._repr_mimebundle_()
    assert VIEW in bundle
    [shown] = stored(output(**bundle))
    assert shown["data"] == {kind: bundle[kind] for kind in (SVG, "text/plain")}


def test_a_progress_bar_is_not_stored():
    assert stored(output(**{"text/plain": ["train:   0%|          | 0/8"]})) == []


def test_other_widgets_and_outputs_stay():
    others = [output(**{"text/plain": "VBox()"}), {"output_type": "stream", "name": "stdout", "text": "a 5%| b"}]
    assert stored(*copy.deepcopy(others)) == others


def test_a_file_that_is_no_notebook_stays():
    drop_dead_views(model={"type": "file", "content": "text"})

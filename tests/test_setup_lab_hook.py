"""What Lab's server stores of widgets when it saves a notebook: what they showed last."""

import copy
import json
import re
import xml.etree.ElementTree as ET

import ipywidgets
import pytest
from explorer_page import SVG as ELEMENT
from ipywidgets.embed import dependency_state
from made import make, settings_of
from tqdm.notebook import tqdm_notebook

from attention_course.explorers.base import plain
from tools.setup.lab_hook import ADVICE, STATE, SVG, VIEW, drop_dead_views


def model(*outputs, held=()):
    """What the server passes to its hook: a notebook of one cell with these outputs, which holds these widgets."""
    cells = [{"cell_type": "markdown", "source": "text"}, {"cell_type": "code", "outputs": list(outputs)}]
    state = json.loads(json.dumps(dependency_state(held))) if held else {}  # a file has lists and no tuples
    widgets = {"widgets": {STATE: {"version_major": 2, "version_minor": 0, "state": state}}} if held else {}
    return {"type": "notebook", "format": "json", "content": {"cells": cells, "metadata": widgets, "nbformat": 4}}


def output(view, **data):
    return {"output_type": "display_data", "metadata": {}, "data": {VIEW: {"model_id": view}} | data}


def stored(saved, number=0):
    drop_dead_views(model=saved, path="01.ipynb", contents_manager=None)
    return saved["content"]["cells"][1]["outputs"][number]["data"]


def words(svg):
    return ["".join(each.itertext()) for each in svg.iter(f"{ELEMENT}text")]


def moved(name):
    """An explorer after its last control was moved, and the output that shows it, as its cell has stored it before."""
    explorer = make(name)
    shown = output(explorer.model_id, **explorer._repr_mimebundle_())
    [*_, last] = explorer.controls.values()
    last.value = settings_of(last)[-1]
    return explorer, shown


@pytest.mark.parametrize("name", ["ScoresExplorer", "TextExplorer", "ReadingExplorer", "LayerExplorer", "Playground"])
def test_an_explorer_is_stored_as_the_picture_that_it_showed_last(name):
    explorer, shown = moved(name)
    saved = model(shown, held=[explorer])
    data = stored(saved)
    assert data.keys() == {SVG, "text/plain"}
    assert saved["content"]["metadata"] == {}
    picture, live = ET.fromstring(data[SVG]), ET.fromstring(explorer.svg)
    assert picture.get("aria-label") == explorer.alt
    said, drawn = words(picture), words(live)
    assert ADVICE in said[0]
    assert " ".join(said[1 : -len(drawn)]) == plain(explorer.said)
    assert said[-len(drawn) :] == drawn


def test_a_progress_bar_is_stored_as_its_last_words():
    bar = tqdm_notebook(total=8, desc="a & b", display=False)
    bar.update(6)
    bar.refresh()
    saved = model(output(bar.container.model_id, **{"text/plain": "a & b:   0%"}), held=[bar.container])
    data = stored(saved)
    assert data.keys() == {"text/plain"}
    assert re.search(r"a\s&\sb:\s+75%.*6/8", data["text/plain"])
    assert saved["content"]["metadata"] == {}


def test_of_a_notebook_with_both_only_the_courses_widgets_are_left_out():
    texts = [ipywidgets.HTML(text) for text in ("<svg><path/></svg>", "<div role='img'>a</div>", "a<br>b")]
    other, (explorer, shown) = ipywidgets.VBox([ipywidgets.IntSlider(3), *texts]), moved("ScoresExplorer")
    theirs = output(other.model_id, **{"text/plain": "VBox(...)"})
    saved, alone = model(shown, copy.deepcopy(theirs), held=[explorer, other]), model(theirs, held=[other])
    assert VIEW not in stored(saved)
    assert saved["content"]["cells"][1]["outputs"][1] == theirs
    assert saved["content"]["metadata"] == alone["content"]["metadata"]

"""What each explorer shows besides its arrays, lesson by lesson."""

import itertools
import xml.etree.ElementTree as ET

import pytest
from explorer_checks import SVG

from tools.bench.made import SENTENCE, make, settings_of


@pytest.fixture(scope="module")
def explorer():
    """Each explorer, made once: explorer("ScoresExplorer")."""
    made = {}
    return lambda name: made.setdefault(name, make(name))


def cells_of(root):
    """Each cell's tooltip and colour."""
    return {rect.find(f"{SVG}title").text: rect.get("fill-opacity") for rect in root.iter(f"{SVG}rect") if len(rect)}


def test_the_picture_shows_the_arrays(explorer):
    """Read the weights back from the cells' colours (full at 4 / num_tokens), and the numbers from their tooltips."""
    e = explorer("ScoresExplorer")
    e.set(query=1, temperature=0.1)
    cells, names = cells_of(ET.fromstring(e.svg)), SENTENCE.tokens
    for i, j in itertools.product(range(6), range(6)):
        weight = float(e.arrays.weights[i, j])
        ink = float(cells[f"{names[i]} reads {names[j]}: {weight:.4f}"])
        assert ink == pytest.approx(min(1, weight / (4 / 6)), abs=0.01)


def test_what_dropout_took_is_marked(explorer):
    """A cross for each weight that dropout removed; the masked ones are hatched."""
    e = explorer("WrapperExplorer")
    e.set(num_heads=2, dropout=0.5, seed=7)
    taken = int(((e.arrays.shown == 0) & (e.arrays.weights > 0)).sum())
    paths = ET.fromstring(e.svg).iter(f"{SVG}path")
    assert sum(path.get("d").count("M") for path in paths if path.get("stroke-width") == "1.5") == taken > 0


def test_only_divisors_are_offered_and_the_others_explained(explorer):
    e = explorer("SplitExplorer")
    e.set(d_out=12, num_heads=4)
    assert settings_of(e.controls["num_heads"]) == [1, 2, 3, 4, 6, 12]
    e.controls["d_out"].value = 15
    assert settings_of(e.controls["num_heads"]) == [1, 3, 5]
    assert e.values["num_heads"] == 3
    assert "4 doesn&#x27;t divide d_out = 15" in e.message.value
    assert "15 / 2 = 7.50" in e.readout
    e.controls["d_out"].value = 13
    assert e.values["num_heads"] == 1
    e.controls["d_out"].value = 16
    assert e.values["num_heads"] == 4  # the chosen value is back
    assert e.message.value == ""
    e.set(d_out=15)
    assert "4 doesn&#x27;t divide d_out = 15" in e.message.value  # as after a slider's move
    e.set(d_out=16)
    assert e.values["num_heads"] == 4


def test_more_key_heads_than_query_heads_are_explained(explorer):
    e = explorer("VariantsExplorer")
    e.set(num_heads=8, num_kv_heads=4)
    before = e.svg
    e.controls["num_heads"].value = 2
    assert "4 KV heads can&#x27;t be shared by 2 query heads" in e.message.value
    assert e.svg == before
    e.controls["num_kv_heads"].value = 1
    assert (e.message.value, len(e.arrays.weights)) == ("", 2)

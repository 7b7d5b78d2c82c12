"""Notebook 15: which suspects check_attention finds, and that it accepts layers that are right, whoever wrote them."""

import ast
import inspect

import pytest
import torch
from course import LESSONS, code_cells, read
from other_layers import RIGHT, WRONG, make_layer, more
from torch.nn import functional as F

from attention_course import real_bugs
from attention_course.build import build_layer
from attention_course.real_bugs import REPAIRS, SUSPECTS, Heads, check_attention, repair
from attention_helpers import layers
from attention_helpers.modern.cached import CachedAttention
from attention_helpers.modern.memory import GatedDeltaNet, LatentAttention
from attention_helpers.modern.positions import RotaryAttention

FINDS = {
    "A": "reads the future (training: False)",
    "B": "reads the future (training: True)",
    "C": "only some tokens read two back",
    "D": "two calls differ in eval mode",
    "E": "a cache changes rows",
    "F": "reads the future (training: False)",
    "G": "",  # any factor could be meant
    "H": "",  # nor does it know which KV head belongs to which query heads
    "I": "10 x overflows, or rounded buffers move rows",
    "J": "",  # it's called without padding
}
pytestmark = pytest.mark.filterwarnings("ignore:found no tuple of a cache")


@pytest.mark.parametrize("suspect", SUSPECTS, ids=lambda suspect: suspect.__name__)
@pytest.mark.parametrize(("seed", "width", "num_heads"), [(0, 16, 2), (1, 24, 3)])
def test_check_attention_finds_seven_of_ten_suspects(suspect, seed, width, num_heads):
    found = check_attention(build_layer(suspect, seed, width, width, 512, 0.2, num_heads))
    expected = FINDS[suspect.__name__[-1]]
    assert any(expected in words for words in found) if expected else not found


@pytest.mark.parametrize("suspect", REPAIRS, ids=lambda suspect: suspect.__name__)
def test_the_repaired_suspects_are_right(suspect):
    layer = build_layer(repair(suspect), 0, 16, 16, 512, 0.2, 2).eval()
    assert check_attention(layer) == []
    x = torch.randn(1, 6, 16)
    if suspect.__name__[-1] in "BDFG":  # no positions, no shared heads
        torch.testing.assert_close(layer(x), build_layer(Heads, 0, 16, 16, 512, 0.2, 2).eval()(x))
    if suspect.__name__[-1] == "H":
        heads = layer.project(x)
        expected = F.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True)
        torch.testing.assert_close(layer.attend(*heads), expected)
    if suspect.__name__[-1] == "J":
        torch.testing.assert_close(layer(x, padding=2)[:, 2:], layer(x[:, 2:]))


def test_check_attention_says_which_caches_it_did_not_test():
    with pytest.warns(match="tested none"):
        check_attention(make_layer())


COURSE = [
    (layers.SelfAttention_v1, 16, 16),
    (layers.SelfAttention_v2, 16, 16),
    (layers.CausalAttention, 16, 16, 512, 0.5),
    (layers.MultiHeadAttentionWrapper, 20, 4, 512, 0.2, 5),
    (layers.MultiHeadAttention, 24, 24, 512, 0.1, 3),
    (Heads, 16, 16, 512, 0.8, 2),
    (CachedAttention, 16, 16, 4, 2),
    (CachedAttention, 16, 16, 4, 4, 3),
    (RotaryAttention, 24, 24, 3, 1),
    (RotaryAttention, 16, 16, 2, 2, 8),
    (LatentAttention, 24, 24, 3, 8, 4, 4, 4),
    (GatedDeltaNet, 24, 24, 3, 8, 8),
]


@pytest.mark.parametrize(("layer_class", "sizes"), [(each, sizes) for each, *sizes in COURSE])
def test_check_attention_accepts_the_courses_layers(layer_class, sizes):
    assert check_attention(build_layer(layer_class, 0, *sizes), causal="SelfAtt" not in layer_class.__name__) == []


def test_check_attention_finds_dropout_that_is_not_divided_as_rare_as_on_the_page():
    layer = make_layer(*WRONG["drops without dividing"][1:], *more("self.p = 0.2"))
    assert check_attention(layer) == ["training has another mean"]


OTHERS = RIGHT.keys() - {  # that overflows, has no mask, or rows that aren't first; that needs another call
    "exp by hand", "unmasked", "weights first", "results that are kept", "tokens first",
    "parameters that are read through views",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_check_attention_accepts_right_layers_of_others(name):
    assert check_attention(make_layer(*RIGHT[name][1:])) == []


def test_the_page_shows_the_text_that_explorer_and_tests_use():
    [path] = [path for path in LESSONS if path.name.startswith("15")]
    shown = {ast.dump(node) for cell in code_cells(read(path)) for node in ast.parse(cell.source).body}
    ours = {getattr(node, "name", ""): node for node in ast.parse(inspect.getsource(real_bugs)).body}
    typed = ours.keys() - {"", "Heads", "repair"}
    assert sorted(name for name in typed if ast.dump(ours[name]) not in shown) == []

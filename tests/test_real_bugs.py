"""Notebook 15: which suspects check_attention finds, and that it accepts layers that are right, whoever wrote them."""

import ast
import math
from pathlib import Path

import pytest
import torch
from course import LESSONS, code_cells, read
from torch import nn
from torch.nn import functional as F

from attention_course import real_bugs
from attention_course.build import build_layer
from attention_course.real_bugs import REPAIRS, SUSPECTS, Heads, check_attention, repair
from attention_helpers.layers import (
    CausalAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttention_v1,
    SelfAttention_v2,
)
from attention_helpers.modern.cached import CachedAttention
from attention_helpers.modern.memory import GatedDeltaNet, LatentAttention
from attention_helpers.modern.positions import RotaryAttention, rope_frequencies

FINDS = {
    "A": "reads the future (training: False)",
    "B": "reads the future (training: True)",
    "C": "doesn't read two tokens back",
    "D": "two calls differ in eval mode",
    "E": "a cache changes rows",
    "F": "reads the future (training: False)",
    "G": "",  # any factor could be meant
    "H": "training has another mean",
    "I": "10 x overflows, or rounded buffers move rows",
    "J": "",  # it's called without padding
}


pytestmark = pytest.mark.filterwarnings("ignore:found no cache")


@pytest.mark.parametrize("suspect", SUSPECTS, ids=lambda suspect: suspect.__name__)
@pytest.mark.parametrize(("seed", "width", "num_heads"), [(0, 16, 2), (1, 16, 2), (2, 24, 3), (3, 40, 5)])
def test_check_attention_finds_eight_of_ten_suspects(suspect, seed, width, num_heads):
    found = check_attention(build_layer(suspect, seed, width, width, 512, 0.2, num_heads))
    expected = FINDS[suspect.__name__[-1]]
    assert any(expected in words for words in found) if expected else not found


@pytest.mark.parametrize("suspect", REPAIRS, ids=lambda suspect: suspect.__name__)
def test_the_repaired_suspects_are_right(suspect):
    layer = build_layer(repair(suspect), 0, 16, 16, 512, 0.2, 2).eval()
    assert check_attention(layer) == []
    x = torch.randn(1, 6, 16)
    if suspect.__name__[-1] in "BDFGH":  # no positions
        torch.testing.assert_close(layer(x), build_layer(Heads, 0, 16, 16, 512, 0.2, 2).eval()(x))
    if suspect.__name__[-1] == "J":
        torch.testing.assert_close(layer(x, padding=2)[:, 2:], layer(x[:, 2:]))


def test_check_attention_says_which_caches_it_did_not_test():
    with pytest.warns(match="none was tested"):
        check_attention(build_layer(GatedDeltaNet, 0, 16, 16, 2, 8, 8))


COURSE = {
    "v1": (SelfAttention_v1, 16, 16),
    "v2": (SelfAttention_v2, 16, 16),
    "causal": (CausalAttention, 16, 16, 512, 0.5),
    "wrapper": (MultiHeadAttentionWrapper, 16, 8, 512, 0.2, 2),
    "split": (MultiHeadAttention, 16, 16, 512, 0.1, 4),
    "steps": (Heads, 16, 16, 512, 0.8, 2),
    "three heads": (MultiHeadAttention, 24, 24, 512, 0.1, 3),
    "five heads": (MultiHeadAttentionWrapper, 20, 4, 512, 0.1, 5),
    "cached": (CachedAttention, 16, 16, 4, 2),
    "window": (CachedAttention, 16, 16, 4, 4, 3),
    "rotary": (RotaryAttention, 16, 16, 2, 1),
    "rotary, three heads": (RotaryAttention, 24, 24, 3, 1),
    "rotary window": (RotaryAttention, 16, 16, 2, 2, 8),
    "latent": (LatentAttention, 16, 16, 2, 8, 4, 4, 4),
    "latent, three heads": (LatentAttention, 24, 24, 3, 8, 4, 4, 4),
    "delta": (GatedDeltaNet, 16, 16, 2, 8, 8),
    "delta, three heads": (GatedDeltaNet, 24, 24, 3, 8, 8),
}


@pytest.mark.parametrize("name", COURSE)
def test_check_attention_accepts_the_courses_layers(name):
    layer_class, *sizes = COURSE[name]
    assert check_attention(build_layer(layer_class, 0, *sizes), causal=name not in ("v1", "v2")) == []


class Undivided(nn.Dropout):
    def forward(self, x):
        return x * (torch.rand_like(x) >= self.p) if self.training else x


def test_check_attention_finds_dropout_that_is_not_divided_as_rare_as_on_the_page():
    layer = build_layer(MultiHeadAttention, 0, 16, 16, 512, 0.2, 2)
    layer.dropout = Undivided(0.2)
    assert check_attention(layer) == ["training has another mean"]


class Foreign(nn.Module):
    """Causal attention of width 16 with two heads, as others write it; most classes below change a step."""

    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(16, 48)
        self.c_proj = nn.Linear(16, 16)
        self.drop = nn.Dropout(0.1)
        self.register_buffer("bias", torch.tril(torch.ones(1, 1, 512, 512)))

    def heads(self, x):
        return [part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.c_attn(x).chunk(3, dim=-1)]

    def context(self, q, k, v):
        n = q.shape[2]
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(self.bias[:, :, :n, :n] == 0, float("-inf"))
        return self.drop(F.softmax(scores, dim=-1)) @ v

    def forward(self, x):
        return self.drop(self.c_proj(self.context(*self.heads(x)).transpose(1, 2).flatten(2)))


class Fused(Foreign):
    def context(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.2 * self.training, is_causal=True)


class Einsum(Foreign):
    def context(self, q, k, v):
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * 8**-0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return torch.einsum("bhqk,bhkd->bhqd", scores.masked_fill(future, -1e9).softmax(-1), v)


class Additive(Foreign):
    def __init__(self):
        super().__init__()
        self.register_buffer("future", torch.full((512, 512), -torch.inf).triu(1))

    def context(self, q, k, v):
        n = q.shape[2]
        return torch.softmax(q @ k.mT / 8**0.5 + self.future[:n, :n], -1) @ v


class CosineTable(Additive):
    """RoPE with half-split pairs, cosines and sines in buffers."""

    def __init__(self):
        super().__init__()
        angles = torch.arange(512)[:, None] * rope_frequencies(8).float().repeat(2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def heads(self, x):
        q, k, v = super().heads(x)
        return self.rotated(q), self.rotated(k), v

    def rotated(self, x):
        n = x.shape[2]
        a, b = x.chunk(2, dim=-1)
        return x * self.cos[:n] + torch.cat((-b, a), dim=-1) * self.sin[:n]


class Alibi(Foreign):
    def context(self, q, k, v):
        places = torch.arange(q.shape[2])
        back = places[:, None] - places
        bias = -back * torch.tensor([0.25, 0.0625])[:, None, None]
        return torch.softmax((q @ k.mT / 8**0.5 + bias).masked_fill(back < 0, -torch.inf), -1) @ v


class NormedQueries(Additive):
    def heads(self, x):
        q, k, v = super().heads(x)
        return F.normalize(q, dim=-1) * 8, F.normalize(k, dim=-1), v


class ResidualBlock(Foreign):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)

    def forward(self, x):
        return x + super().forward(self.norm(x))


class WithWeights(Additive):
    """Returns its weights, too, which aren't a cache."""

    def forward(self, x):
        q, k, v = self.heads(x)
        n = x.shape[1]
        weights = torch.softmax(q @ k.mT / 8**0.5 + self.future[:n, :n], -1)
        return self.c_proj((weights @ v).transpose(1, 2).flatten(2)), weights


class Double(Additive):
    """In float64 inside, as a reference would be."""

    def context(self, q, k, v):
        return super().context(q.double(), k.double(), v.double()).to(v.dtype)


class Torch(nn.Module):
    """nn.MultiheadAttention with a causal mask, in which True hides."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, dropout=0.2, batch_first=True)

    def forward(self, x):
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.attention(x, x, x, attn_mask=future, need_weights=False)[0]


FOREIGN = [Foreign, Fused, Einsum, Additive, CosineTable, Alibi, NormedQueries, ResidualBlock, WithWeights, Double]


@pytest.mark.parametrize("layer_class", [*FOREIGN, Torch], ids=lambda each: each.__name__)
@pytest.mark.parametrize("seed", [0, 1])
def test_check_attention_accepts_right_layers_of_others(layer_class, seed):
    assert check_attention(build_layer(layer_class, seed)) == []


def test_the_page_shows_the_text_that_explorer_and_tests_use():
    [path] = [path for path in LESSONS if path.name.startswith("15")]
    shown = {}
    for cell in code_cells(read(path)):
        for node in ast.parse(cell.source).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                shown[node.name] = node
    module = ast.parse(Path(real_bugs.__file__).read_text(encoding="utf-8"))
    ours = {node.name: node for node in module.body if getattr(node, "name", "Heads") not in ("Heads", "repair")}
    assert {name: ast.dump(node) for name, node in ours.items()}.items() <= {
        name: ast.dump(node) for name, node in shown.items()
    }.items()
    assert len(ast.unparse(ours["check_attention"]).splitlines()) <= 40
    for suspect in SUSPECTS:
        node = ours[suspect.__name__]
        assert node.end_lineno - node.lineno < 15, suspect

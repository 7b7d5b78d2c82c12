"""The trace: what it lists is right, it misses no result that nobody used, and it raises no false alarm."""

import pytest
import torch
from sizes import ALL, Sizes, build
from torch import nn
from torch.nn import functional as F

from attention_course.any_layer.operations import trace
from attention_helpers import causal_mask

INF = torch.inf


def unused(f, *args, **kwargs):
    return [row.operation for row in trace(f, *args, **kwargs).unused]


# ---- leaks: layers that mask a copy and throw it away

LEAKS = {
    "masked_fill": lambda scores, mask: scores.masked_fill(mask, -INF),
    "masked_fill_": lambda scores, mask: scores.clone().masked_fill_(mask, -INF),
    "where": lambda scores, mask: torch.where(mask, -INF, scores),
}


def leaky(x, mask_in_vain, keep):
    """Attention that is masked in vain; `keep` binds the result to a name."""
    scores = x @ x.mT
    if keep:
        masked = mask_in_vain(scores, causal_mask(len(x)))
        assert masked.shape is not None  # asking for its shape does not use its values
    else:
        mask_in_vain(scores, causal_mask(len(x)))
    return scores.softmax(-1) @ x


@pytest.mark.parametrize("name", LEAKS)
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("grad", [True, False])
def test_no_leak_is_missed(name, keep, grad):
    with torch.set_grad_enabled(grad):
        assert unused(leaky, torch.randn(4, 3), LEAKS[name], keep) == [name]


WASTED = {
    "a view": (lambda x: (x.transpose(0, 1), x * 2)[1], ["transpose"]),
    "several outputs": (lambda x: (x.max(0), x.sum())[1], ["max"]),
    "asked for its shape": (lambda x: ((x + 1).shape, (x + 2).dtype, len(x + 3), (x + 4).dim()), ["add"] * 4),
}


@pytest.mark.parametrize(("f", "expected"), WASTED.values(), ids=WASTED)
def test_other_wasted_results(f, expected):
    assert unused(f, torch.ones(3, 3)) == expected


# ---- no false alarm


def layers():
    yield from (build(name, Sizes(2, 4, 1, 6, 2, 2, True, 0), dropout=0.3) for name in ALL)
    yield nn.TransformerEncoderLayer(6, 2, 8, dropout=0.3, batch_first=True)
    yield nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True), nn.LayerNorm(6), nn.Dropout(0.3), nn.GELU())


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("grad", [True, False])
def test_no_false_alarm_and_the_same_result_on_correct_layers(train, grad):
    for layer in layers():
        layer.train(train)
        x = torch.randn(2, 4, 6)
        with torch.set_grad_enabled(grad):
            torch.manual_seed(1)
            plain = layer(x)
            state = torch.manual_seed(1).get_state()
            traced = trace(layer, x)
        assert traced.unused == [], layer
        torch.testing.assert_close(traced.result, plain, rtol=0, atol=1e-6)
        assert torch.equal(torch.get_rng_state(), state), "the trace draws what the layer draws, and takes it back"
        assert unused(getattr(layer, "steps", layer), x) == []


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(3, 8))

    def forward(self, x):
        self.cache[:, : x.shape[1]] = x * 2
        self.kept = {"a": [x.exp().mT]}
        return x + 1


def mask_by_assignment(x):
    scores = x @ x.mT
    scores[torch.eye(3).bool()] = -INF
    return scores.softmax(-1)


def fill_row_by_row(x):
    out = torch.empty(len(x), x.shape[1])
    for i, row in enumerate(x):
        out[i] = row * 2
    return out


def use_only_a_view(x):
    y = x * 2
    y.view(-1)[0] = 5
    return y.T[1:]


def train(x):
    for _ in range(2):
        if LINEAR.weight.grad is not None:  # as an optimizer's zero_grad does
            LINEAR.weight.grad = None
        loss = LINEAR(x).square().mean()
        loss.backward()
        with torch.no_grad():
            LINEAR.weight -= 0.1 * LINEAR.weight.grad
    return loss.item()


KEPT, LINEAR = [], nn.Linear(3, 3)
FINE = {
    "mask by assignment": mask_by_assignment,
    "fill row by row": fill_row_by_row,
    "use only a view": use_only_a_view,
    "a training step": train,
    "one of two outputs": lambda x: x.max(0).values,
    "nested results": lambda x: {"a": [x + 1, (x + 2, {"b": x + 3})]},
    "print": lambda x: f"{x + 1}",
    "what a module keeps": Cached(),
    "what a closure holds": lambda x: KEPT.append(x + 1),
}


@pytest.mark.parametrize("f", FINE.values(), ids=FINE)
def test_no_false_alarm_on_correct_code(f):
    assert unused(f, torch.rand(3, 3)) == []


# ---- rows, and how they look


def test_shapes_bytes_and_notes():
    def f(x, w):
        y = x @ w  # (2, 4) float32
        z = y.T.double()  # a view; then (4, 2) float64
        z += 1
        z[0] = 5
        values, indices = z.max(dim=0)
        F.relu(values, inplace=True)
        return values.contiguous(), indices, torch.add(z, 1, out=z).t_()

    rows = trace(f, torch.randn(2, 3), torch.randn(3, 4)).rows
    assert rows == [
        ("matmul", ((2, 3), (3, 4)), (2, 4), 32, ""),
        ("T", ((2, 4),), (4, 2), 0, "view"),
        ("double", ((4, 2),), (4, 2), 64, ""),
        ("add_", ((4, 2),), (4, 2), 0, "in place"),
        ("setitem", ((4, 2),), (4, 2), 0, "in place"),
        ("max", ((4, 2),), ((2,), (2,)), 32, ""),
        ("relu", ((2,),), (2,), 0, "in place"),
        ("contiguous", ((2,),), (2,), 0, "returns its input"),
        ("add", ((4, 2), (4, 2)), (4, 2), 0, "in place"),
        ("t_", ((4, 2),), (2, 4), 0, "in place"),
    ]


def test_errors():
    with pytest.raises(TypeError, match="got int"):
        trace(3)
    with pytest.raises(TypeError, match=r"got Tensor: write trace\(layer, x\)"):
        trace(torch.ones(2))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        trace(lambda x: x @ x, torch.ones(2, 3))
    assert unused(lambda: torch.ones(2)) == []  # and the next trace starts afresh

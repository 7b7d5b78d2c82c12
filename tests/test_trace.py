"""The record of a call misses no result that nobody used, and raises no false alarm."""

import pytest
import torch
from sizes import ALL, Sizes, build
from torch import nn

from attention_course.any_layer.recorder import record
from attention_helpers.layers import causal_mask

INF = torch.inf
KEPT, LINEAR = [], nn.Linear(3, 3)


def unused(f, x, grad=False):
    return [each.name for each in record(f, x, grad=grad).operations if each.unused]


def leaky(mask_in_vain):
    def forward(x):
        scores = x @ x.mT
        masked = mask_in_vain(scores, causal_mask(len(x)))
        assert masked.shape is not None  # asking for its shape does not use its values
        return scores.softmax(-1) @ x

    return forward


WASTED = {
    "masked_fill": leaky(lambda scores, mask: scores.masked_fill(mask, -INF)),
    "masked_fill_": leaky(lambda scores, mask: scores.clone().masked_fill_(mask, -INF)),
    "where": leaky(lambda scores, mask: torch.where(mask, -INF, scores)),
    "transpose": lambda x: (x.transpose(0, 1), x * 2)[1],
    "max": lambda x: (x.max(0), x.sum())[1],
    "add": lambda x: ((x + 1).shape, len(x), x.dim())[0],
}


@pytest.mark.parametrize("name", WASTED)
@pytest.mark.parametrize("grad", [True, False])
def test_a_result_that_nobody_used_is_found(name, grad):
    assert unused(WASTED[name], torch.randn(4, 3), grad) == [name]


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
    LINEAR(x).square().mean().backward()
    with torch.no_grad():
        LINEAR.weight -= 0.1 * LINEAR.weight.grad
    return LINEAR.weight.sum().item()


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(3, 8))

    def forward(self, x):
        self.cache[:, : x.shape[1]] = x * 2
        self.kept = {"a": [x.exp().mT]}
        return x + 1


FINE = [mask_by_assignment, fill_row_by_row, use_only_a_view, train, Cached()]
FINE += [
    lambda x: x.max(0).values,
    lambda x: [x + 1, (x + 2, {"b": x + 3})],
    lambda x: f"{x + 1}",
    lambda x: KEPT.append(x + 1),
]


@pytest.mark.parametrize("number", range(len(FINE)))
def test_no_false_alarm_on_correct_code(number):
    assert unused(FINE[number], torch.rand(3, 3), grad=FINE[number] is train) == []


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("training", [True, False])
def test_no_false_alarm_on_the_courses_layers_and_the_same_result(name, training):
    layer, x = build(name, Sizes(2, 4, 1, 6, 2, 2, True, 0), dropout=0.3).train(training), torch.randn(2, 4, 6)
    torch.manual_seed(1)
    expected = layer(x)
    torch.manual_seed(1)
    seen = record(layer, x)
    torch.testing.assert_close(seen.result, expected, rtol=0, atol=1e-6)
    assert not any(each.unused for each in seen.operations)


def test_memory_of_results():
    seen = record(lambda x: (y := x @ x.mT).T.double().add_(1) + y[0], torch.randn(2, 3)).operations
    assert [(each.name, each.bytes) for each in seen] == [
        ("mT", 0), ("matmul", 16), ("T", 0), ("double", 32), ("add_", 0), ("getitem", 0), ("add", 32),
    ]  # fmt: skip

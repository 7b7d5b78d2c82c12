"""The record of a call misses no result that nobody used, raises no false alarm, and finds the maps."""

import pytest
import torch
from other_layers import RIGHT, make_layer
from sizes import ALL, Sizes, build
from torch import nn

from attention_course.any_layer.recorder import record
from attention_helpers.layers import causal_mask

X = torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(1))  # as many features as tokens
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
    "masked_fill": leaky(lambda scores, mask: scores.masked_fill(mask, -torch.inf)),
    "masked_fill_": leaky(lambda scores, mask: scores.clone().masked_fill_(mask, -torch.inf)),
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
    scores[torch.eye(3).bool()] = -torch.inf
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


FINE = [mask_by_assignment, fill_row_by_row, use_only_a_view, train]
FINE += [lambda x: x.max(0).values, lambda x: [x + 1, (x + 2, {"b": x + 3})], lambda x: KEPT.append(x + 1)]


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


@pytest.mark.parametrize("name", ["by the book", "einsum", "fused", "exp by hand", "over queries and back"])
def test_the_maps_are_those_by_which_the_layer_mixes(name):
    """All of them have the same projections, so one softmax by the book serves as the truth for all."""
    layer, x = make_layer(*RIGHT[name][1:], width=4).eval().double(), X.double()
    queries, keys = (part(x).unflatten(-1, (2, 2)).transpose(1, 2) for part in (layer.to_q, layer.to_k))
    scores = (queries @ keys.mT / 2**0.5).masked_fill(causal_mask(4), -torch.inf)
    torch.testing.assert_close(record(layer, x, again=True).used.double(), torch.softmax(scores, dim=-1)[0].detach())


def test_weights_that_are_changed_in_place_are_followed():
    def layer(x):
        weights = (x @ x.mT).softmax(-1)
        weights[:, causal_mask(4)] = 0
        weights /= weights.sum(-1, keepdim=True)
        return weights @ x

    expected = (X @ X.mT).softmax(-1).tril()
    torch.testing.assert_close(record(layer, X, again=True).used, expected / expected.sum(-1, keepdim=True))


def shares(table, total=1.0):
    return total * table / table.sum(-1, keepdim=True)


MAPS = {
    "weights that no token moves": (1, lambda x: shares(torch.ones(x.shape[-2], x.shape[-2]).tril()) @ x),
    "a softmax, but not the table of which it's made": (
        1, lambda x: ((x @ x.mT) - 9 * torch.eye(x.shape[-2])).softmax(-1) @ x
    ),
    "numbers below 0, though its rows sum to 1": (0, lambda x: shares(x @ x.mT) @ x),
    "rows that sum to 1.01": (0, lambda x: shares((x @ x.mT).exp(), 1.01) @ x),
    "NaN all over": (0, lambda x: (torch.nan * (x @ x.mT)).softmax(-1) @ x),
}  # fmt: skip


@pytest.mark.parametrize("name", MAPS)
def test_what_is_a_map(name):
    number, layer = MAPS[name]
    assert len(record(layer, X, again=True).maps) == number

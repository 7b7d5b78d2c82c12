"""The probes find a leak where there is one, and leave the layer as they found it."""

import math

import pytest
import torch
from sizes import ALL, CAUSAL, Sizes, build
from torch import nn

from attention_helpers import MultiHeadAttention, influence, max_difference

SIZES = Sizes(1, 4, 1, 3, 2, 2, True, 0)


@pytest.mark.parametrize("name", ALL)
def test_influence_is_triangular_if_causal_and_full_if_not(name):
    layer, x = build(name, SIZES, dropout=0.5), SIZES.x(torch.float32)
    for measure in influence(layer, x):
        assert measure.shape == (4, 4)
        assert (measure.tril() > 0).sum() == 10
        assert measure.triu(1).any() == (name not in CAUSAL)


def test_gradient_and_poke_match_differences_by_hand():
    layer, x = build("SelfAttention_v2", SIZES).double(), SIZES.x()[0]
    found = influence(layer, x, poke=1e-6)
    squares = torch.zeros(4, 4, dtype=torch.float64)
    for j in range(4):
        for k in range(3):
            step = torch.zeros_like(x)
            step[j, k] = 1e-5
            squares[:, j] += ((layer(x + step) - layer(x - step)) / 2e-5).square().sum(dim=-1)
    torch.testing.assert_close(found.gradient, squares.sqrt().detach(), rtol=1e-6, atol=1e-8)
    assert (found.poke <= 1e-6 * found.gradient * 1.001).all()  # one direction moves a row no more than the norm
    assert found.poke.sum() > 1e-7 * found.gradient.sum()


def test_poke_has_the_length_asked_for_and_moves_one_token():
    moved = influence(nn.Identity(), torch.zeros(3, 5, dtype=torch.float64), poke=2.0).poke
    assert torch.equal(moved, torch.diag(moved.diag()))
    assert moved[0, 0] <= 2.0
    norm = influence(lambda x: x.norm(dim=-1, keepdim=True), torch.zeros(3, 5, dtype=torch.float64), poke=-2.0).poke
    torch.testing.assert_close(norm, 2.0 * torch.eye(3, dtype=torch.float64))


def test_finds_a_leak_where_the_softmax_is_saturated():
    x = torch.tensor([[100.0, 0.0], [99.0, 1.0], [-5.0, 2.0]])
    found = influence(lambda x: torch.softmax(x[:, :1] @ x[:, :1].T, dim=-1) @ x[:, 1:], x, poke=30.0)
    assert found.gradient[0, 1] < 1e-6
    assert found.poke[0, 1] > 0.5


@pytest.mark.parametrize("fails", [False, True])
def test_restores_mode_gradients_and_random_state(fails):
    layer = build("MultiHeadAttention", SIZES, dropout=0.5)
    layer.eval()
    layer.dropout.train()
    layer.W_key.weight.grad = torch.full_like(layer.W_key.weight, 3.0)
    modes, state = {name: module.training for name, module in layer.named_modules()}, torch.get_rng_state()
    x = SIZES.x(torch.float32).requires_grad_()
    if fails:
        with pytest.raises(ValueError, match="context_length"):
            influence(layer, torch.ones(1, 9, 3))
    else:
        influence(layer, x)
    assert {name: module.training for name, module in layer.named_modules()} == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert x.grad is None
    assert layer.W_query.weight.grad is None
    assert (layer.W_key.weight.grad == 3.0).all()


def test_works_without_grad_and_for_both_ranks():
    layer, x = build("SelfAttention_v2", SIZES), SIZES.x(torch.float32)
    with torch.no_grad():
        three = influence(layer, x)
    for a, b in zip(three, influence(layer, x[0]), strict=True):
        torch.testing.assert_close(a, b)
        assert not a.requires_grad


def test_train_mode_dropout_does_not_look_like_a_leak():
    layer = MultiHeadAttention(3, 4, 6, dropout=0.9, num_heads=2).train()
    assert not influence(layer, torch.ones(1, 6, 3)).poke.triu(1).any()


INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([1.0, 5.0], [1.5, 2.0], 3.0),
        ([], [], 0.0),
        ([INF, -INF], [INF, -INF], 0.0),
        ([INF, 1.0], [INF, 3.0], 2.0),
        ([INF], [-INF], INF),
        ([INF], [0.0], INF),
        ([NAN, 0.0], [NAN, 9.0], NAN),
        ([9.0, 0.0], [0.0, NAN], NAN),
        ([1, 2], [1, 7], 5.0),
        ([True], [False], 1.0),
        ([1j], [3j], 2.0),
        (2.0, 2.25, 0.25),
    ],
)
def test_max_difference(a, b, expected):
    difference = max_difference(torch.tensor(a), torch.tensor(b))
    assert isinstance(difference, float)
    assert difference == pytest.approx(expected, nan_ok=True)
    assert (difference < 1e-6) == (expected == 0.0)  # NaN never passes for equal


def test_max_difference_across_dtypes_and_with_gradients():
    assert max_difference(torch.ones(2, requires_grad=True), torch.ones(2, dtype=torch.float16)) == 0.0
    assert max_difference(torch.tensor(60000.0).half(), torch.tensor(-60000.0).half()) == 120000.0

"""The probes find a leak where there is one, and leave the layer as they found it."""

from contextlib import suppress

import pytest
import torch
from sizes import ALL, CAUSAL, Sizes, build
from torch import nn
from torch.nn import functional as F

from attention_helpers import MultiHeadAttention, attention_maps, causal_mask, find_leak, influence, max_difference

SIZES = Sizes(1, 4, 1, 3, 2, 2, True, 0)


@pytest.mark.parametrize("name", ALL)
def test_influence_is_triangular_if_causal_and_full_if_not(name):
    table = influence(build(name, SIZES, dropout=0.5), SIZES.x(torch.float32))
    assert table.shape == (4, 4)
    assert (table.tril() > 0).sum() == 10
    assert table.triu(1).any() == (name not in CAUSAL)


def test_a_small_perturbation_is_the_gradient_along_its_direction():
    layer, x = build("SelfAttention_v2", SIZES).double(), SIZES.x()[0]
    step = torch.randn(3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    step = 1e-6 * step / step.norm()
    jacobian = torch.autograd.functional.jacobian(layer, x)  # (num_tokens, d_out, num_tokens, d_in)
    expected = (jacobian @ step).abs().amax(dim=1)
    torch.testing.assert_close(influence(layer, x, size=1e-6), expected, rtol=1e-4, atol=0)


@pytest.mark.parametrize("probe", [influence, find_leak])
@pytest.mark.parametrize("num_tokens", [4, 9])
def test_restores_mode_and_random_state_after_an_error_too(probe, num_tokens):
    layer = build("MultiHeadAttention", SIZES, dropout=0.5).eval()  # of up to 5 tokens
    layer.dropout.train()
    modes, state = {name: module.training for name, module in layer.named_modules()}, torch.get_rng_state()
    with suppress(ValueError):
        probe(layer, torch.ones(1, num_tokens, 3, requires_grad=True))
    assert {name: module.training for name, module in layer.named_modules()} == modes
    assert torch.equal(torch.get_rng_state(), state)


# ---- attention_maps of torch's functions; test_layers has ours

Q, K, V = torch.randn(3, 2, 4, 5, 3, generator=torch.Generator().manual_seed(0)).unbind()  # (b, num_heads, n, head_dim)
FUTURE = causal_mask(5)
FEW = K[:, ::2], V[:, ::2]  # two heads share each
ADDED = torch.zeros(5, 5).masked_fill(FUTURE, -torch.inf)
PLAIN, MASKED = (Q @ K.mT / 3**0.5).softmax(-1), (Q @ K.mT / 3**0.5 + ADDED).softmax(-1)
GROUPED = (Q @ FEW[0].repeat_interleave(2, dim=1).mT / 3**0.5 + ADDED).softmax(-1)
attend_by_torch = F.scaled_dot_product_attention
CALLS = {
    "nn.Softmax": (lambda q: nn.Softmax(dim=-1)(q @ K.mT / 3**0.5) @ V, PLAIN),
    "overwritten": (lambda q: (q @ K.mT / 3**0.5).softmax(-1).tril_() @ V, PLAIN),
    "keywords": (lambda q: attend_by_torch(query=q, key=K, value=V, is_causal=True), MASKED),
    "positions": (lambda q: attend_by_torch(q, K, V, None, 0.3, True), MASKED),
    "a boolean mask": (lambda q: attend_by_torch(q, K, V, ~FUTURE, dropout_p=0.3), MASKED),
    "a float mask and a scale": (lambda q: attend_by_torch(3**0.5 * q, K, V, attn_mask=ADDED, scale=1 / 3), MASKED),
    "grouped heads": (lambda q: attend_by_torch(q, *FEW, is_causal=True, enable_gqa=True), GROUPED),
}


@pytest.mark.parametrize(("layer", "expected"), CALLS.values(), ids=CALLS)
def test_maps_of_torchs_functions_are_the_softmax_of_their_scores(layer, expected):
    [found] = attention_maps(layer, Q)
    torch.testing.assert_close(found, expected)


def test_maps_of_torchs_module_are_those_that_it_returns():
    layer, x = nn.MultiheadAttention(6, 2, dropout=0.5, batch_first=True), torch.randn(2, 5, 6)
    expected = layer.eval()(x, x, x, attn_mask=FUTURE, average_attn_weights=False)[1]
    [found] = attention_maps(lambda x: layer(x, x, x, attn_mask=FUTURE, need_weights=False), x)
    torch.testing.assert_close(found, expected)


# ---- layers that cannot be judged


UNJUDGED = {
    "dropout out of reach": (lambda x: nn.Dropout(0.5)(x), "the same .* does it use dropout"),
    "writes into x": (lambda x: x.add_(1), "leave x as it is"),
    "a row of NaN": (lambda x: x.masked_fill(torch.eye(3, 2).bool(), torch.nan), "finite, got 2 entries"),
}


@pytest.mark.parametrize("probe", [influence, find_leak])
@pytest.mark.parametrize(("layer", "said"), UNJUDGED.values(), ids=UNJUDGED)
def test_a_layer_that_cannot_be_judged_is_told_why(layer, said, probe):
    x = torch.ones(3, 2)
    torch.manual_seed(0)
    with pytest.raises(ValueError, match=said):
        probe(layer, x)
    assert torch.equal(x, torch.ones(3, 2))


# ---- find_leak

MASK = causal_mask(3)
TOKENS = torch.randn(3, 2, generator=torch.Generator().manual_seed(0))


def attend(x):
    return (x @ x.mT).masked_fill(MASK, -torch.inf).softmax(dim=-1) @ x


SOUND = {
    "attention": (attend, TOKENS),
    "ours": (MultiHeadAttention(2, 4, 3, 0.5, 2), TOKENS[None]),
    "values that overflow": (lambda x: attend(x) * 1e35, TOKENS),
    "mixes the sentences of a batch": (lambda x: x.cumsum(-2) + x.cumsum(-2).roll(1, 0), TOKENS[None]),
}
LEAKY = {
    "no mask": lambda x: (x @ x.mT).softmax(dim=-1) @ x,
    "off by one": lambda x: (x @ x.mT).masked_fill(MASK.triu(2), -torch.inf).softmax(dim=-1) @ x,
    "normalised over time": lambda x: F.layer_norm(attend(x).T, (3,)).T,
    "behind a relu, downwards": lambda x: attend(x) + F.relu(-x - 50).mean(dim=0),
    "behind a far relu": lambda x: attend(x) + F.relu(x - 5000).mean(dim=0),
    "only together": lambda x: attend(x) + (x[1:] > 20).all(),
    "weak": lambda x: attend(x) + 1e-5 * x.mean(dim=0),
    "to NaN": lambda x: attend(x).where((x[-1] < 50).all() | ~MASK[:, -1:], torch.nan),
}


@pytest.mark.parametrize(("layer", "x"), SOUND.values(), ids=SOUND)
def test_no_leak_is_found_in_a_causal_layer(layer, x):
    leak = find_leak(layer, x)
    assert str(leak) == f"no leak found by {leak.tried} perturbations"


@pytest.mark.parametrize("name", LEAKY)
def test_a_leak_is_found_whatever_poke_it_takes(name):
    leak = find_leak(LEAKY[name], TOKENS)
    assert leak.change > 0
    assert str(leak) == f"row 0 reads the future: it {leak.moves} when token {leak.token} {leak.what}"


INF, NAN = torch.inf, torch.nan


@pytest.mark.parametrize(("a", "b", "found"), [([1, 5], [2, 2], 3), ([INF], [0], INF), ([NAN, 0], [NAN, 9], NAN)])
def test_max_difference_and_nan_never_passes_for_equal(a, b, found):
    assert max_difference(torch.tensor(a), torch.tensor(b)) == pytest.approx(found, nan_ok=True)

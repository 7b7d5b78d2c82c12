"""Each layer is its formula at every size of sizes.py; several heads, however written; dropout; a published state."""

import pytest
import torch
import torch.nn.functional as F
from sizes import ALL, CAUSAL, UNMASKED, Sizes, attend_by_hand, build, over_sizes
from torch import nn
from torch.func import functional_call
from torch.utils.flop_counter import FlopCounterMode

from attention_helpers import Dropout, MultiHeadAttention, MultiHeadAttentionWrapper, attention_maps
from attention_helpers.costs import flops
from attention_helpers.dropout import draw_dropout_from

close = {"rtol": 1e-10, "atol": 1e-10}


@pytest.mark.parametrize("name", UNMASKED)
@over_sizes
def test_unmasked_attention_is_permutation_equivariant(name, sizes):
    layer, x = build(name, sizes).double(), sizes.x()[0]
    order = torch.randperm(sizes.num_tokens, generator=torch.Generator().manual_seed(sizes.seed))
    torch.testing.assert_close(layer(x[order]), layer(x)[order], **close)


@pytest.mark.parametrize("name", ALL)
@over_sizes
def test_layers_and_their_maps_are_the_formulas(name, sizes):
    layer, x = build(name, sizes).double(), sizes.x()
    weights, expected = attend_by_hand(name, layer, x)
    torch.testing.assert_close(layer(x), expected, **close)
    maps = attention_maps(layer, x)
    found = torch.stack(maps, dim=1) if name != "MultiHeadAttention" else maps[0]
    torch.testing.assert_close(found, weights, **close)


SIZES = Sizes(2, 4, 2, 3, 2, 2, True, 0)


@pytest.mark.parametrize("name", CAUSAL)
def test_dropout_falls_on_the_weights(name):
    layer, x, dropout = build(name, SIZES, dropout=0.5), SIZES.x(torch.float32), nn.Dropout(0.5)
    torch.manual_seed(0)
    made = layer(x)
    torch.manual_seed(0)
    _, expected = attend_by_hand(name, layer, x, dropout)
    torch.testing.assert_close(made, expected)
    torch.testing.assert_close(layer.eval()(x), attend_by_hand(name, layer, x)[1])


@pytest.mark.parametrize("name", CAUSAL)
def test_a_published_state_dict_loads_strictly(name):
    """The published classes save their mask as floats, 1 where a key is hidden, here in a model."""
    published, ours = (nn.Sequential(build(name, SIZES._replace(seed=seed))) for seed in (0, 1))
    state, x = published.state_dict(), SIZES.x(torch.float32)
    masks = [key for key in state if key.rpartition(".")[2] == "mask"]
    assert masks
    for key in masks:
        state[key] = torch.ones(SIZES.context_length, SIZES.context_length).triu(1)
    ours.load_state_dict(state, strict=True)
    assert torch.equal(ours(x), published(x))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(), (6, 6), (1, 0, 4), (64, 65)], ids=str)
def test_masks_are_torchs_own(shape, dtype):
    x = torch.randn(shape).to(dtype)
    for seed, p in enumerate([0.1, 0.5, 0.9]):
        torch.manual_seed(seed)
        ours, state = Dropout(p)(x), torch.get_rng_state()
        torch.manual_seed(seed)
        assert torch.equal(ours, nn.Dropout(p)(x))
        assert torch.equal(state, torch.get_rng_state())  # the next draw is the same too
        assert ours.dtype == dtype


@pytest.mark.parametrize("training", [True, False])
def test_a_models_dropout_draws_from_a_generator_of_its_own(training):
    x, before = torch.randn(2, 6, 3), torch.get_rng_state()
    generator = torch.Generator().manual_seed(7)
    model = draw_dropout_from(MultiHeadAttentionWrapper(3, 2, 6, 0.5, num_heads=2).train(training), generator)
    torch.set_rng_state(before)
    first = model(x)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, model(x)) != training  # the generator moves on
    assert torch.equal(first, draw_dropout_from(model, torch.Generator().manual_seed(7))(x))


def test_flops_are_those_that_torch_counts():
    layer, x = MultiHeadAttention(6, 8, 9, 0.0, 2), torch.randn(3, 7, 6)
    with FlopCounterMode(display=False) as counter:
        layer(x)
    parts = flops(7, 6, 8, 3)
    assert sum(parts.values()) == counter.get_total_flops()
    assert parts["scores"] == parts["context"] == 2 * 3 * 7 * 7 * 8
    assert parts["out_proj"] == 2 * 8 * x[..., 0].numel() * 8


# ---- several heads: each way to compute them takes the weights of MultiHeadAttention, so gradients can be compared

PROJECTIONS = ("W_query", "W_key", "W_value")


def split(sizes, weights, x):
    return functional_call(build("MultiHeadAttention", sizes), weights, (x,))


def wrapper(sizes, weights, x):
    """Head h owns the rows h * head_dim to (h + 1) * head_dim of each matrix, in this order."""
    by_head = {}
    for name, tensor in weights.items():
        if name.startswith(PROJECTIONS):
            for h, rows in enumerate(tensor.chunk(sizes.num_heads)):
                by_head[f"heads.{h}.{name}"] = rows
    context = functional_call(build("MultiHeadAttentionWrapper", sizes), by_head, (x,))
    return F.linear(context, weights["out_proj.weight"], weights["out_proj.bias"])


def sdpa(sizes, weights, x):
    def heads(name):
        y = F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))
        return y.unflatten(-1, (sizes.num_heads, sizes.head_dim)).transpose(1, 2)

    context = F.scaled_dot_product_attention(*map(heads, PROJECTIONS), is_causal=True)
    return F.linear(context.transpose(1, 2).flatten(2), weights["out_proj.weight"], weights["out_proj.bias"])


def torch_mha(sizes, weights, x):
    none = x.new_zeros(sizes.d_out)  # torch has a bias for both in- and out-projection, or for neither
    stacked = {
        "in_proj_weight": torch.cat([weights[f"{name}.weight"] for name in PROJECTIONS]),
        "in_proj_bias": torch.cat([weights.get(f"{name}.bias", none) for name in PROJECTIONS]),
        "out_proj.weight": weights["out_proj.weight"],
        "out_proj.bias": weights["out_proj.bias"],
    }
    layer = nn.MultiheadAttention(sizes.d_out, sizes.num_heads, batch_first=True)
    hide = torch.ones(sizes.num_tokens, sizes.num_tokens, dtype=torch.bool).triu(1)
    return functional_call(layer, stacked, (x, x, x), {"attn_mask": hide, "need_weights": False})[0]


def results(implementation, sizes):
    """The output, and the gradients of x and of each weight."""
    layer = build("MultiHeadAttention", sizes).double()
    weights, x = dict(layer.named_parameters()), sizes.x().requires_grad_()
    y = implementation(sizes, weights, x)
    direction = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    return [y, *torch.autograd.grad((y * direction).sum(), [x, *weights.values()])]


@pytest.mark.parametrize("implementation", [wrapper, sdpa, torch_mha], ids=lambda f: f.__name__)
@over_sizes
def test_output_and_all_gradients_of_split_equal_those_of(implementation, sizes):
    """In float64: that a layer computes the same in other types, test_modern_layers checks."""
    if implementation is torch_mha:
        sizes = sizes._replace(d_in=sizes.d_out)  # torch's layer requires it
    torch.testing.assert_close(results(implementation, sizes), results(split, sizes), rtol=0, atol=1e-10)

"""Everything around the mathematics: saving and loading, copying, devices, modes, memory, compiling."""

import copy
import io
import shutil

import pytest
import torch
from sizes import ALL, CAUSAL, Sizes, build
from torch import nn

SIZES = Sizes(2, 4, 2, 3, 2, 2, True, 0)


def save_and_load(layer):
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def with_masks(layer, context_length=9):
    """The layer's state dict as the widely used chapter-3 classes save it: with a float mask per layer."""
    state = layer.state_dict()
    mask = torch.ones(context_length, context_length).triu(diagonal=1)
    prefixes = [f"heads.{h}." for h in range(len(layer.heads))] if hasattr(layer, "heads") else [""]
    state.update({prefix + "mask": mask for prefix in prefixes})
    return state


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("name", CAUSAL)
def test_a_layer_made_on_meta_has_its_mask_after_loading(name, assign):
    trained, x = build(name, SIZES), SIZES.x(torch.float32)
    with torch.device("meta"):
        layer = build(name, SIZES)
    if not assign:
        layer.to_empty(device="cpu")
        for buffer in layer.buffers():
            buffer.fill_(True)  # the worst that uninitialized memory can hold
    layer.load_state_dict(trained.state_dict(), assign=assign)
    assert torch.equal(layer(x), trained(x))


@pytest.mark.parametrize("name", ALL)
def test_state_dict_holds_the_parameters_alone_and_comes_back(name):
    layer, other, x = build(name, SIZES), build(name, SIZES._replace(seed=1)), SIZES.x(torch.float32)
    state = layer.state_dict()
    assert state.keys() == dict(layer.named_parameters()).keys()  # so no mask
    assert not torch.equal(layer(x), other(x))
    other.load_state_dict(state)
    assert torch.equal(layer(x), other(x))


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("name", CAUSAL)
def test_state_dict_with_a_float_mask_loads_strictly(name, nested):
    layer, other, x = build(name, SIZES), build(name, SIZES._replace(seed=1)), SIZES.x(torch.float32)
    state, target = with_masks(layer), other
    if nested:
        state, target = {f"0.{key}": value for key, value in state.items()}, nn.Sequential(other)
    before = dict(state)
    target.load_state_dict(state, strict=True)
    assert torch.equal(layer(x), other(x))
    assert state.keys() == before.keys()
    assert all(value is before[key] for key, value in state.items())


@pytest.mark.parametrize("name", CAUSAL)
def test_unexpected_and_missing_keys_still_fail(name):
    layer = build(name, SIZES)
    with pytest.raises(RuntimeError, match=r"Unexpected key.*masks"):
        layer.load_state_dict({**with_masks(layer), "masks": torch.ones(1)})
    state = with_masks(layer)
    gone = next(k for k in state if k.endswith("W_key.weight"))
    del state[gone]
    with pytest.raises(RuntimeError, match=f"Missing key.*{gone}"):
        layer.load_state_dict(state)


@pytest.mark.parametrize("qkv_bias", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_parameters_and_their_shapes(name, qkv_bias):
    layer = build(name, SIZES._replace(qkv_bias=qkv_bias))
    heads = 2 if name == "MultiHeadAttentionWrapper" else 1
    width = SIZES.d_out // heads
    expected = [(3, width)] * 3 if name == "SelfAttention_v1" else [(width, 3)] * 3
    if qkv_bias and name != "SelfAttention_v1":
        expected += [(width,)] * 3
    expected *= heads
    if name == "MultiHeadAttention":
        expected += [(width, width), (width,)]
    assert sorted(tuple(p.shape) for p in layer.parameters()) == sorted(expected)
    assert all(p.requires_grad for p in layer.parameters())


def test_parameter_names_are_those_of_the_widely_used_class():
    assert list(build("MultiHeadAttention", SIZES).state_dict()) == [
        *(f"{name}.{kind}" for name in ("W_query", "W_key", "W_value") for kind in ("weight", "bias")),
        "out_proj.weight",
        "out_proj.bias",
    ]


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, save_and_load],
)
@pytest.mark.parametrize("name", ALL)
def test_copies_are_equal_and_independent(name, copied):
    layer, x = build(name, SIZES), SIZES.x(torch.float32)
    twin, before = copied(layer), layer(x)
    assert torch.equal(twin(x), before)
    if name in CAUSAL:
        twin.load_state_dict(with_masks(build(name, SIZES)))  # the copy still handles a mask
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert torch.equal(layer(x), before)


@pytest.mark.parametrize("name", ALL)
def test_follows_device_and_dtype(name):
    layer = build(name, SIZES).double()
    assert layer(SIZES.x()).dtype == torch.float64
    layer.to("meta")
    assert {tensor.device.type for tensor in [*layer.parameters(), *layer.buffers()]} == {"meta"}
    y = layer(torch.empty(2, 4, 3, dtype=torch.float64, device="meta"))
    assert (y.device.type, y.shape, y.dtype) == ("meta", (2, 4, SIZES.d_out), torch.float64)


@pytest.mark.parametrize("name", ALL)
def test_other_dtypes_go_on_where_torch_casts(name):
    layer, x = build(name, SIZES), SIZES.x(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x).dtype == layer(x.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("name", CAUSAL)
def test_dropout_acts_in_train_mode_only(name):
    layer, x = build(name, SIZES, dropout=0.5), SIZES.x(torch.float32)
    torch.manual_seed(0)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))
    assert torch.equal(layer(x), build(name, SIZES)(x))
    weights = layer.train().steps(x).weights  # as returned, before dropout
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


@pytest.mark.parametrize("name", CAUSAL)
def test_dropout_falls_on_the_weights(name):
    layer, x, dropout = build(name, SIZES, dropout=0.5), SIZES.x(torch.float32), nn.Dropout(0.5)
    torch.manual_seed(0)
    steps = layer.steps(x)
    torch.manual_seed(0)
    if name == "MultiHeadAttentionWrapper":  # one draw per head, in order
        dropped = torch.stack([dropout(weights) for weights in steps.weights.unbind(dim=1)], dim=1)
    else:
        dropped = dropout(steps.weights)
    context = dropped @ steps.values
    if name != "CausalAttention":
        context = context.transpose(1, 2).flatten(2)
    torch.testing.assert_close(steps.context, context)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", ALL)
def test_compiled_equals_eager(name, backend):
    if backend == "inductor" and not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("inductor needs a C++ compiler")
    torch.compiler.reset()
    layer, x = build(name, SIZES), SIZES.x(torch.float32).requires_grad_()
    y = layer(x)
    expected = [y, *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])]
    y = torch.compile(layer, fullgraph=True, backend=backend)(x)
    actual = [y, *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])]
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)

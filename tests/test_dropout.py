"""The portable Dropout: torch's own masks, the right scaling, and no effect on anyone else's random numbers."""

import copy
import pickle

import pytest
import torch
from torch import nn

from attention_helpers import Dropout

P = [0.1, 0.5, 0.9]
SHAPES = [(), (7,), (6, 6), (2, 3, 5, 5), (1, 0, 4), (64, 65)]
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_masks_are_torchs_own(shape, dtype):
    x = torch.randn(shape).to(dtype)
    for seed, p in enumerate(P):
        torch.manual_seed(seed)
        ours, state = Dropout(p)(x), torch.get_rng_state()
        torch.manual_seed(seed)
        assert torch.equal(ours, nn.Dropout(p)(x))
        assert torch.equal(state, torch.get_rng_state())  # the next draw is the same too
        assert ours.dtype == dtype


@pytest.mark.parametrize("p", P)
def test_survivors_are_scaled_so_that_the_mean_is_kept(p):
    torch.manual_seed(0)
    n = 200_000
    y = Dropout(p)(torch.ones(n, dtype=torch.float64))
    assert set(y.unique().tolist()) == {0.0, 1 / (1 - p)}
    sigma = (p / (1 - p) / n) ** 0.5
    assert abs(y.mean().item() - 1) < 5 * sigma


@pytest.mark.parametrize("layer", [Dropout(0), Dropout(0.0).train(), Dropout(0.5).eval()])
def test_draws_nothing_at_zero_or_in_eval(layer):
    x, before = torch.randn(3, 3), torch.get_rng_state()
    assert torch.equal(layer(x), x)
    assert torch.equal(torch.get_rng_state(), before)


def test_generator_is_reproducible_and_leaves_the_global_state_alone():
    x, before = torch.ones(50), torch.get_rng_state()
    first = Dropout(0.5, torch.Generator().manual_seed(7))
    second = Dropout(0.5, torch.Generator().manual_seed(7))
    a, b = first(x), first(x)
    assert torch.equal(a, second(x))
    assert not torch.equal(a, b)  # the generator moves on
    assert torch.equal(torch.get_rng_state(), before)


def test_a_transposed_input_gets_its_mask_in_index_order():
    torch.manual_seed(0)
    straight = Dropout(0.5)(torch.ones(4, 5))
    torch.manual_seed(0)
    assert torch.equal(Dropout(0.5)(torch.ones(5, 4).T), straight)


def test_gradient_passes_where_the_entry_survived():
    torch.manual_seed(0)
    x = torch.ones(100, requires_grad=True)
    y = Dropout(0.25)(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))], ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("generator", [None, torch.Generator().manual_seed(3)], ids=["global", "generator"])
def test_copies_draw_the_same_but_from_a_generator_of_their_own(copied, generator):
    layer, x = Dropout(0.5, generator), torch.ones(50)
    twin = copied(layer)
    torch.manual_seed(0)
    a = layer(x)
    torch.manual_seed(0)
    assert torch.equal(a, twin(x))


def test_meta_input_gives_meta_output():
    assert Dropout(0.5)(torch.empty(3, 4, device="meta")).device.type == "meta"


def test_repr_tells_p():
    assert repr(Dropout(0.25)) == "Dropout(p=0.25)"


def test_a_mask_is_drawn_on_the_generators_device_and_moved():
    """So the mask is the same wherever the input is."""
    here, there = torch.Generator().manual_seed(0), torch.Generator().manual_seed(0)
    Dropout(0.5, here)(torch.ones(50))
    assert Dropout(0.5, there)(torch.empty(50, device="meta")).is_meta
    assert torch.equal(here.get_state(), there.get_state())


class Apple(torch.Tensor):
    """A tensor that pretends to be on a device without float64, and records where it's moved to."""

    device = torch.device("mps")
    moved = ()

    def to(self, device, dtype):
        Apple.moved = (str(device), dtype)
        return self.as_subclass(torch.Tensor).to(dtype)


def test_a_device_without_float64_gets_its_mask_from_the_cpu(monkeypatch):
    rand, asked = torch.rand, []

    def noted(*shape, device, **options):
        asked.append(str(device))
        return rand(*shape, **options).as_subclass(Apple)

    monkeypatch.setattr(torch, "rand", noted)
    torch.manual_seed(0)
    mask = Dropout(0.5)(torch.ones(50).as_subclass(Apple))
    assert asked == ["cpu"]
    assert Apple.moved == ("mps", torch.float32)
    monkeypatch.undo()
    torch.manual_seed(0)
    assert torch.equal(mask.as_subclass(torch.Tensor), Dropout(0.5)(torch.ones(50)))

"""Questions to put to a layer: which input moves which output, and do two results agree?"""

from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn

from ._checks import check_finite, check_tensor


class Influence(NamedTuple):
    """How strongly token j (column) moves context vector i (row): twice (num_tokens, num_tokens)."""

    gradient: torch.Tensor  # norm of d context_i / d x_j
    poke: torch.Tensor  # largest change of context_i when x_j is moved


def influence(layer, x, poke=1.0):
    """Measure which token of x moves which row of layer(x), in eval mode.

    Two measures, because each can be blind: where a softmax is saturated the gradient is near 0 and a poke still
    moves the row. A causal layer has zeros above the diagonal in both.

    layer: a module or function from x to (..., num_tokens, d_out), the rows in the order of the tokens.
    x: one sentence, (num_tokens, d_in) or (1, num_tokens, d_in). poke: how far a token is moved, in units of x: along
    one fixed random direction of that length.
    Returns Influence(gradient, poke), each (num_tokens, num_tokens); gradient in units of output per unit of input,
    poke in units of the output. The layer's mode and gradients stay as they were, and nothing is drawn from torch's
    global random numbers.
    Errors: TypeError for a layer that cannot be called or an x that is no floating-point tensor; ValueError for
    another shape, a poke that is not finite or is 0, or an output without a row a token.
    """
    if not callable(layer):
        raise TypeError(f"layer must be callable, got {type(layer).__name__}")
    check_tensor("x", x, (2, 3), "(num_tokens, d_in) or (1, num_tokens, d_in)")
    if x.ndim == 3 and len(x) != 1:
        raise ValueError(f"x must be one sentence, (num_tokens, d_in) or (1, num_tokens, d_in), got {tuple(x.shape)}")
    if check_finite("poke", poke) == 0:
        raise ValueError(f"poke must not be 0, got {poke!r}")
    x = x.detach()
    with eval_mode(layer):
        return Influence(gradient_influence(layer, x), poke_influence(layer, x, poke))


def gradient_influence(layer, x):
    """Norm of d row_i / d x_j, (num_tokens, num_tokens); see `influence`."""
    num_tokens, d_in = x.shape[-2:]
    with torch.enable_grad():
        jacobian = torch.autograd.functional.jacobian(lambda x: rows(layer, x), x)
    jacobian = jacobian.reshape(num_tokens, -1, num_tokens, d_in)  # (output row, its entries, input row, its entries)
    return jacobian.square().sum(dim=(1, 3)).sqrt()  # (num_tokens, num_tokens)


@torch.no_grad()
def poke_influence(layer, x, poke):
    """Largest change of row i when token j is moved by `poke`, (num_tokens, num_tokens); see `influence`."""
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(x.shape[-1], generator=generator, dtype=torch.float64)
    step = (poke * direction / direction.norm()).to(x)  # (d_in,)
    before, columns = rows(layer, x), []
    for j in range(x.shape[-2]):
        poked = x.clone()
        poked[..., j, :] += step
        columns.append((rows(layer, poked) - before).abs().amax(dim=-1))  # (num_tokens,)
    return torch.stack(columns, dim=1)  # (num_tokens, num_tokens)


def rows(layer, x):
    """layer(x) as (num_tokens, d_out), a row a token."""
    y = layer(x)
    if not isinstance(y, torch.Tensor) or y.ndim < 2 or y.shape[:-1].numel() != x.shape[-2]:
        got = tuple(y.shape) if isinstance(y, torch.Tensor) else type(y).__name__
        raise ValueError(f"layer must return one row a token, {x.shape[-2]} in all, got {got}")
    return y.reshape(x.shape[-2], -1)


@contextmanager
def eval_mode(layer):
    """Put a module, and all inside it, into eval mode; afterwards each is in the mode in which it was."""
    modes = {m: m.training for m in layer.modules()} if isinstance(layer, nn.Module) else {}
    try:
        for module in modes:
            module.training = False
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def max_difference(a, b):
    """Largest absolute difference between two tensors of one shape, as a float; 0.0 where both are equal infinities.

    a, b: any shape, the same for both. Units: theirs. NaN if either holds one, so that no comparison with a bound
    passes by accident.
    Errors: TypeError for anything but tensors, ValueError for shapes that differ.
    """
    for name, value in (("a", a), ("b", b)):
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, got {type(value).__name__}")
    if a.shape != b.shape:
        raise ValueError(f"a and b must have the same shape, got {tuple(a.shape)} and {tuple(b.shape)}")
    if a.numel() == 0:
        return 0.0
    wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    a, b = a.detach().to(wide), b.detach().to(wide)
    return (a - b).abs().masked_fill(a == b, 0.0).max().item()  # infinity less itself would be NaN

"""Questions to put to a layer: which input moves which output, is the future read, and do two results agree?"""

import math
import warnings
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn

from .checks import check_finite, check_tensor

SIZES = 1.0, 10.0, 100.0, 1e3, 1e4  # how far find_leak moves a token, in units of x or of its largest entry
ROUNDING = 16  # a change of so many epsilons of the largest number around is none


class Influence(NamedTuple):
    """How strongly token j (column) moves context vector i (row): twice (num_tokens, num_tokens)."""

    gradient: torch.Tensor  # norm of d context_i / d x_j; NaN if the layer has no gradient
    poke: torch.Tensor  # largest change of context_i when x_j is moved


class Leak(NamedTuple):
    """What find_leak found: true if a row reads the future, and as text a sentence that says so."""

    row: int | None  # the first row that reads a later token; None if no poke showed one
    how: str  # what was done to the later tokens when it moved
    change: float  # how far it moved, in units of the output
    pokes: int  # how many were tried

    def __bool__(self):
        return self.row is not None

    def __str__(self):
        if not self:
            return f"no leak found by {self.pokes} pokes"
        change = f"moves by {self.change:.2g}" if math.isfinite(self.change) else "turns to NaN or infinity"
        return f"row {self.row} reads the future: it {change} when {self.how}"


def influence(layer, x, poke=1.0):
    """Measure which token of x moves which row of layer(x), in eval mode.

    Two measures, because each can be blind: where a softmax is saturated the gradient is near 0 and a poke still
    moves the row. A causal layer has zeros above the diagonal in both; zeros there do not prove that a layer is
    causal, for a leak may need another poke: see find_leak.

    layer: a module or function from x to (..., num_tokens, d_out), the rows in the order of the tokens.
    x: one sentence, (num_tokens, d_in) or (1, num_tokens, d_in). poke: how far a token is moved, in units of x: along
    one fixed random direction of that length.
    Returns Influence(gradient, poke), each (num_tokens, num_tokens); gradient in units of output per unit of input,
    poke in units of the output. Where torch has no gradient, as for flex_attention on a CPU, a warning says so and
    gradient is NaN. The layer's mode and gradients stay as they were, and nothing is drawn from torch's global
    random numbers.
    Errors: TypeError for a layer that cannot be called or an x that is no floating-point tensor; ValueError for
    another shape, an x without a token, a poke that is not finite or is 0; and for a layer that returns anything but
    one row of real numbers a token, writes into x, differs from call to call, or cuts its result off from x.
    """
    x = checked(layer, x)
    if check_finite("poke", poke) == 0:
        raise ValueError(f"poke must not be 0, got {poke!r}")
    with eval_mode(layer):
        repeated(layer, x)
        moved = poke_influence(layer, x, poke)
        return Influence(gradient_influence(layer, x, bool(moved.any())), moved)


def gradient_influence(layer, x, connected=True):
    """Norm of d row_i / d x_j, (num_tokens, num_tokens); see `influence`. connected: whether it must not be cut off."""
    num_tokens, d_in = x.shape[-2:]

    def checked_rows(x):
        y = rows(layer, x)
        if connected:
            check_connected(y, x)
        return y

    try:
        with torch.inference_mode(False), torch.enable_grad():
            jacobian = torch.autograd.functional.jacobian(checked_rows, x.clone())
    except RuntimeError as error:  # its result is there, so it is the gradient that fails
        reason = str(error).partition("\n")[0]
        warnings.warn(f"layer has no gradient here, judge it by its poke alone ({reason})", stacklevel=3)
        return x.new_full((num_tokens, num_tokens), torch.nan)
    jacobian = jacobian.reshape(num_tokens, -1, num_tokens, d_in)  # (output row, its entries, input row, its entries)
    return jacobian.square().sum(dim=(1, 3)).sqrt()  # (num_tokens, num_tokens)


@torch.no_grad()
def poke_influence(layer, x, poke):
    """Largest change of row i when token j is moved by `poke`, (num_tokens, num_tokens); see `influence`."""
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(x.shape[-1], generator=generator, dtype=torch.float64)
    step = (poke * direction / direction.norm()).to(x)  # (d_in,)
    with eval_mode(layer):
        before, columns = rows(layer, x).clone(), []
        for j in range(x.shape[-2]):
            poked = x.clone()
            poked[..., j, :] += step
            columns.append((rows(layer, poked) - before).abs().amax(dim=-1))  # (num_tokens,)
    return torch.stack(columns, dim=1)  # (num_tokens, num_tokens)


@torch.no_grad()
def find_leak(layer, x):
    """Look for a row of layer(x) that reads a later token, in eval mode: poke the later tokens, and watch it.

    Each token, and all from it on, is moved by five sizes, up and down, along several directions and single entries;
    set to zero; swapped with the next. The rows before it must stay as they are, but for rounding. A leak that takes
    yet another poke is not found: that none was found does not prove that a layer is causal.

    layer: as in `influence`. x: (num_tokens, d_in) or (1, num_tokens, d_in), with 2 tokens or more; better a few, for
    each costs 100 to 250 calls of layer.
    Returns a Leak, false if no row moved. It needs no gradient, leaves out pokes whose results overflow, and keeps
    the layer's mode and torch's global random numbers as they were.
    Errors: as in `influence`; ValueError too for one token alone, and for numbers in x or layer(x) that are not finite.
    """
    x = checked(layer, x)
    if x.shape[-2] < 2:
        raise ValueError(f"x must hold at least 2 tokens, for one alone has no future, got {tuple(x.shape)}")
    found, pokes = [], 0
    with eval_mode(layer):
        before = repeated(layer, x)
        for name, numbers in (("x", x), ("layer(x)", before)):
            if not numbers.isfinite().all():
                raise ValueError(f"{name} must be finite, got {(~numbers.isfinite()).sum()} entries that are not")
        for first, how, poked in all_pokes(x):
            change = moved_rows(before, rows(layer, poked.clone()), first, poked)
            found += [(row, how, change[row].item()) for row in change.nonzero().flatten().tolist()[:1]]
            pokes += 1
        repeated(layer, x, before)
    return Leak(*min(found, key=lambda leak: leak[0], default=(None, "", 0.0)), pokes)


def all_pokes(x):
    """What find_leak tries: (the first token that is poked, how it is, the poked x)."""
    num_tokens = x.shape[-2]
    scale = max(1.0, x.abs().max().item())
    ways = [("set to zero", 0, 0)]
    for size in SIZES:
        for name, direction in directions(x.shape[-1]).items():
            step = (size * scale * direction).to(x)  # (d_in,)
            ways += [(f"moved by {sign}{size * scale:.3g} along {name}", 1, int(f"{sign}1") * step) for sign in "+-"]
    for j in range(1, num_tokens):  # no row comes before token 0
        chosen = [(f"token {j} is", slice(j, j + 1)), (f"token {j} and all after it are", slice(j, None))]
        for who, tokens in chosen[: num_tokens - j]:
            for how, keep, step in ways:
                poked = x.clone()
                poked[..., tokens, :] = keep * poked[..., tokens, :] + step
                yield j, f"{who} {how}", poked
        if j + 1 < num_tokens:
            order = [*range(j), j + 1, j, *range(j + 2, num_tokens)]
            yield j, f"tokens {j} and {j + 1} are swapped", x[..., order, :]


def directions(d_in):
    """Ways to move a token, name -> (d_in,); any two entries go together once and apart once, the first eight alone."""
    entries = torch.arange(d_in)
    found = {"all its entries": torch.ones(d_in, dtype=torch.float64)}
    for bit in range((d_in - 1).bit_length()):
        found[f"entries whose sign changes every {2**bit}"] = 1.0 - 2 * (entries >> bit & 1).double()
    found["a random direction"] = torch.randn(d_in, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return found | {f"entry {k}": (entries == k).double() for k in range(min(d_in, 8))}


def moved_rows(before, after, first, poked):
    """By how much each of the rows before `first` moved, (first,): infinity if it holds NaN now, 0 if it is rounding.

    All 0 if the later rows overflowed: 0 times infinity is NaN in a causal layer too.
    """
    change = (after - before)[:first].abs().amax(dim=-1).nan_to_num(nan=torch.inf, posinf=torch.inf)
    if not change.any() or not after[first:].isfinite().all():
        return torch.zeros(first)
    return change.where(change > rounding(before, after, poked), 0.0)


def rounding(*tensors):
    """What a number may change by rounding, where those of tensors go into one sum."""
    sizes = [tensor.nan_to_num(0.0, 0.0, 0.0).abs().max().item() for tensor in tensors]
    return ROUNDING * max(torch.finfo(tensor.dtype).eps for tensor in tensors) * max(sizes)


def checked(layer, x):
    """x without its history, after all that can be said of the two before layer is called."""
    if not callable(layer):
        raise TypeError(f"layer must be callable, got {type(layer).__name__}")
    check_tensor("x", x, (2, 3), "(num_tokens, d_in) or (1, num_tokens, d_in)")
    if x.ndim == 3 and len(x) != 1:
        raise ValueError(f"x must be one sentence, (num_tokens, d_in) or (1, num_tokens, d_in), got {tuple(x.shape)}")
    if x.numel() == 0:
        raise ValueError(f"x must hold at least one token, at least one entry wide, got {tuple(x.shape)}")
    return x.detach()


@torch.no_grad()
def repeated(layer, x, before=None):
    """layer(x), called twice unless its result `before` is given: ValueError if it differs, or if x is changed."""
    given = x.clone()
    after = rows(layer, given).clone()  # a layer may hand out one tensor again and again
    if not torch.equal(given, x) and not x.isnan().any():
        raise ValueError("layer must leave x as it is, but writes into it: begin with x = x.clone()")
    if before is None:
        return repeated(layer, x, after)
    gap = max_difference(before.nan_to_num(), after.nan_to_num())
    if gap > rounding(before, after) or not torch.equal(before.isnan(), after.isnan()):
        raise ValueError(
            f"layer must return the same for the same x, or no poke can be judged, got results {gap:.2g} apart: it "
            "draws or counts something. A module inside a function keeps its mode: call its eval() first"
        )
    return before


def check_connected(y, x):
    """ValueError if no gradient can come back from y to x."""
    if not y.requires_grad or torch.autograd.grad(y.sum(), x, retain_graph=True, allow_unused=True)[0] is None:
        raise ValueError(
            "layer must not cut its result off from x: a poke moves it, and yet no gradient comes back. Look for "
            "detach(), no_grad() or numpy() inside, or ask find_leak, which needs no gradient"
        )


def rows(layer, x):
    """layer(x) as (num_tokens, d_out), a row a token."""
    y = layer(x)
    if not isinstance(y, torch.Tensor) or y.ndim < 2 or y.shape[:-1].numel() != x.shape[-2]:
        got = tuple(y.shape) if isinstance(y, torch.Tensor) else type(y).__name__
        raise ValueError(f"layer must return one row a token, {x.shape[-2]} in all, got {got}")
    if not y.is_floating_point():
        raise ValueError(f"layer must return real floating-point numbers, got {y.dtype}")
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

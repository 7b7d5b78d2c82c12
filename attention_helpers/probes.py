"""Test a layer from outside: which input moves which output, does it read the future, and do two results agree?"""

import functools
import math
from contextlib import suppress
from typing import NamedTuple

import torch

from .checks import check_finite, check_plain, check_tensor
from .seeded import undisturbed

SIZES = 1.0, 10.0, 100.0, 1e3, 1e4  # how far find_leak moves a token, times max(1, the largest entry of x)
STARTS = 30, 1000  # how much larger than x the sentences are from which find_leak starts again
ROUNDING = 16  # changes of up to so many epsilons of the largest number involved count as rounding


class Influence(NamedTuple):
    """How strongly token j (column) moves context vector i (row), (num_tokens, num_tokens)."""

    perturbation: torch.Tensor  # largest change of context_i when x_j is moved


class Leak(NamedTuple):
    """What find_leak found: true if a row reads the future. As text, it's a sentence."""

    row: int | None  # the first row that reads a later token; None if no perturbation showed one
    token: int  # the later token that moved it, the first one if it took several
    what: str  # what was done to it
    change: float  # how far it moved, in units of the output
    tried: int  # how many perturbations

    def __bool__(self):
        return self.row is not None

    def __str__(self):
        if not self:
            return f"no leak found by {self.tried} perturbations"
        return f"row {self.row} reads the future: it {self.moves} when {self.how}"

    @property
    def how(self):
        """What we did to the later tokens when the row moved, in words."""
        return f"token {self.token} {self.what}"

    @property
    def moves(self):
        """What the row does, in words."""
        return f"moves by {self.change:.2g}" if math.isfinite(self.change) else "turns to NaN or infinity"


def influence(layer, x, size=1.0):
    """Measure which token of x moves which row of layer(x), in eval mode.

    A causal layer has zeros above the diagonal. But zeros there don't prove that a layer is causal, because a leak may
    need another perturbation: see find_leak.

    layer: a module or function from x to (..., num_tokens, d_out), the rows in the order of the tokens.
    x: one sentence, (num_tokens, d_in) or (1, num_tokens, d_in). size: how far each token is moved, in units of x,
    along one fixed random direction.
    Returns Influence(perturbation), (num_tokens, num_tokens), in units of the output. The layer's mode stays as it was,
    and nothing is drawn from torch's global random numbers.
    Errors: TypeError for a layer that can't be called or an x that isn't a floating-point tensor; ValueError for
    another shape, an x without a token, a size that isn't finite or is 0; and for a layer that doesn't return one row
    of real, finite numbers per token, writes into x, or returns different results for the same x.
    """
    x = checked(layer, x)
    if check_finite("size", size) == 0:
        raise ValueError(f"size must not be 0, got {size!r}")
    with undisturbed(layer, training=False):
        repeatable_rows(layer, x)
        return Influence(perturbation_influence(layer, x, size))


def step_of(x, size):
    """By what `influence` moves a token of x: `size` along one fixed random direction, (d_in,)."""
    direction = torch.randn(x.shape[-1], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (size * direction / direction.norm()).to(x)


@torch.no_grad()
def perturbation_influence(layer, x, size):
    """Largest change of row i when token j is moved by `size`, (num_tokens, num_tokens); see `influence`.

    layer: in eval mode.
    """
    step = step_of(x, size)
    before, columns = rows(layer, x), []
    for j in range(x.shape[-2]):
        poked = x.clone()
        poked[..., j, :] += step
        columns.append((rows(layer, poked) - before).abs().amax(dim=-1))  # (num_tokens,)
    return torch.stack(columns, dim=1)  # (num_tokens, num_tokens)


@torch.no_grad()
def find_leak(layer, x):
    """Look for a row of layer(x) that reads a later token, in eval mode: poke the later tokens, and watch the row.

    Each token, alone and together with all after it, is moved by five sizes, up and down, along several directions and
    single entries, then set to zero; and it's swapped with the next. The rows before it must stay as they are, except
    for rounding. Then we start again from sentences that are 30 and 1000 times as large, because a mask of -100 hides
    the future only from rows whose own scores are larger. A leak that takes yet another poke isn't found, so finding
    none doesn't prove that a layer is causal.

    layer: as in `influence`. x: (num_tokens, d_in) or (1, num_tokens, d_in), with 2 tokens or more. A few are enough,
    because each token costs 100 to 250 perturbed copies of x. If x is (1, num_tokens, d_in), the copies for a token go
    through the layer as one batch; a layer that fails on the batch, or mixes its sentences, gets them one by one.
    Returns a Leak, false if no row moved. It leaves out pokes whose results overflow, and leaves the layer and torch's
    global random numbers as they were.
    Errors: as in `influence`; ValueError too for a single token.
    """
    x = checked(layer, x)
    if x.shape[-2] < 2:
        raise ValueError(f"x must hold at least 2 tokens, because a single one has no future, got {tuple(x.shape)}")
    found, tried = [], 0
    with undisturbed(layer, training=False):
        before = repeatable_rows(layer, x)
        for j in range(1, x.shape[-2]):  # no row comes before token 0
            words, poked, _ = perturbations(x, j)
            change = moved_rows(before, all_rows(layer, x, poked, before), j, poked)  # (pokes, j)
            tried += len(words)
            for row in change.any(dim=0).nonzero().flatten()[:1].tolist():  # the first that moved, if any did
                n = change[:, row].nonzero()[0].item()  # by the first poke that moved it
                found.append((row, j, words[n], change[n, row].item()))
        if not found:
            found, more = from_larger_sentences(layer, x, before)
            tried += more
    return Leak(*min(found, key=lambda leak: leak[0], default=(None, 0, "", 0.0)), tried)


def from_larger_sentences(layer, x, before):
    """What find_leak sees from larger sentences: [(row, token, what was done to it, change)], and how many pokes.

    Each sentence's tokens from j on are replaced by another sentence's, for each j; the rows before must stay. Large
    scores make rounding larger too, so only what moves by a thousandth of a row, or more, counts.
    """
    num_tokens, d_in = x.shape[-2:]
    drawn = torch.randn(7, num_tokens, d_in, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    bases = torch.cat((x.reshape(1, num_tokens, d_in), drawn.to(x)))
    bases = torch.cat([bases * size for size in STARTS])  # (starts, num_tokens, d_in)
    replaced = torch.arange(num_tokens, device=x.device)[:, None] >= torch.arange(1, num_tokens + 1)[:, None, None]
    poked = bases.roll(1, 0).where(replaced[:, None], bases).flatten(0, 1)  # the last of each are the bases themselves
    after = all_rows(layer, x, poked, before).unflatten(0, (num_tokens, -1))  # (num_tokens, starts, num_tokens, d_out)
    change = (after[:-1] - after[-1]).abs().amax(dim=-1).nan_to_num(0.0, 0.0)  # (num_tokens - 1, starts, num_tokens)
    limit = 1e-3 * after[-1].abs().amax(dim=(-1, -2)).nan_to_num(torch.inf)[:, None]
    early = ~replaced[:-1, :, 0][:, None]
    moved = ((change > limit) & early).nonzero()
    if not len(moved):
        return [], len(poked)
    j, start, row = moved[moved[:, 2].argmin()].tolist()
    size = STARTS[start // 8]
    after_it = "and all after it are" if j + 2 < num_tokens else "is"
    what = f"{after_it} replaced in a sentence {size} times as large"
    return [(row, j + 1, what, change[j, start, row].item())], len(poked)


def perturbations(x, j):
    """What find_leak does to token j: each poke in words, and the poked sentences, (pokes, num_tokens, d_in).

    Also how many of them, the first ones, move no other token.
    """
    num_tokens, d_in = x.shape[-2:]
    x = x.reshape(1, num_tokens, d_in)
    ways, steps = ways_to_move(d_in, max(1.0, x.abs().max().item()))
    moved = x + steps.to(x)[:, None]  # (ways, num_tokens, d_in)
    moved[0] = 0.0
    place = torch.arange(num_tokens, device=x.device)[:, None]
    words, poked = [f"is {way}" for way in ways], [moved.where(place == j, x)]
    if j + 1 < num_tokens:
        words += [f"and all after it are {way}" for way in ways]
        words += ["and the next are swapped"]
        poked += [moved.where(place >= j, x), x[:, [*range(j), j + 1, j, *range(j + 2, num_tokens)]]]
    return words, torch.cat(poked), len(ways)


@functools.lru_cache
def ways_to_move(d_in, scale):
    """Each way to move a token in words, and its step, (ways, d_in); the first stands for "set to zero"."""
    ways, steps, found = ["set to zero"], [torch.zeros(d_in, dtype=torch.float64)], directions(d_in)
    for size in SIZES:
        for name, direction in found.items():
            ways += [f"moved by {sign}{size * scale:.3g} along {name}" for sign in "+-"]
            steps += [size * scale * direction, -size * scale * direction]
    return ways, torch.stack(steps)


def directions(d_in):
    """Directions in which to move a token, name -> (d_in,).

    Any two entries move together in one and against each other in another; the first eight also move alone.
    """
    entries = torch.arange(d_in)
    found = {"all its entries": torch.ones(d_in, dtype=torch.float64)}
    for bit in range((d_in - 1).bit_length()):
        found[f"entries whose sign changes every {2**bit}"] = 1.0 - 2 * (entries >> bit & 1).double()
    found["a random direction"] = torch.randn(d_in, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return found | {f"entry {k}": (entries == k).double() for k in range(min(d_in, 8))}


def all_rows(layer, x, poked, before):
    """The rows of layer for each poked sentence, (pokes, num_tokens, d_out); `before` are its rows for x.

    We add x itself to the batch. If its rows aren't `before` there, the layer mixes the sentences of a batch, so it
    gets them one by one. x is neither first nor last nor in the middle, so that we also notice a layer that adds up
    the batch from either end, reverses it, or reads only its first sentence.
    """
    if x.ndim == 3:
        n = len(poked) // 3
        with suppress(Exception):  # the layer may only take one sentence at a time
            after = layer(torch.cat((poked[:n], x, poked[n:]))).reshape(len(poked) + 1, *before.shape)
            if max_difference(before, after[n]) <= rounding(x, before[None]):
                return torch.cat((after[:n], after[n + 1 :]))
    return torch.stack([rows(layer, sentence.reshape(x.shape)) for sentence in poked])


def moved_rows(before, after, j, poked):
    """How far each row before token j moved, (pokes, j): infinity if it now holds NaN, 0 if it's rounding.

    Also 0 if the rows from j on overflowed, because 0 times infinity is NaN in a causal layer too.
    """
    change = (after - before)[:, :j].abs().amax(dim=-1).nan_to_num(nan=torch.inf, posinf=torch.inf)
    overflows = ~after[:, j:].isfinite().all(dim=-1).all(dim=1, keepdim=True)  # (pokes, 1)
    limit = rounding(before[None], after, poked)[:, None]  # (pokes, 1)
    return change.where((change > limit) & ~overflows, 0.0)


def rounding(*batches):
    """The largest change by rounding in sums of the numbers in these batches, each (b, ...) or (1, ...): (b,)."""
    largest = [batch.nan_to_num(0.0, 0.0, 0.0).abs().flatten(1).amax(dim=1).double() for batch in batches]
    eps = max(torch.finfo(batch.dtype).eps for batch in batches)
    return ROUNDING * eps * torch.stack(torch.broadcast_tensors(*largest)).amax(dim=0)


def checked(layer, x):
    """x without its gradient history, after every check that's possible without calling the layer."""
    if not callable(layer):
        raise TypeError(f"layer must be callable, got {type(layer).__name__}")
    check_tensor("x", x, (2, 3), "(num_tokens, d_in) or (1, num_tokens, d_in)")
    if x.ndim == 3 and len(x) != 1:
        raise ValueError(f"x must be one sentence, (num_tokens, d_in) or (1, num_tokens, d_in), got {tuple(x.shape)}")
    if x.numel() == 0:
        raise ValueError(f"x must hold at least one token, at least one entry wide, got {tuple(x.shape)}")
    if not x.isfinite().all():
        raise ValueError(f"x must be finite, got {(~x.isfinite()).sum()} entries that are not")
    return x.detach()


@torch.no_grad()
def repeatable_rows(layer, x):
    """The rows of layer(x). ValueError if the layer writes into x, or if two calls return different or no numbers."""
    given = x.clone()
    before = rows(layer, given)
    if not torch.equal(given, x):
        raise ValueError("layer must leave x as it is, but writes into it: begin with x = x.clone()")
    after = rows(layer, x.clone())
    for result in (before, after):
        if not result.isfinite().all():
            raise ValueError(f"layer(x) must be finite, got {(~result.isfinite()).sum()} entries that are not")
    gap = max_difference(before, after)
    if gap > rounding(before[None], after[None]):
        raise ValueError(
            "layer must return the same for the same x, or no perturbation can be judged, got results "
            f"{gap:.2g} apart: it draws or counts something. A module inside a function keeps its mode: call its "
            "eval() first"
        )
    return before


def rows(layer, x):
    """layer(x) as (num_tokens, d_out), one row per token."""
    y = layer(x)
    if not isinstance(y, torch.Tensor) or y.ndim < 2 or y.shape[:-1].numel() != x.shape[-2]:
        got = tuple(y.shape) if isinstance(y, torch.Tensor) else type(y).__name__
        raise ValueError(f"layer must return one row per token, {x.shape[-2]} in all, got {got}")
    if not y.is_floating_point():
        raise ValueError(f"layer must return real floating-point numbers, got {y.dtype}")
    return y.reshape(x.shape[-2], -1)


def max_difference(a, b):
    """Largest absolute difference between two tensors of the same shape, as a float; equal infinities differ by 0.0.

    a, b: any shape, the same for both. Units: theirs. NaN if either holds NaN, so that no comparison with a bound
    passes by accident.
    Errors: TypeError for anything but plain tensors, ValueError for shapes that differ or a tensor on the device meta.
    """
    for name, value in (("a", a), ("b", b)):
        check_plain(name, value)
        if value.is_meta:
            raise ValueError(f"{name} must hold numbers, got a tensor on the device meta, which has only a shape")
    if a.shape != b.shape:
        raise ValueError(f"a and b must have the same shape, got {tuple(a.shape)} and {tuple(b.shape)}")
    if a.numel() == 0:
        return 0.0
    wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    a, b = a.to(wide), b.to(wide)
    return (a - b).abs().masked_fill(a == b, 0.0).max().item()  # because infinity minus infinity is NaN

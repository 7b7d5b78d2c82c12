"""Test a layer from outside: what it attends to, which input moves which output, and whether it reads the future."""

import inspect
import math
from contextlib import suppress
from typing import NamedTuple

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from .checks import check_finite, check_tensor
from .state import keep_state

SOFTMAX = torch.softmax, torch.special.softmax, torch.Tensor.softmax, F.softmax
SIZES = 1.0, 10.0, 100.0, 1e3, 1e4  # how far find_leak moves tokens, times the largest entry of x, or 1
LARGER = 30, 1000  # how much larger than x the sentences are in which it replaces them


@torch.no_grad()
def attention_maps(layer, x):
    """The attention weights that layer(x) makes, before dropout: a list of maps, in the order in which they're made.

    A map is what a softmax over square scores returns, (..., num_tokens, num_tokens). So MultiHeadAttention makes one,
    (b, num_heads, num_tokens, num_tokens), and the wrapper makes one per head. F.scaled_dot_product_attention and
    nn.MultiheadAttention keep theirs to themselves, so they're computed once more. A softmax written out by hand, with
    exp and a sum, isn't noticed: without any other, the list is empty.
    layer: any module or function, which stays in its mode; x: what it takes. Errors: what the layer raises.
    """
    with _MapRecorder() as recorder:
        layer(x)
    return recorder.maps


class _MapRecorder(TorchFunctionMode):
    """While it's active, keeps the attention weights that this thread's operations make."""

    def __init__(self):
        super().__init__()
        self.maps = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        if function in SOFTMAX and result.ndim > 1 and result.shape[-1] == result.shape[-2]:
            self.maps.append(result.clone())  # someone may write into the result
        elif function is F.scaled_dot_product_attention:
            self.maps.append(sdpa_weights(*args, **kwargs))
        elif function is F.multi_head_attention_forward:
            call = inspect.signature(function).bind(*args, **kwargs)
            call.arguments |= {"training": False, "need_weights": True, "average_attn_weights": False}
            self.maps.append(function(*call.args, **call.kwargs)[1])
        return result


def sdpa_weights(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **options):
    """The weights of F.scaled_dot_product_attention without dropout: what it returns if the values are unit vectors."""
    units = torch.eye(key.shape[-2], dtype=value.dtype, device=value.device)
    units = units.expand(*key.shape[:-2], *units.shape)
    return F.scaled_dot_product_attention(query, key, units, attn_mask, 0.0, is_causal, **options)


def influence(layer, x, size=1.0):
    """How strongly token j of x (column) moves row i of layer(x), (num_tokens, num_tokens), in eval mode.

    A causal layer has zeros above the diagonal, but they don't prove that it's causal: see find_leak.
    layer: a module or function from x to (..., num_tokens, d_out), the rows in the order of the tokens.
    x: one sentence, (num_tokens, d_in) or (1, num_tokens, d_in). size: how far each token is moved, in units of x,
    along one fixed random direction.
    Returns each row's largest change, in units of the output. The layer's mode and torch's global random numbers stay
    as they were.
    Errors: TypeError or ValueError unless the layer can be called, x is one finite sentence and size is a finite number
    other than 0; ValueError for a layer that doesn't return one row of finite numbers per token, the same ones each
    time, or that writes into x.
    """
    if check_finite("size", size) == 0:
        raise ValueError(f"size must not be 0, got {size!r}")
    with keep_state(layer, training=False):
        x = check_judgeable(layer, x)
        return perturbation_influence(layer, x, size)


@torch.no_grad()
def perturbation_influence(layer, x, size):
    """Largest change of row i when token j is moved by `size`, (num_tokens, num_tokens); see `influence`."""
    direction = torch.randn(x.shape[-1], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    step = (size * direction / direction.norm()).to(x)  # (d_in,)
    before, columns = rows(layer, x), []
    for j in range(x.shape[-2]):
        moved = x.clone()
        moved[..., j, :] += step
        columns.append((rows(layer, moved) - before).abs().amax(dim=-1))  # (num_tokens,)
    return torch.stack(columns, dim=1)  # (num_tokens, num_tokens)


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
        return f"row {self.row} reads the future: it {self.moves} when token {self.token} {self.what}"

    @property
    def moves(self):
        """What the row does, in words."""
        return f"moves by {self.change:.2g}" if math.isfinite(self.change) else "turns to NaN or infinity"


@torch.no_grad()
def find_leak(layer, x):
    """Look for a row of layer(x) that reads a later token, in eval mode: change later tokens, and watch the rows.

    Each token but the first, alone and together with all after it, is set to zero and moved by five sizes in several
    directions. The rows before it must stay as they are, except for rounding. The same tokens are replaced in random
    sentences 30 and 1000 times as large, because a mask of -100 hides the future only from rows whose own scores are
    larger. A leak that takes yet another change isn't found, so finding none doesn't prove that a layer is causal.
    layer, x, errors: as in `influence`; ValueError, too, if x has only one token. If it's (1, num_tokens, d_in), the
    layer gets many changed copies at once, as a batch. Returns a Leak, false if no row moved. Overflows don't count.
    """
    leaks = []
    with keep_state(layer, training=False):
        x = check_judgeable(layer, x)
        if x.shape[-2] < 2:
            raise ValueError(f"x must hold at least 2 tokens: a single one has no future, got {tuple(x.shape)}")
        words, start, changed, near = perturbations(x)
        batched = takes_batches(layer, x, changed)
        before = all_rows(layer, start, x.shape, batched)
        near = near * before.abs().amax(dim=(1, 2)).nan_to_num(torch.inf)
        place = torch.arange(x.shape[-2], device=x.device)[:, None]
        for j in range(1, x.shape[-2]):  # no row comes before token 0
            for how, now in ("is", place == j), ("and all after it are", place >= j):
                sentences = changed.where(now, start)
                after = all_rows(layer, sentences, x.shape, batched)
                change = (after - before)[:, :j].abs().amax(dim=-1).nan_to_num(torch.inf, torch.inf)  # (tries, j)
                # 0 times infinity is NaN in a causal layer, too
                overflows = ~after[:, j:].isfinite().all(dim=-1).all(dim=1)
                limit = rounding(before, after, sentences) + near
                moved = (change > limit[:, None]) & ~overflows[:, None]
                for row, n in moved.T.nonzero()[:1].tolist():  # the first row that moved
                    leaks.append(Leak(row, j, f"{how} {words[n]}", change[n, row].item(), 0))
    tried = 2 * (x.shape[-2] - 1) * len(words)
    return min(leaks, key=lambda leak: leak.row, default=Leak(None, 0, "", 0.0, 0))._replace(tried=tried)


def perturbations(x):
    """What find_leak tries, in words; sentences to start from, (tries, num_tokens, d_in), and all their tokens changed.

    Last, the share of its largest number that a row may move by, (tries,), because large scores round more.
    """
    x = x.reshape(1, *x.shape[-2:])
    generator = torch.Generator().manual_seed(0)
    random = torch.randn(8, *x.shape[1:], generator=generator, dtype=torch.float64).to(x)
    directions = torch.cat((torch.ones_like(x), -torch.ones_like(x), random[:2], -random[:2]))
    sizes = [size * max(1.0, x.abs().max().item()) for size in SIZES]
    moved = torch.cat((torch.zeros_like(x), *(x + size * directions for size in sizes)))
    words = ["set to zero"] + [f"moved by about {size:.3g}" for size in sizes for _ in directions]
    words += [f"replaced in a sentence {size} times as large" for size in LARGER for _ in random]
    large = torch.cat([size * random for size in LARGER])
    near = torch.tensor([0.0] * len(moved) + [1e-3] * len(large)).to(x)
    return words, torch.cat((x.expand_as(moved), large)), torch.cat((moved, large.roll(1, 0))), near


def takes_batches(layer, x, others):
    """Whether layer makes the same rows of x, (1, num_tokens, d_in), in a batch with others, (b, num_tokens, d_in).

    False, too, for a layer that only takes one sentence at a time, or mixes the sentences of a batch.
    """
    if x.ndim == 2:
        return False
    alone, n = rows(layer, x), len(others) // 3
    with suppress(Exception):
        made = layer(torch.cat((others[:n], x, others[n:])))[n]
        return bool(max_difference(alone, made.reshape(alone.shape)) <= rounding(x, alone[None]))
    return False


def all_rows(layer, sentences, like, batched):
    """The rows of layer for each of the sentences, (b, num_tokens, d_out), in one call if batched, or one by one.

    like: the shape in which the layer gets one sentence.
    """
    if batched:
        return layer(sentences).reshape(*sentences.shape[:2], -1)
    return torch.stack([rows(layer, sentence.reshape(like)) for sentence in sentences])


def rounding(*batches):
    """The largest change by rounding in sums of the numbers in these batches, each (b, ...) or (1, ...): (b,)."""
    largest = [batch.nan_to_num(0.0, 0.0, 0.0).abs().flatten(1).amax(dim=1).double() for batch in batches]
    eps = max(torch.finfo(batch.dtype).eps for batch in batches)
    return 16 * eps * torch.stack(torch.broadcast_tensors(*largest)).amax(dim=0)


@torch.no_grad()
def check_judgeable(layer, x):
    """x cut off from gradients. TypeError or ValueError unless layer makes finite rows of it, the same each time."""
    if not callable(layer):
        raise TypeError(f"layer must be callable, got {type(layer).__name__}")
    check_tensor("x", x, (2, 3), "(num_tokens, d_in) or (1, num_tokens, d_in)")
    if x.numel() == 0 or (x.ndim == 3 and len(x) != 1):
        raise ValueError(f"x must be one sentence, (num_tokens, d_in) or (1, num_tokens, d_in), got {tuple(x.shape)}")
    given = x.detach().clone()
    before = rows(layer, given)
    for name, value in ("x", x), ("layer(x)", before):
        if not value.isfinite().all():
            raise ValueError(f"{name} must be finite, got {(~value.isfinite()).sum()} entries that are not")
    if not torch.equal(given, x):
        raise ValueError("layer must leave x as it is, but writes into it: begin with x = x.clone()")
    gap = max_difference(before, rows(layer, given))
    if not gap <= rounding(before[None]):  # NaN isn't
        raise ValueError(
            f"layer must return the same for the same x, but two calls are {gap:.2g} apart: does it use dropout, or "
            "keep something between calls? If layer is a function, call eval() of the module inside it first"
        )
    return given


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

    NaN if either holds NaN, so that no comparison with a bound passes by accident. Errors: ValueError for shapes that
    differ, because torch would repeat the smaller tensor.
    """
    if a.shape != b.shape:
        raise ValueError(f"a and b must have the same shape, got {tuple(a.shape)} and {tuple(b.shape)}")
    if a.numel() == 0:
        return 0.0
    wide = torch.promote_types(torch.promote_types(a.dtype, b.dtype), torch.float64)
    a, b = a.to(wide), b.to(wide)
    return (a - b).abs().masked_fill(a == b, 0.0).max().item()  # because infinity minus infinity is NaN

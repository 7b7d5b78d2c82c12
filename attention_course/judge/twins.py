"""Does a layer compute what the course's does with the same matrices, or what one with a known mistake does?

Twins are notebook 06's class, and that class with each row of the list of mistakes. They get the layer's own matrices,
so one that returns the same rows for every sentence tried is what the layer computes, whatever its names are.
"""

import itertools
import re
from contextlib import suppress
from functools import cache, partial
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch.nn import functional

from attention_helpers.layers import MultiHeadAttention
from attention_helpers.modern.positions import rope_frequencies, rotate

from ..mistakes import (
    HEADS,
    IN_HEADS,
    MISTAKES,
    SCALED,
    UNMASKED,
    WHY_SCALE,
    Mistake,
    applies,
    edited,
    text_with_parts,
)
from .calling import widen

ROLE = re.compile("(?:^|[._]|w)([qkv])", re.IGNORECASE)  # W_query, q_proj, to_q, wq, heads.0.key, ...
# before a row's edits: rotary positions and shared KV heads, as notebooks 11 and 10 have them
MORE = (
    f"        {HEADS}",
    f"""\
        positions = torch.arange(num_tokens)
        queries = rotate(queries, positions, self.frequencies)
        rotated = rotate(keys, positions, self.frequencies)
        groups = queries.shape[1] // keys.shape[1]
        keys = rotated.repeat_interleave(groups, dim=1)
        values = values.repeat_interleave(groups, dim=1)
        {HEADS}""",
)
ANY_HEADS = IN_HEADS, "x.view(b, num_tokens, -1, self.head_dim)"
NORMS = (torch.nn.LayerNorm, torch.nn.RMSNorm)


def turn_halves(x, positions, frequencies):
    """Rotary positions whose pairs are entries i and i + head_dim / 2."""
    pairs = x.unflatten(-1, (2, -1)).mT.flatten(-2)
    return turn_pairs(pairs, positions, frequencies).unflatten(-1, (-1, 2)).mT.flatten(-2)


def turn_pairs(x, positions, _):
    return rotate(x, positions, rope_frequencies(x.shape[-1]))


def leave(x, *_):
    return x


ROTATIONS = {"": leave, "rotary positions": turn_pairs, "rotary positions in halves": turn_halves}


class Matrices(NamedTuple):
    """A layer's (weight, bias) by what they make, each weight (out, in); out: None if nothing follows the heads."""

    queries: tuple
    keys: tuple
    values: tuple
    out: tuple | None = None


class Twin(NamedTuple):
    """A way to compute the course's rows."""

    matrices: Matrices
    num_heads: int
    masked: bool
    rotation: str  # of ROTATIONS
    before: object  # what happens to x first, such as a norm
    residual: bool  # whether x is added at the end
    mistake: object = None

    def output(self, x):
        """The rows of x, (num_tokens, d_in). Errors: for sizes that don't fit."""
        made, mask = twin_class(self.mistake, self.masked, self.rotation)
        head_dim = len(self.matrices.queries[0]) // self.num_heads
        # what the class's text asks of self; a module of its own would take ten times as long to make
        layer = SimpleNamespace(mask=mask, num_heads=self.num_heads, head_dim=head_dim, frequencies=None, dropout=leave)
        layer.split_heads = partial(made.split_heads, layer)
        layer.W_query, layer.W_key, layer.W_value, layer.out_proj = map(Product, self.matrices)
        rows = made.forward(layer, self.before(x)[None])[0]
        return rows + x if self.residual else rows


class Product:
    """x times a matrix, plus its bias, or x itself if there's no matrix."""

    def __init__(self, part):
        self.part = part
        self.out_features = len(part[0]) if part else 0

    def __call__(self, x):
        return functional.linear(x, *self.part) if self.part else x


@cache
def twin_class(mistake, masked, rotation):
    """The class, and its mask."""
    edits = [MORE, *(mistake.edits if mistake else ()), ANY_HEADS, *([] if masked else [UNMASKED])]
    made = edited(MultiHeadAttention, edits, rotate=ROTATIONS[rotation])
    return made, made(1, 1, 64, 0.0, 1).mask


@cache
def rows_of_the_list():
    """The mistakes that a twin can have; a copy that's thrown away is no other layer than one without a mask."""
    text = text_with_parts(MultiHeadAttention).replace(*MORE)
    return [row for row in MISTAKES if applies(row, text) and row.name != "throws the masked copy away"]


class Sentences:
    """What a layer returns for a few sentences, to compare twins with."""

    def __init__(self, call, seen):
        x = call.x
        self.given = []
        for sentence in x, 3 * x.roll(1, -2), x[..., :3, :]:
            with suppress(Exception):  # too short, which is said elsewhere
                rows = call.rows_for(sentence)
                self.given.append((widen(sentence.reshape(-1, x.shape[-1])), rows))
        self.near = max(2e-5, 4 * seen.eps)

    def gap(self, twin):
        """The largest difference from a twin's rows, as a share of the largest number; infinity if it doesn't fit."""
        largest = 0.0
        for x, rows in self.given:
            try:
                ours = twin.output(x).to(rows.dtype)
            except Exception:
                return torch.inf
            if ours.shape != rows.shape:
                return torch.inf
            seen = ours.isfinite().all(dim=-1)  # rows whose keys are all hidden are NaN, or 0 in torch's own function
            if 2 * seen.sum() < len(rows) or not rows[seen].isfinite().all():
                return torch.inf
            change = (ours - rows)[seen].abs().max().item() / max(0.1, rows[seen].abs().max().item())
            largest = max(largest, change)
            if largest > self.near:
                break
        return largest

    def match(self, twin):
        return self.gap(twin) <= self.near


@torch.no_grad()
def explain(call, seen, hint=None, unmasked=False, like=()):
    """(the right twin or the first with a mistake that computes the layer's rows, or None; the right one to compare).

    hint: how many heads the class was asked for. like: twins that explain the layer at other sizes, to try first.
    """
    sentences = Sentences(call, seen)
    heads = [hint] if hint else [*dict.fromkeys(filter(None, (len(seen.made), *held_numbers(call))))][:3]
    usual = None
    with torch.enable_grad():  # for the gradients of the twin that's found
        found = [*matrices_of(call)]
    frames = [*frames_of(call)]
    rotations = [*ROTATIONS] if counts_positions(call) else [""]
    for (matrices, _), (before, residual) in itertools.product(found, frames):
        for num_heads, rotation in itertools.product(heads, rotations):
            twin = Twin(matrices, num_heads, not unmasked, rotation, before, residual)
            usual = usual or twin
            if sentences.match(twin):
                return twin, twin
    tried = [row for row in (*like, *rows_of_the_list()) if row]
    usually = [matrices for matrices, usually in found if usually]
    usually = [matrices for matrices in usually if matrices.out] or usually
    for matrices in usually:
        for (before, residual), num_heads in itertools.product(frames, heads):
            for row, rotation in itertools.product(tried, rotations):
                for masked in {not unmasked, not unmasked or row.leaks}:  # a leak can hide a mask
                    twin = Twin(matrices, num_heads, masked, rotation, before, residual, row)
                    if sentences.match(twin):
                        return twin, usual
    if usual and (scaled := with_scale(usual, call, seen)) and sentences.match(scaled):
        return scaled, usual
    return None, usual


def with_scale(twin, call, seen):
    """A twin whose scores are multiplied by the factor that the layer's weights show, or None."""
    with suppress(Exception):
        x = twin.before(widen(call.x.reshape(-1, call.x.shape[-1])))
        parts = [functional.linear(x, *part).unflatten(-1, (twin.num_heads, -1)) for part in twin.matrices[:2]]
        queries, keys = (part.transpose(0, 1) for part in parts)
        ours = queries @ keys.mT / keys.shape[-1] ** 0.5
        made, ours = (each - each[..., :1] for each in (seen.made.log(), ours))
        ratios = made / ours
        factor = ratios[ratios.isfinite()].median().item()
        if factor > 1e-3 and abs(factor - 1) > 1e-2:
            reply = f"The scores are {factor:.3g} times what they'd be if divided by the root of d_k. Is that meant?"
            edit = SCALED, f"{SCALED} * {factor}"
            return twin._replace(mistake=Mistake("has another scale", (edit,), reply, WHY_SCALE, meant=True))


def held_numbers(call):
    """Small whole numbers that the layer's parts hold, one of which may be how many heads it has."""
    held = [number for part in call.parts for name, number in vars(part).items() if "head" in name or name == "h"]
    return [*{number for number in held if type(number) is int and 0 < number < 33}, 1]


def counts_positions(call):
    """Whether the last row changes if the first two tokens change places."""
    x = call.x
    n = x.shape[-2]
    if n < 3:
        return False
    swapped = x[..., [1, 0, *range(2, n)], :]
    return bool((call.rows_for(swapped)[-1] - widen(call.rows)[-1]).abs().max() > call.near)


def frames_of(call):
    """(what happens to x before, whether x is added after) for each way that isn't ruled out by one more call."""
    x = widen(call.x.reshape(-1, call.x.shape[-1]))
    same_width = call.rows.shape == x.shape
    once, larger = widen(call.rows), call.rows_for(4 * call.x)
    near = 1e-2 * once.abs().max()
    norms = [part for part in call.parts if isinstance(part, NORMS) and part.normalized_shape[-1] == x.shape[-1]]
    plain = [lambda x: functional.layer_norm(x, x.shape[-1:]), lambda x: functional.rms_norm(x, x.shape[-1:])]
    if (larger - once).abs().max() < near:
        return [(norm, False) for norm in (*norms, *plain)]
    if same_width and (larger - 4 * x - once + x).abs().max() < near:
        return [(norm, True) for norm in (*norms, *plain)]
    before = [leave, *(lambda x, table=table: x + table[: len(x)] for table in tables_of(call))]
    return [(step, residual) for step in before for residual in ([False, True] if same_width else [False])]


def tables_of(call):
    """Parameters that hold a vector for each place, (many, d_in)."""
    learned = [part.weight for part in call.parts if isinstance(part, torch.nn.Embedding)]
    learned += [each[0] for each in call.parameters.values() if each.ndim == 3 and len(each) == 1]
    return [widen(table) for table in learned if table.shape[1] == call.x.shape[-1] and len(table) >= call.x.shape[-2]]


def matrices_of(call):
    """(Matrices, whether that's the usual way) for each way to read a layer's parameters."""
    d_in = call.x.shape[-1]
    named_parts = call.layer.named_modules() if call.parts else ()
    linear = {name for name, part in named_parts if isinstance(part, torch.nn.Linear)}
    for turned in (False, True):
        found = {}
        for name, parameter in call.parameters.items():
            if parameter.ndim not in (2, 3) or min(parameter.shape) == 0:
                continue
            owner = name.rpartition(".")[0]
            weight = as_matrix(widen(parameter), d_in, name.endswith("weight") != (turned and owner not in linear))
            bias = call.parameters.get(f"{name.removesuffix('weight')}bias") if name.endswith("weight") else None
            found[name] = weight, None if bias is None else widen(bias)
        yield from ways_to_read(found, d_in, not turned)
        if all(name.rpartition(".")[0] in linear for name in found):
            return


def as_matrix(parameter, d_in, stored_by_rows):
    """A parameter as (out, in); one for each of several heads is joined."""
    if parameter.ndim == 3:
        heads, first, last = parameter.shape
        if first == d_in:
            return parameter.mT.reshape(heads * last, d_in)
        return parameter.permute(2, 0, 1).reshape(last, heads * first)
    matrix = parameter if stored_by_rows else parameter.mT
    return matrix.mT if matrix.shape[1] != d_in == matrix.shape[0] else matrix


def ways_to_read(found, d_in, usual):
    """(Matrices, whether that's the usual way) for matrices by name: by letters, or by shapes and order."""
    letters = {name: {each.lower() for each in ROLE.findall(name)} for name in found}
    by_letter = {each: [name for name in found if letters[name] == {each}] for each in "qkv"}
    pairs = [name for name in found if letters[name] in ({"k", "v"},) or re.search(r"(^|[._])kv", name)]
    fits = {name for name in found if found[name][0].shape[1] == d_in}
    named = {name for names in by_letter.values() for name in names}
    if all(by_letter.values()) and len({found[name][0].shape[1] for name in named}) == 1:
        first = [joined([found[name] for name in by_letter[each]]) for each in "qkv"]
        yield from with_out(first, found, named, usual)
    elif by_letter["q"] and len(pairs) == 1:
        names = {*by_letter["q"], *pairs}
        first = [joined([found[name] for name in by_letter["q"]]), *halves(found[pairs[0]], 2)]
        yield from with_out(first, found, names, usual)
    else:
        yield from by_shape(found, fits, usual)


def by_shape(found, fits, usual):
    """One matrix of three parts in any order; or three that are alike, in any order."""
    for name in [each for each in found if each in fits and len(found[each][0]) % 3 == 0]:
        for n, order in enumerate(itertools.permutations(halves(found[name], 3))):
            yield from with_out([*order], found, {name}, usual and n == 0)
    alike = [name for name in found if name in fits]
    alike = [name for name in alike if found[name][0].shape == found[alike[0]][0].shape]
    count = len(alike) - len(alike) % 3
    if count:
        names = alike[:count]
        thirds = [joined([found[name] for name in names[n::3]]) for n in range(3)]
        for n, order in enumerate(itertools.permutations(thirds)):
            yield from with_out([*order], found, {*names}, usual and n == 0)


def with_out(first, found, names, usual):
    """Each matrix that can follow the heads, then none."""
    width = len(first[0][0])
    later = [each for name, each in found.items() if name not in names and each[0].shape[1] == width]
    for out in (*later, None):
        yield Matrices(*first, out), usual


def joined(pairs):
    """Several (weight, bias) as one."""
    weights, biases = zip(*pairs, strict=True)
    return torch.cat(weights), None if biases[0] is None else torch.cat(biases)


def halves(pair, count):
    """One (weight, bias) in equal parts."""
    weight, bias = pair
    biases = [None] * count if bias is None else bias.chunk(count)
    return [*zip(weight.chunk(count), biases, strict=True)]

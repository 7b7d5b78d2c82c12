"""Find all attention maps in a call of any layer by watching its operations, so the layer needn't return them.

A map is a matrix (num_tokens, num_tokens) whose rows, or columns, sum to 1. So we find a softmax, but also an exp
divided by its sum, whatever their names. scaled_dot_product_attention and nn.MultiheadAttention don't show their
weights, so we compute those again from the arguments.
"""

import io
import sys
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from .lines import calling_line, memory, with_line
from .operations import METADATA, operation_name, tensors_in

PRODUCTS = {"matmul", "mm", "bmm", "einsum", "baddbmm"}
FUSED = "scaled_dot_product_attention"
NEAR = 1e-3  # how far from 1 a sum of weights can be
MODULE = "multi_head_attention_forward"
TRANSPOSES = {"T", "mT", "t", "transpose", "permute", "swapaxes", "swapdims", "adjoint"}


class Operation(NamedTuple):
    """One operation of a call."""

    name: str
    line: str  # where it was called
    args: tuple
    kwargs: dict
    inputs: list  # all tensors among its arguments
    output: torch.Tensor  # its first result
    made: torch.Tensor  # a copy of it, which later operations can't change
    varies: bool  # whether it comes from the sentence

    @property
    def where(self):
        return with_line(self.name, self.line)

    @property
    def dim(self):
        return self.kwargs.get("dim", [*self.args, None][1])


@dataclass
class AttentionMap:
    """The weights that one operation of a call made; a row for each query, a column for each key."""

    number: int  # of the operation that made it, among all of the call
    made: Operation
    weights: torch.Tensor  # (num_maps, num_tokens, num_tokens), as they came out of softmax or a similar operation
    used: torch.Tensor  # (num_maps, num_tokens, num_tokens), as they averaged the values: after dropout, or a mask
    mixed: bool = False  # whether a product has averaged the values with them; what happens later changes nothing
    turned: Operation | None = None  # which one transposed the weights since they were made
    constant: bool = False  # whether they're the same for any x: then they're a map only if they average something
    scores: torch.Tensor | None = None  # (num_maps, num_tokens, num_tokens), what went into softmax


@dataclass
class Watched:
    """What we saw of a call."""

    num_tokens: int
    result: object = None
    maps: list = field(default_factory=list)
    operations: list = field(default_factory=list)
    weights: list = field(default_factory=list)  # for each tensor in the result: is it a table of attention weights?
    read: list = field(default_factory=list)  # all tensors that an operation read
    summed: tuple = ()  # (operation, how many): one that adds so many heads' values, each with the same weights
    fewer: Exception | None = None  # what the call with one token fewer raised

    def first(self, condition):
        """The first operation for which a condition holds, or None."""
        return next(filter(condition, self.operations), None)

    def joined(self, name):
        tables = [getattr(each, name) for each in self.maps]
        return torch.cat(tables) if tables else torch.zeros(0, self.num_tokens, self.num_tokens)

    # All maps' weights, (num_maps, num_tokens, num_tokens): as they average the values, and as softmax made them.
    used = property(lambda self: self.joined("used"))
    made = property(lambda self: self.joined("weights"))

    @property
    def eps(self):
        """Of the coarsest floating-point numbers that we saw."""
        kinds = {each.made.dtype for each in self.operations if each.made.is_floating_point()}
        return max((torch.finfo(kind).eps for kind in kinds), default=0.0)


def find_maps(layer, x, again=True):
    """Call layer(x) without gradients, and return a Watched.

    x: one sentence, (num_tokens, d_in) or (1, num_tokens, d_in), with 2 tokens or more. A softmax over as many features
    as tokens looks like a map. So we call the layer again with one token fewer, if `again`, and leave out matrices that
    don't shrink (unless this call fails, or runs other operations). We don't find a softmax over only some of the keys,
    or anything computed outside torch. Errors: what layer raises on x.
    """
    watched, fewer = _Watcher(x.shape[-2]).watch(layer, x), x.shape[-2] - 1
    if again:
        try:
            with redirect_stdout(io.StringIO()):
                shorter = _Watcher(fewer).watch(layer, x[..., :-1, :])
        except Exception as error:  # the caller only asked about x
            watched.fewer = error
            return watched
        ours, theirs = watched.operations, shorter.operations
        if (len(theirs), len(shorter.weights)) == (len(ours), len(watched.weights)):
            shrinks = [n for n, each in enumerate(theirs) if each.name in AGAIN or is_table(each.made, fewer)]
            watched.maps = [each for each in watched.maps if each.number in shrinks]
            watched.weights = [all(both) for both in zip(watched.weights, shorter.weights, strict=True)]
    return watched


class _Watcher(TorchFunctionMode):
    """Follows each matrix of weights until it averages the values."""

    def __init__(self, num_tokens):
        super().__init__()
        self.num_tokens, self.seen = num_tokens, Watched(num_tokens)
        self.kept = []  # all tensors of the call, because Python reuses the ids of deleted ones
        self.tables = {}  # id of a tensor -> the map that it holds, perhaps reshaped or masked since

    def watch(self, layer, x):
        self.from_x, seen = {id(x)}, self.seen
        self.sources = {memory(x), memory(getattr(layer, "sentence", x))}
        with torch.no_grad(), self:
            seen.result = layer(x)
        seen.weights = [id(each) in self.tables or self.holds_weights(each) for each in tensors_in(seen.result)]
        seen.read += tensors_in(seen.result)
        seen.maps = [settled(each, self.num_tokens) for each in seen.maps if each.mixed or not each.constant]
        return seen

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name, seen = kwargs or {}, operation_name(func), self.seen
        inputs, result = tensors_in((args, kwargs)), func(*args, **kwargs)
        outputs = inputs[:1] if name == "setitem" else tensors_in(result)
        self.kept += inputs + outputs
        if outputs or (name not in METADATA and getattr(func, "__name__", "") != "__get__"):
            seen.read += inputs
        if outputs:
            if any(id(each) in self.from_x or memory(each) in self.sources for each in inputs):
                self.from_x.update(map(id, outputs))
            line, output = calling_line(sys._getframe(1), self.watch), outputs[0]
            varies = id(output) in self.from_x
            operation = Operation(name, line, args, kwargs, inputs, output, output.clone(), varies)
            seen.operations.append(operation)
            if name in AGAIN:
                self.add(AGAIN[name](*args, **kwargs), operation)
            self.follow(operation)
        return result

    def follow(self, operation):
        """Note what an operation does to the map among its inputs, or that its output is a new map."""
        name, inputs, output = operation.name, operation.inputs, operation.output
        known = [self.tables[id(tensor)] for tensor in inputs if id(tensor) in self.tables]
        if not known or (known[0].constant and operation.varies and name not in PRODUCTS):
            if self.holds_weights(output):
                self.tables[id(output)] = self.add(output, operation, constant=not operation.varies)
            return
        found = known[0]
        if found.mixed:
            return
        if name in PRODUCTS:
            self.average(found, operation)
        elif any(each.requires_grad for each in inputs):
            found.mixed = True  # learned numbers change the weights, as when heads are mixed: no fault, and no map
        elif output.numel() == found.used.numel():
            self.tables[id(output)] = found
            if is_table(output, self.num_tokens):
                found.used = operation.made
                if self.holds_weights(output):
                    if name in TRANSPOSES and torch.equal(output, found.weights.mT):
                        found.turned = None if found.turned else operation
                    found.weights = operation.made

    def average(self, found, operation):
        """A product averages the values by a map's weights: over the keys, or over the queries by mistake.

        To see it, whatever the order of its dimensions, we repeat it with values of 1, and with weights that add up to
        a row's number in each row, or in each column. So its result shows which entries each row's average is in.
        """
        place = [id(each) in self.tables for each in operation.inputs].index(True)
        table, found.mixed = operation.inputs[place], True
        found.used = table.clone()
        numbers = torch.arange(1.0, 1 + table[..., 0].numel(), dtype=torch.float64)
        rows = (numbers.reshape(table.shape[:-1]) / table.shape[-1])[..., None].expand(table.shape)
        for turned in (False, True)[: 1 + is_table(table, self.num_tokens)]:
            parts = [torch.ones(each.shape, dtype=torch.float64) for each in operation.inputs]
            parts[place] = rows.mT if turned else rows
            with suppress(RuntimeError, TypeError):
                entries = repeated(operation, parts).flatten().sort()[0]
                times = round(entries[0].item())
                if entries.numel() % len(numbers) == 0 and times:
                    entries = entries.reshape(len(numbers), -1) / times
                    if torch.allclose(entries, numbers[:, None].expand_as(entries)):
                        self.seen.summed = self.seen.summed or ((operation, times) if times > 1 else ())
                        if turned:
                            found.used, found.weights = found.used.mT, found.weights.mT
                            found.turned = None if found.turned else operation
                        return

    def add(self, weights, operation, constant=False):
        """A new map, found in the last operation."""
        if is_table(weights, self.num_tokens):
            weights, name = weights.clone(), operation.name
            scores = operation.inputs[0].clone() if name == "softmax" else None
            number, mixed = len(self.seen.operations) - 1, name in AGAIN
            made = AttentionMap(number, operation, weights, weights, mixed, None, constant, scores)
            self.seen.maps.append(made)
            return made

    def holds_weights(self, tensor):
        """Whether a tensor holds weights that sum to 1. A row whose keys are all hidden is NaN; we judge the others."""
        if not is_table(tensor, self.num_tokens) or not tensor.is_floating_point() or (tensor < 0).any():
            return False
        sums = [tensor.float().sum(dim=dim) for dim in (-1, -2)]
        near = max(NEAR, torch.finfo(tensor.dtype).eps)
        return any((total.isnan() | ((total - 1).abs() < near)).all() and not total.isnan().all() for total in sums)


def settled(found, num_tokens):
    """A map with one dimension for its heads, in float32 at least."""
    for name in ("weights", "used", "scores"):
        table = getattr(found, name)
        setattr(found, name, table if table is None else widened(table).reshape(-1, num_tokens, num_tokens))
    return found


def repeated(product, operands):
    """What a product of a call makes of other operands."""
    return torch.einsum(product.args[0], *operands) if product.name == "einsum" else torch.matmul(*operands)


def widened(tensor):
    """Half precision as float32."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def is_table(tensor, num_tokens):
    return tensor.ndim > 1 and tensor.shape[-2] == tensor.shape[-1] == num_tokens


def fused_weights(query, key, value, attn_mask=None, dropout_p=0.0, *causal, **options):
    """The weights of scaled_dot_product_attention, before dropout: what it returns if the values are unit vectors."""
    units = torch.eye(key.shape[-2], dtype=value.dtype).expand(*key.shape[:-1], key.shape[-2])
    return functional.scaled_dot_product_attention(query, key, units, attn_mask, 0.0, *causal, **options)


def module_weights(*args, **kwargs):
    """The weights of an nn.MultiheadAttention, (b, num_heads, num_tokens, num_tokens), before dropout."""
    asked = kwargs | {"training": False, "need_weights": True, "average_attn_weights": False}
    return functional.multi_head_attention_forward(*args, **asked)[1]


AGAIN = {FUSED: fused_weights, MODULE: module_weights}

"""Find all attention maps in a call of any layer by watching its operations, so the layer needn't return them.

A map is a matrix (num_tokens, num_tokens) whose rows, or columns, sum to 1. So we find a softmax, but also an exp
divided by its sum, whatever their names. scaled_dot_product_attention and nn.MultiheadAttention don't show their
weights, so we compute those again from the arguments.
"""

import io
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from ..operations import operation_name, tensors_in
from ..seeded import BORROWING
from .lines import calling_line, with_line

NEAR = 1e-3  # how far from 1 a sum of weights can be
MODULE = "multi_head_attention_forward"
TRANSPOSES = {"T", "mT", "t", "transpose", "permute", "swapaxes", "swapdims", "adjoint"}
PRODUCTS = {"matmul", "mm", "bmm", "einsum"}


@dataclass
class AttentionMap:
    """The weights that one operation of a call made; a row for each query, a column for each key."""

    operation: int  # its index among all operations of the call
    made_by: str  # the operation's name
    line: str  # where it was called
    weights: torch.Tensor  # (num_maps, num_tokens, num_tokens), as they came out of softmax or a similar operation
    used: torch.Tensor  # (num_maps, num_tokens, num_tokens), as they averaged the values: after dropout, or a mask
    mixed: bool = False  # whether a product has averaged the values with them; what happens later changes nothing
    context: torch.Tensor | None = None  # (num_maps, num_tokens, head_dim), that product, if we can tell its dimensions
    turned: bool = False  # whether the weights were transposed since they were made
    constant: bool = False  # whether they're the same for any x: then they're a map only if they average something


class Watched(NamedTuple):
    """What we saw of a call."""

    result: object
    maps: list
    operations: list  # (name, shape of the result, line) of each
    weights: list  # for each tensor in the result, whether it's a table of attention weights
    read: dict  # all tensors that an operation read or made, by their ids
    drew: list  # (name, line) of each operation that may have drawn random numbers
    nan: tuple | None  # (name, line) of the first operation that made NaN of numbers
    across: str  # names a softmax that runs over neither keys nor queries; "" if none does
    early: str  # names a dropout whose result goes into softmax; "" if none does
    fewer: Exception | None = None  # what the call with one token fewer raised


def find_maps(layer, x):
    """Call layer(x) without gradients, and return a Watched.

    layer: any callable; x: one sentence, (num_tokens, d_in) or (1, num_tokens, d_in), with 2 tokens or more.
    If there are as many features as tokens, a softmax over features looks like a map. So we call the layer a second
    time with one token fewer, and leave out matrices that don't shrink (unless this call fails, or runs other
    operations). We don't find a softmax over only some of the keys, or anything computed outside torch. We follow a
    mask or dropout after the softmax up to the matrix product or einsum with the values.
    Errors: what layer raises on x.
    """
    watched, fewer = _Watcher(x.shape[-2]).watch(layer, x), x.shape[-2] - 1
    try:
        with redirect_stdout(io.StringIO()):
            again = _Watcher(fewer).watch(layer, x[..., :-1, :])
    except Exception as error:  # the caller only asked about x
        return watched._replace(fewer=error)
    shorter = again.operations
    if (len(shorter), len(again.weights)) != (len(watched.operations), len(watched.weights)):
        return watched
    kept = [found for found in watched.maps if found.made_by in AGAIN or is_table(shorter[found.operation][1], fewer)]
    weights = [all(both) for both in zip(watched.weights, again.weights, strict=True)]
    return watched._replace(maps=kept, weights=weights, early=again.early and watched.early)


class _Watcher(TorchFunctionMode):
    """Follows each matrix of weights until it averages the values."""

    def __init__(self, num_tokens):
        super().__init__()
        self.num_tokens, self.operations, self.found, self.drew, self.nan = num_tokens, [], [], [], None
        self.across = self.early = ""
        self.dropped = {}  # id of a table of scores -> names the dropout that changed them
        self.kept = []  # all tensors of the call, because Python reuses the ids of deleted ones
        self.tables = {}  # id of a tensor -> the map that it holds, perhaps reshaped or masked since

    def watch(self, layer, x):
        self.from_x = {id(x)}
        with torch.no_grad(), self:
            result = layer(x)
        weights = [id(each) in self.tables or self.holds_weights(each) for each in tensors_in(result)]
        read = {id(tensor): tensor for tensor in self.kept}
        noted = self.drew, self.nan, self.across, self.early
        return Watched(result, self.maps(), self.operations, weights, read, *noted)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, operation_name(func)
        inputs, result = tensors_in((args, kwargs)), func(*args, **kwargs)
        outputs = inputs[:1] if name == "setitem" else tensors_in(result)
        if outputs:
            self.kept += inputs + outputs
            if self.from_x.intersection(map(id, inputs)):
                self.from_x.update(map(id, outputs))
            self.operations.append((name, tuple(outputs[0].shape), calling_line(sys._getframe(1), self.watch)))
            off = "dropout" in name and torch.equal(inputs[0], outputs[0])
            if BORROWING.search(name) and not off:
                self.drew.append((name, self.operations[-1][2]))
            if name == "softmax" and is_table(outputs[0].shape, self.num_tokens):
                dim = kwargs.get("dim", [*args, None, None][1])
                if dim is None or dim % outputs[0].ndim < outputs[0].ndim - 2:
                    self.across = f"{with_line(name, self.operations[-1][2])} runs over neither keys nor queries"
            self.watch_dropout(name, inputs, outputs[0])
            if not self.nan and outputs[0].is_floating_point() and outputs[0].isnan().any():
                self.nan = name, self.operations[-1][2]
            if name in AGAIN:
                self.add(AGAIN[name](*args, **kwargs), None if name == MODULE else outputs[0].clone())
            self.follow(name, args, inputs, outputs[0])
        return result

    def watch_dropout(self, name, inputs, output):
        """Note a dropout of scores, and whether they go into softmax."""
        found = next((self.dropped[id(tensor)] for tensor in inputs if id(tensor) in self.dropped), "")
        if "dropout" in name and is_table(output.shape, self.num_tokens) and id(inputs[0]) not in self.tables:
            found = with_line(name, self.operations[-1][2])
        if found and name == "softmax":
            self.early = found
        elif found and is_table(output.shape, self.num_tokens):
            self.dropped[id(output)] = found

    def follow(self, name, args, inputs, output):
        """Note what an operation does to the map among its inputs, or that its output is a new map."""
        known = [(n, self.tables[id(tensor)]) for n, tensor in enumerate(inputs) if id(tensor) in self.tables]
        varies = id(output) in self.from_x
        if not known or (known[0][1].constant and varies and name not in PRODUCTS):
            if self.holds_weights(output):
                self.tables[id(output)] = self.add(output)
                self.tables[id(output)].constant = not varies
            return
        place, found = known[0]
        if found.mixed:
            return
        if name in PRODUCTS:
            found.used, found.mixed = inputs[place].clone(), True
            found.context = context_of(args[0], place, output.clone()) if name == "einsum" else output.clone()
        elif output.numel() == found.used.numel():
            self.tables[id(output)] = found
            if is_table(output.shape, self.num_tokens):
                found.used = output.clone()
                if self.holds_weights(output):
                    found.turned ^= name in TRANSPOSES and torch.equal(output, found.weights.mT)
                    found.weights = found.used

    def add(self, weights, context=None):
        """A new map, found in the last operation."""
        name, _, line = self.operations[-1]
        if is_table(weights.shape, self.num_tokens):
            weights, number = weights.clone(), len(self.operations) - 1
            self.found.append(AttentionMap(number, name, line, weights, weights, name in AGAIN, context=context))
            return self.found[-1]

    def holds_weights(self, tensor):
        """Whether a tensor holds weights that sum to 1. A row whose keys are all hidden is NaN; we judge the others."""
        if not is_table(tensor.shape, self.num_tokens) or not tensor.is_floating_point() or (tensor < 0).any():
            return False
        sums = [tensor.sum(dim=dim) for dim in (-1, -2)]
        return any((total.isnan() | ((total - 1).abs() < NEAR)).all() and not total.isnan().all() for total in sums)

    def maps(self):
        shape = -1, self.num_tokens, self.num_tokens
        self.found = [each for each in self.found if each.mixed or not each.constant]
        for each in self.found:
            each.weights, each.used = each.weights.reshape(shape), each.used.reshape(shape)
            heads, context = len(each.weights), each.context
            fits = context is not None and context[..., 0].numel() == heads * self.num_tokens
            each.context = context.reshape(heads, self.num_tokens, -1) if fits else None
        return self.found


def is_table(shape, num_tokens):
    return len(shape) > 1 and shape[-2] == shape[-1] == num_tokens


def context_of(equation, place, output):
    """An einsum of weights and values as (..., num_tokens, head_dim); None if we can't tell its dimensions.

    place: which of its operands the weights are.
    """
    operands, _, given = equation.replace(" ", "").partition("->")
    letters = operands.split(",")[place]
    rows, rest = letters[:-1], {*given} - {*letters}  # the heads' and the queries'; what is left is head_dim's
    if "." in letters or sorted(given) != sorted([*rows, *rest]):
        return None
    return output.permute([given.index(letter) for letter in [*rows, *rest]])


def fused_weights(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """The weights of scaled_dot_product_attention, before dropout: what it returns if the values are unit vectors."""
    units = torch.eye(key.shape[-2], dtype=value.dtype).expand(*key.shape[:-1], key.shape[-2])
    return functional.scaled_dot_product_attention(
        query, key, units, attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
    )


def module_weights(*args, **kwargs):
    """The weights of an nn.MultiheadAttention, (b, num_heads, num_tokens, num_tokens), before dropout."""
    asked = kwargs | {"training": False, "need_weights": True, "average_attn_weights": False}
    return functional.multi_head_attention_forward(*args, **asked)[1]


AGAIN = {"scaled_dot_product_attention": fused_weights, MODULE: module_weights}

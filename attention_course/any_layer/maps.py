"""Find all attention maps among a call's operations, so the layer needn't return them.

A map is a matrix (num_tokens, num_tokens) whose rows, or columns, sum to 1. So we find a softmax, but also an exp
divided by its sum, whatever their names. scaled_dot_product_attention and nn.MultiheadAttention don't show their
weights, so we compute those again from the arguments.
"""

from contextlib import suppress
from dataclasses import dataclass

import torch
from torch.nn import functional

from attention_helpers.probes import sdpa_weights

PRODUCTS = {"matmul", "mm", "bmm", "einsum", "baddbmm"}
FUSED = "scaled_dot_product_attention"
NEAR = 1e-3  # how far from 1 a sum of weights can be
TRANSPOSES = {"T", "mT", "t", "transpose", "permute", "swapaxes", "swapdims", "adjoint"}


@dataclass
class AttentionMap:
    """The weights that one operation of a call made; a row for each query, a column for each key."""

    number: int  # of the operation that made it, among all of the call
    made: object  # this operation
    weights: torch.Tensor  # (num_maps, num_tokens, num_tokens), as they came out of softmax or a similar operation
    used: torch.Tensor  # (num_maps, num_tokens, num_tokens), as they averaged the values: after dropout, or a mask
    mixed: bool = False  # whether a product has averaged the values with them; what happens later changes nothing
    constant: bool = False  # whether they're the same for any x: then they're a map only if they average something
    scores: torch.Tensor | None = None  # (num_maps, num_tokens, num_tokens), what went into softmax
    turned: object = None  # the operation that transposed the weights since they were made
    joined: object = None  # the operation that put it together with another map
    again: object = None  # a softmax of weights that a softmax had already made

    def settled(self):
        """With one dimension for its heads, in float32 at least."""
        for name in ("weights", "used", "scores"):
            table = getattr(self, name)
            setattr(self, name, table if table is None else widened(table).reshape(-1, *table.shape[-2:]))
        return self


class MapFinder:
    """Follows each matrix of weights until it averages the values."""

    def __init__(self, seen):
        self.seen = seen  # the call's Record
        self.tables = {}  # id of a tensor -> the map that it holds, perhaps reshaped or masked since

    def is_weights(self, tensor):
        return id(tensor) in self.tables or self.sums_to_one(tensor)

    def watch(self, operation, output):
        """Note what an operation does to the map among its inputs, or that its output is a new map."""
        known = [self.tables[id(each)] for each in operation.inputs if id(each) in self.tables]
        if not known or (known[0].constant and operation.varies and operation.name not in PRODUCTS):
            if self.sums_to_one(output):
                self.tables[id(output)] = self.add(output, operation, constant=not operation.varies)
        elif known[0] is not known[-1]:
            for each in known:
                each.joined = operation
                each.mixed = True
                each.used = each.weights
        elif not known[0].mixed:
            self.follow(known[0], operation, output)

    def follow(self, found, operation, output):
        if operation.name in PRODUCTS:
            self.average(found, operation)
        elif any(each.requires_grad for each in operation.inputs):
            found.mixed = True  # learned numbers change the weights, as when heads are mixed: no fault, and no map
        elif output.numel() == found.used.numel():
            self.tables[id(output)] = found
            if not is_table(output, self.seen.num_tokens):
                return
            found.used = operation.made
            if self.sums_to_one(output):
                if operation.name == "softmax":
                    found.again = operation
                if operation.name in TRANSPOSES and torch.equal(output, found.weights.mT):
                    found.turned = None if found.turned else operation
                found.weights = operation.made

    def average(self, found, operation):
        """A product averages the values by a map's weights: over the keys, or over the queries by mistake.

        To see it, whatever the order of its dimensions, we repeat it with values of 1, and with weights that add up to
        a row's number in each row, or in each column. So its result shows which entries each row's average is in.
        """
        place = [id(each) in self.tables for each in operation.inputs].index(True)
        table = operation.inputs[place]
        found.mixed = True
        found.used = table.clone()
        numbers = torch.arange(1.0, 1 + table[..., 0].numel(), dtype=torch.float64)
        rows = (numbers.reshape(table.shape[:-1]) / table.shape[-1])[..., None].expand(table.shape)
        for turned in (False, True)[: 1 + is_table(table, self.seen.num_tokens)]:
            parts = [torch.ones(each.shape, dtype=torch.float64) for each in operation.inputs]
            parts[place] = rows.mT if turned else rows
            with suppress(RuntimeError, TypeError):
                entries = repeated(operation, parts).flatten().sort()[0]
                times = round(entries[0].item())
                if times == 0 or entries.numel() % len(numbers):
                    continue
                entries = entries.reshape(len(numbers), -1) / times
                if torch.allclose(entries, numbers[:, None].expand_as(entries)):
                    self.seen.summed = self.seen.summed or ((operation, times) if times > 1 else ())
                    if turned:
                        found.used = found.used.mT
                        found.weights = found.weights.mT
                        found.turned = None if found.turned else operation
                    return

    def add(self, weights, operation, constant=False):
        """A new map, found in the last operation."""
        if not is_table(weights, self.seen.num_tokens):
            return None
        weights = weights.clone()
        scores = operation.inputs[0].clone() if operation.name == "softmax" else None
        mixed = operation.name in AGAIN
        made = AttentionMap(len(self.seen.operations) - 1, operation, weights, weights, mixed, constant, scores)
        self.seen.maps.append(made)
        return made

    def sums_to_one(self, tensor):
        """Whether a tensor holds weights that sum to 1. A row whose keys are all hidden is NaN; we judge the others."""
        if not is_table(tensor, self.seen.num_tokens) or not tensor.is_floating_point() or (tensor < 0).any():
            return False
        sums = [tensor.float().sum(dim=dim) for dim in (-1, -2)]
        near = max(NEAR, torch.finfo(tensor.dtype).eps)
        return any((total.isnan() | ((total - 1).abs() < near)).all() and not total.isnan().all() for total in sums)


def repeated(product, operands):
    """What a product of a call makes of other operands."""
    return torch.einsum(product.args[0], *operands) if product.name == "einsum" else torch.matmul(*operands)


def widened(tensor):
    """Half precision as float32."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def is_table(tensor, num_tokens):
    return tensor.ndim > 1 and tensor.shape[-2] == tensor.shape[-1] == num_tokens


def module_weights(*args, **kwargs):
    """The weights of an nn.MultiheadAttention, (b, num_heads, num_tokens, num_tokens), before dropout."""
    asked = kwargs | {"training": False, "need_weights": True, "average_attn_weights": False}
    return functional.multi_head_attention_forward(*args, **asked)[1]


AGAIN = {FUSED: sdpa_weights, "multi_head_attention_forward": module_weights}

"""Find all attention maps among a call's operations, so the layer needn't return them.

A map is a matrix (num_tokens, num_tokens) whose rows, or columns, sum to 1. So we find a softmax, but also an exp
divided by its sum, whatever their names. scaled_dot_product_attention and nn.MultiheadAttention don't show their
weights, so we compute those again from the arguments.
"""

import math
from dataclasses import dataclass

import torch
from torch.nn import functional

from attention_helpers.probes import sdpa_weights

PRODUCTS = {"matmul", "mm", "bmm", "einsum", "baddbmm"}
FUSED = "scaled_dot_product_attention"
NEAR = 1e-3  # how far from 1 a sum of weights can be


@dataclass
class AttentionMap:
    """The weights that one operation of a call made; a row for each query, a column for each key."""

    made: object  # the operation that made it
    weights: torch.Tensor  # (..., num_tokens, num_tokens), as they came out of softmax or a similar operation
    used: torch.Tensor  # (..., num_tokens, num_tokens), as they averaged the values: after dropout, or a mask
    mixed: bool  # whether a product has averaged the values with them; what happens later changes nothing
    constant: bool  # whether they're the same for any x: then they're a map only if they average something
    scores: torch.Tensor | None = None  # (..., num_tokens, num_tokens), what went into softmax
    turned: object = None  # the operation that transposed the weights since they were made
    again: object = None  # a softmax of weights that a softmax had already made
    summed: tuple = ()  # (operation, how many): one that adds so many heads' values, each with the same weights


class MapFinder:
    """Follows each matrix of weights until it averages the values."""

    def __init__(self, num_tokens):
        self.num_tokens, self.maps = num_tokens, []
        self.tables = {}  # id of a tensor -> the map that it holds, perhaps reshaped or masked since

    def watch(self, operation, output):
        """Note what an operation does to the map among its inputs, or that its output is a new map."""
        known = [self.tables[id(each)] for each in operation.inputs if id(each) in self.tables]
        product = operation.name in PRODUCTS
        learns = any(each.requires_grad for each in operation.inputs)
        if not known or (known[0].constant and operation.varies and not product):
            if sums_to_one(output, self.num_tokens):
                self.tables[id(output)] = self.add(output, operation)
        elif known[0] is not known[-1] or (learns and not product):
            for each in known:
                each.mixed, each.used = True, each.weights  # with another map, or learned numbers: no fault
        elif known[0].mixed:
            return
        elif product:
            self.average(known[0], operation)
        elif output.numel() == known[0].used.numel():
            self.tables[id(output)] = known[0]
            if is_table(output, self.num_tokens):
                self.follow(known[0], operation, output)

    def add(self, weights, operation):
        scores = operation.inputs[0].clone() if operation.name == "softmax" else None
        made = weights.clone()
        self.maps.append(AttentionMap(operation, made, made, operation.name in AGAIN, not operation.varies, scores))
        return self.maps[-1]

    def follow(self, found, operation, output):
        """The map's weights are changed, or transposed, on their way to the product."""
        found.used = operation.made
        if sums_to_one(output, self.num_tokens):
            if operation.name == "softmax":
                found.again = operation
            elif torch.equal(output, found.weights.mT) and not torch.equal(output, found.weights):
                found.turned = None if found.turned else operation
            found.weights = operation.made

    def average(self, found, operation):
        """A product averages the values by a map's weights: over the keys, or over the queries by mistake."""
        place = [id(each) in self.tables for each in operation.inputs].index(True)
        found.mixed, found.used = True, operation.inputs[place].clone()
        turned = place > 0 and place == len(operation.inputs) - 1  # as in values.mT @ weights.mT
        equation = operation.options.get(0)
        if isinstance(equation, str) and "->" in equation:  # of einsum
            terms, _, kept = equation.replace(" ", "").partition("->")
            terms = terms.split(",")
            turned = terms[place][-1] in kept
            lost = [letter for letter in terms[1 - place].strip(".") if equation.count(letter) == 1]
            values = operation.inputs[1 - place]
            times = math.prod(values.shape[terms[1 - place].index(each) - len(terms[1 - place])] for each in lost)
            found.summed = (operation, times) if times > 1 else ()
        if turned and is_table(found.used, self.num_tokens):
            found.used, found.weights = found.used.mT, found.weights.mT
            found.turned = None if found.turned else operation


def sums_to_one(tensor, num_tokens):
    """Whether a tensor holds weights that sum to 1. A row whose keys are all hidden is NaN; we judge the others."""
    if not is_table(tensor, num_tokens) or not tensor.is_floating_point() or (tensor < 0).any():
        return False
    sums = [tensor.float().sum(dim=dim) for dim in (-1, -2)]
    near = max(NEAR, torch.finfo(tensor.dtype).eps)
    return any((total.isnan() | ((total - 1).abs() < near)).all() and not total.isnan().all() for total in sums)


def is_table(tensor, num_tokens):
    return tensor.ndim > 1 and tensor.shape[-2] == tensor.shape[-1] == num_tokens


def widen(tensor):
    """Half precision as float32."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def module_weights(*args, **kwargs):
    """The weights of an nn.MultiheadAttention, (b, num_heads, num_tokens, num_tokens), before dropout."""
    asked = kwargs | {"training": False, "need_weights": True, "average_attn_weights": False}
    return functional.multi_head_attention_forward(*args, **asked)[1]


AGAIN = {FUSED: sdpa_weights, "multi_head_attention_forward": module_weights}

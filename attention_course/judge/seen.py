"""Record each torch operation of a call, with its line, and find the attention maps among what they make.

A map is a matrix (num_tokens, num_tokens) whose rows, or columns, sum to 1. So we find a softmax, but also an exp
divided by its sum, whatever their names. scaled_dot_product_attention and nn.MultiheadAttention don't show their
weights, so we compute those again from the arguments. What's computed outside torch, or in a script, isn't seen.
"""

import sys
from dataclasses import dataclass, field

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attention_helpers.probes import sdpa_weights

from .calling import tensors_in, widen
from .lines import calling_line

PRODUCTS = {"matmul", "mm", "bmm", "einsum", "baddbmm"}
NEAR = 1e-3  # how far from 1 a sum of weights can be


@dataclass
class Operation:
    name: str
    line: str  # where it was called, with its code
    inputs: list  # all tensors among its arguments
    made: torch.Tensor  # a copy of its first result, which later operations can't change
    fixed: list  # those of its inputs that don't come from the sentence
    drew: bool  # whether it moved torch's random generator
    cuts: bool  # whether it makes numbers without a gradient of some that have one

    where = property(lambda self: f"{self.name} in {self.line.partition(',')[0]}" if self.line else self.name)
    varies = property(lambda self: len(self.fixed) < len(self.inputs))  # whether it comes from the sentence


@dataclass
class AttentionMap:
    """The weights that one operation of a call made; a row for each query, a column for each key."""

    made: Operation  # that made it
    weights: torch.Tensor  # (..., num_tokens, num_tokens), as they came out of softmax or a similar operation
    used: torch.Tensor  # (..., num_tokens, num_tokens), as they averaged the values: after dropout, or a mask
    scores: torch.Tensor | None = None  # what went into softmax
    constant: bool = False  # whether they're the same for any x, as a table of 0 and 1 is
    mixed: bool = False  # whether the values have been averaged with them; what happens later changes nothing
    again: Operation | None = None  # a softmax of weights that a softmax had already made


@dataclass
class Record:
    """What a call of a layer did."""

    num_tokens: int
    result: object = None
    operations: list = field(default_factory=list)
    maps: list = field(default_factory=list)

    @property
    def eps(self):
        """Of the coarsest floating-point numbers that it made."""
        kinds = {each.made.dtype for each in self.operations if each.made.is_floating_point()}
        return max((torch.finfo(kind).eps for kind in kinds), default=0.0)

    def first(self, condition):
        """The first operation for which a condition holds, or None."""
        return next(filter(condition, self.operations), None)

    def stack(self, name):
        n = self.num_tokens
        tables = [widen(getattr(each, name)).reshape(-1, n, n) for each in self.maps if getattr(each, name) is not None]
        return torch.cat([torch.zeros(0, n, n), *tables])

    # All maps' weights, (num_maps, num_tokens, num_tokens): as they average the values, and as softmax made them
    used = property(lambda self: self.stack("used"))
    made = property(lambda self: self.stack("weights"))
    scores = property(lambda self: self.stack("scores"))

    def __str__(self):
        rows = [("operation", "inputs", "output", "line")]
        for each in self.operations:
            shapes = ", ".join(str(tuple(part.shape)) for part in each.inputs)
            rows.append((each.name, shapes, str(tuple(each.made.shape)), each.line.partition(",")[0]))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def record(call, x, grad=False):
    """The Record of a Call with a copy of one sentence. Errors: what the layer raises."""
    x = x.clone()
    recorder = Recorder(x, call.sentence)
    with torch.set_grad_enabled(grad), recorder:
        recorder.seen.result = call(x)
    seen = recorder.seen
    results = tensors_in(seen.result)
    seen.maps = [each for each in seen.maps if each.mixed or any(each.used is part for part in results)]
    return seen


class Recorder(TorchFunctionMode):
    """Keeps all tensors until the call ends, since Python reuses ids."""

    def __init__(self, *given):
        super().__init__()
        self.seen = Record(given[0].shape[-2])
        self.given = {each.untyped_storage().data_ptr() for each in given}
        self.from_x, self.kept = set(), []
        self.tables = {}  # id of a tensor -> the map that it holds, perhaps reshaped or masked since

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = operation_name(func)
        inputs = tensors_in((args, kwargs))
        getter = getattr(func, "__name__", "") == "__get__"
        drawn = None if getter else torch.get_rng_state()
        result = func(*args, **kwargs)
        outputs = tensors_in(result) or (inputs[:1] if name == "setitem" else [])
        self.kept += inputs + outputs
        if outputs:
            fixed = [each for each in inputs if not self.comes_from_x(each)]
            if len(fixed) < len(inputs):
                self.from_x.update(map(id, outputs))
            made = outputs[0].detach().clone()
            drew = not getter and not torch.equal(drawn, torch.get_rng_state())
            learned = any(each.requires_grad for each in inputs) and made.dtype != torch.bool
            line = calling_line(sys._getframe(1), record)
            operation = Operation(name, line, inputs, made, fixed, drew, learned and not outputs[0].requires_grad)
            self.seen.operations.append(operation)
            if name in AGAIN and is_table(weights := AGAIN[name](*args, **kwargs), self.seen.num_tokens):
                self.add(weights, operation).mixed = True
            self.follow(operation, outputs[0], args)
        return result

    def comes_from_x(self, tensor):
        return id(tensor) in self.from_x or tensor.untyped_storage().data_ptr() in self.given

    def add(self, weights, operation):
        self.seen.maps.append(AttentionMap(operation, weights.clone(), weights, constant=not operation.varies))
        return self.seen.maps[-1]

    def follow(self, operation, output, args):
        """Note what an operation does to the map among its inputs, or that its output is a new map."""
        known = [self.tables[id(each)] for each in operation.inputs if id(each) in self.tables]
        product = operation.name in PRODUCTS
        learns = any(isinstance(each, torch.nn.Parameter) for each in operation.inputs)
        if not known or (known[0].constant and operation.varies and not product):
            if sums_to_one(output, self.seen.num_tokens):
                found = self.tables[id(output)] = self.add(output, operation)
                found.scores = operation.inputs[0].clone() if operation.name == "softmax" else None
        elif known[0] is not known[-1] or (learns and not product):
            for each in known:
                each.mixed, each.used = True, each.weights  # with another map, or learned numbers: no fault
        elif known[0].mixed:
            return
        elif product:
            known[0].used = as_it_averages(operation, self.tables, args)
            known[0].mixed = True
        elif output.numel() > known[0].used.numel():
            known[0].mixed = True
        elif output.numel() == known[0].used.numel():
            self.tables[id(output)] = known[0]
            if is_table(output, self.seen.num_tokens):
                known[0].used = output
                if sums_to_one(output, self.seen.num_tokens):
                    known[0].again = operation if operation.name == "softmax" else known[0].again
                    known[0].weights = operation.made


def as_it_averages(operation, tables, args):
    """A map as a product averages by it: transposed if it stands on the right, or einsum's letters say so."""
    place = [id(each) in tables for each in operation.inputs].index(True)
    weights = operation.inputs[place].clone()
    turned = place > 0 and place == len(operation.inputs) - 1  # as in values.mT @ weights.mT
    if isinstance(args[0], str) and "->" in args[0]:
        terms, _, kept = args[0].replace(" ", "").partition("->")
        turned = terms.split(",")[place][-1] in kept
    return weights.mT if turned else weights


def operation_name(func):
    """What a learner would call the operation: matmul for __matmul__, T for the property T."""
    name = getattr(func, "__name__", type(func).__name__)
    if name == "__get__":
        return operation_name(func.__self__)
    return name.strip("_") if name.startswith("__") else name


def sums_to_one(tensor, num_tokens):
    """Whether a tensor holds weights that sum to 1. A row whose keys are all hidden is NaN; we judge the others."""
    if not is_table(tensor, num_tokens) or not tensor.is_floating_point() or (tensor < 0).any():
        return False
    sums = [tensor.float().sum(dim=dim) for dim in (-1, -2)]
    near = max(NEAR, torch.finfo(tensor.dtype).eps)
    return any((total.isnan() | ((total - 1).abs() < near)).all() and not total.isnan().all() for total in sums)


def is_table(tensor, num_tokens):
    return tensor.ndim > 1 and tensor.shape[-2] == tensor.shape[-1] == num_tokens


def module_weights(*args, **kwargs):
    """The weights of an nn.MultiheadAttention, (b, num_heads, num_tokens, num_tokens), before dropout."""
    asked = kwargs | {"training": False, "need_weights": True, "average_attn_weights": False}
    return functional.multi_head_attention_forward(*args, **asked)[1]


AGAIN = {"scaled_dot_product_attention": sdpa_weights, "multi_head_attention_forward": module_weights}

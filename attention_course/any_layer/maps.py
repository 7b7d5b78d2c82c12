"""Find all attention maps in a call of any layer by watching its operations, so the layer needn't return them.

A map is a matrix (num_tokens, num_tokens) whose rows, or columns, sum to 1. So we find a softmax, but also an exp
divided by its sum, whatever their names. scaled_dot_product_attention and nn.MultiheadAttention don't show their
weights, so we compute those again from the arguments.
"""

import io
import itertools
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, field

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attention_helpers.operations import METADATA, operation_name, tensors_in
from attention_helpers.seeded import BORROWING

from .lines import calling_line, memory, with_line
from .scales import Scales

NEAR = 1e-3  # how far from 1 a sum of weights can be
MODULE = "multi_head_attention_forward"
TRANSPOSES = {"T", "mT", "t", "transpose", "permute", "swapaxes", "swapdims", "adjoint"}
PRODUCTS = {"matmul", "mm", "bmm", "einsum"}
VIEWS = {"view", "reshape", "flatten", "unflatten"}


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
    turned: str = ""  # which operation transposed the weights since they were made
    constant: bool = False  # whether they're the same for any x: then they're a map only if they average something
    scores: torch.Tensor | None = None  # (num_maps, num_tokens, num_tokens), what went into softmax


@dataclass
class Watched:
    """What we saw of a call."""

    result: object = None
    maps: list = field(default_factory=list)
    operations: list = field(default_factory=list)  # (name, shape of the result, line) of each
    weights: list = field(default_factory=list)  # for each tensor in the result: is it a table of attention weights?
    read: list = field(default_factory=list)  # all tensors that an operation read
    drew: list = field(default_factory=list)  # (name, line) of each operation that may have drawn random numbers
    nan: tuple = ()  # (name, line) of the first operation that made NaN of numbers
    across: str = ""  # names a softmax that runs over neither keys nor queries
    wide: str = ""  # names a softmax over the tokens and more keys
    among: str = ""  # names a softmax over the heads of each token
    early: str = ""  # names a dropout whose result goes into softmax
    bounded: str = ""  # names an operation that made finite numbers of hidden scores
    triangle: str = ""  # names an operation that made a triangle, as masks are made
    views: list = field(default_factory=list)  # (name, line, shape before, shape after) of what comes from x
    scaled: list = field(default_factory=list)  # (factor or None, width or None, how many tables) of each softmax
    projects: list = field(
        default_factory=list
    )  # parameters, or views of them, by which products multiply what's from x
    summed: tuple = ()  # (einsum with its line, letter, size): it sums over what only the values have
    eps: float = 0.0  # of the coarsest floating-point numbers that we saw
    fewer: Exception | None = None  # what the call with one token fewer raised


def find_maps(layer, x, again=True):
    """Call layer(x) without gradients, and return a Watched.

    layer: any callable; x: one sentence, (num_tokens, d_in) or (1, num_tokens, d_in), with 2 tokens or more.
    If there are as many features as tokens, a softmax over features looks like a map. So we call the layer a second
    time with one token fewer, if `again`, and leave out matrices that don't shrink (unless this call fails, or runs
    other operations). We don't find a softmax over only some of the keys, or anything computed outside torch. We follow
    a mask or dropout after the softmax up to the matrix product or einsum with the values.
    Errors: what layer raises on x.
    """
    watched, fewer = _Watcher(x.shape[-2]).watch(layer, x), x.shape[-2] - 1
    try:
        with redirect_stdout(io.StringIO()):
            shorter = _Watcher(fewer).watch(layer, x[..., :-1, :]) if again else watched
    except Exception as error:  # the caller only asked about x
        watched.fewer = error
        return watched
    names = shorter.operations
    if again and (len(names), len(shorter.weights)) == (len(watched.operations), len(watched.weights)):
        shrinks = [each.made_by in AGAIN or is_table(names[each.operation][1], fewer) for each in watched.maps]
        watched.maps = [*itertools.compress(watched.maps, shrinks)]
        watched.weights = [all(both) for both in zip(watched.weights, shorter.weights, strict=True)]
        watched.early = shorter.early and watched.early
    return watched


def outputs_of(layer, x):
    """(name, line, its largest input's size, a copy of its result) of each operation of layer(x) on tensors."""
    watcher = _Watcher(x.shape[-2], copies=[])
    watcher.watch(layer, x)
    return watcher.copies


class _Watcher(TorchFunctionMode):
    """Follows each matrix of weights until it averages the values."""

    def __init__(self, num_tokens, copies=None):
        super().__init__()
        self.num_tokens, self.copies, self.seen, self.scales = num_tokens, copies, Watched(), Scales()
        self.dropped = {}  # id of a table of scores -> names the dropout that changed them
        self.kept = []  # all tensors of the call, because Python reuses the ids of deleted ones
        self.tables = {}  # id of a tensor -> the map that it holds, perhaps reshaped or masked since
        self.spread = {}  # id of a tensor (..., num_tokens, num_tokens, d): weights times values, not summed yet

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
            line = calling_line(sys._getframe(1), self.watch)
            seen.operations.append((name, tuple(outputs[0].shape), line))
            self.note(name, line, args, kwargs, inputs, outputs[0])
            if name == "softmax":
                seen.scaled.append((*self.scales.of(inputs[0]), outputs[0].shape[:-2].numel()))
            if self.copies is not None and inputs:
                self.copies.append((name, line, max(each.numel() for each in inputs), outputs[0].clone()))
            self.scales.follow(name, args, kwargs, inputs, outputs)
            if name == "scaled_dot_product_attention":
                seen.scaled.append((*self.scales.fused, outputs[0].shape[:-2].numel()))
            if name in PRODUCTS | {"linear"} and id(outputs[0]) in self.from_x:
                seen.projects += [each for each in inputs if each.requires_grad and each.ndim > 1]
            if name in AGAIN:
                self.add(AGAIN[name](*args, **kwargs), inputs, outputs[0])
            self.follow(name, args, kwargs, inputs, outputs[0])
        return result

    def note(self, name, line, args, kwargs, inputs, output):
        """Note what one operation shows by itself."""
        seen, table, where = self.seen, is_table(output.shape, self.num_tokens), with_line(name, line)
        if BORROWING.search(name) and not ("dropout" in name and torch.equal(inputs[0], output)):
            seen.drew.append((name, line))
        found = next((self.dropped[id(tensor)] for tensor in inputs if id(tensor) in self.dropped), "")
        if "dropout" in name and table and id(inputs[0]) not in self.tables:
            found = where
        if name == "softmax":
            dim, given = kwargs.get("dim", [*args, None, None][1]), output.shape
            if table and (dim is None or dim % output.ndim < output.ndim - 2):
                seen.across = f"{where} runs over neither keys nor queries"
            if len(given) > 1 and given[-2] == self.num_tokens < given[-1] and dim in (-1, len(given) - 1):
                seen.wide = f"{where}, over {given[-1]} keys"
            if len(given) > 2 and given[-2] == given[-1] != self.num_tokens == given[-3]:
                seen.among = f"{where} runs over the {given[-1]} heads of each token"
            seen.early = found or seen.early
        elif found and table:
            self.dropped[id(output)] = found
        if name == "scaled_dot_product_attention" and output.shape[-2] != self.num_tokens == output.shape[-3]:
            seen.among = f"{where} runs over the {output.shape[-2]} heads of each token"
        if name in ("tril", "triu") and table:
            seen.triangle = where
        if name in VIEWS and id(inputs[0]) in self.from_x:
            seen.views.append((name, line, tuple(inputs[0].shape), tuple(output.shape)))
        if not output.is_floating_point():
            return
        seen.eps = max(seen.eps, torch.finfo(output.dtype).eps)
        if not seen.nan and output.isnan().any():
            seen.nan = name, line
        if table and inputs and inputs[0].shape == output.shape and not seen.bounded:
            hidden = inputs[0].isneginf() & output.isfinite() & (output != 0)
            seen.bounded = where * bool(hidden.any())

    def follow(self, name, args, kwargs, inputs, output):
        """Note what an operation does to the map among its inputs, or that its output is a new map."""
        known = [(n, self.tables[id(tensor)]) for n, tensor in enumerate(inputs) if id(tensor) in self.tables]
        varies, table = id(output) in self.from_x, is_table(output.shape, self.num_tokens)
        if name == "sum" and inputs and id(inputs[0]) in self.spread:
            self.sum_up(self.spread[id(inputs[0])], kwargs.get("dim", [*args, None][1]), inputs[0].ndim, output)
        if not known or (known[0][1].constant and varies and name not in PRODUCTS):
            if self.holds_weights(output):
                self.tables[id(output)] = self.add(output, inputs)
                self.tables[id(output)].constant = not varies
            return
        place, found = known[0]
        if found.mixed:
            return
        if name in PRODUCTS:
            found.used, found.mixed = inputs[place].clone(), True
            found.context = output.clone()
            if name != "einsum" and place:  # values.mT @ weights.mT
                self.turn(found)
                found.context = output.mT.clone()
            if name == "einsum":
                self.read_letters(found, args, inputs, place, output)
        elif any(each.requires_grad for each in inputs):
            found.mixed = True  # learned numbers change the weights, as when heads are mixed: no fault, and no map
        elif output.numel() == found.used.numel():
            self.tables[id(output)] = found
            if table:
                found.used = output.clone()
                if self.holds_weights(output):
                    if name in TRANSPOSES and torch.equal(output, found.weights.mT):
                        self.turn(found)
                    found.used = found.weights = output.clone()
        elif output.shape[-3:-1] == (self.num_tokens, self.num_tokens):
            self.spread[id(output)] = found

    def sum_up(self, found, dim, ndim, output):
        """A map's weights times the values are summed: over the keys, or over the queries by mistake."""
        found.mixed = True
        if isinstance(dim, int) and dim % ndim == ndim - 3:
            self.turn(found)
        else:
            found.context = output.clone()

    def turn(self, found):
        """The last operation used a map's weights as if they were transposed."""
        found.used, found.weights = found.used.mT, found.weights.mT
        found.turned = "" if found.turned else with_line(*self.seen.operations[-1][::2])

    def read_letters(self, found, args, inputs, place, output):
        """What an einsum of weights and values sums over, by its letters."""
        found.context = None
        if not isinstance(args[0], str):
            return
        operands, _, given = args[0].replace(" ", "").partition("->")
        letters = operands.split(",")
        mine, theirs = letters[place], "".join(letters[:place] + letters[place + 1 :])
        query, key = mine[-2:]
        if key in given and query in given:
            return  # the heads are mixed, and the result is still a table
        if key in given:
            self.turn(found)
        extra = [letter for letter in theirs if letter.isalpha() and letter not in mine + given]
        sizes = {
            letter: n
            for names, each in zip(letters, inputs, strict=False)
            for letter, n in zip(names, each.shape, strict=False)
        }
        if extra and sizes.get(extra[0], 1) > 1 and "." not in args[0]:
            self.seen.summed = with_line(*self.seen.operations[-1][::2]), extra[0], sizes[extra[0]]
        rows, rest = mine[:-1], {*given} - {*mine}  # the heads' and the queries'; what is left is head_dim's
        if "." not in mine and sorted(given) == sorted([*rows, *rest]):
            found.context = output.permute([given.index(letter) for letter in [*rows, *rest]]).clone()

    def add(self, weights, inputs, context=None):
        """A new map, found in the last operation."""
        name, _, line = self.seen.operations[-1]
        if is_table(weights.shape, self.num_tokens):
            weights, number = weights.clone(), len(self.seen.operations) - 1
            context = context.clone() if context is not None and name != MODULE else None
            scores = inputs[0].clone() if name == "softmax" else None
            made = AttentionMap(number, name, line, weights, weights, name in AGAIN, context, scores=scores)
            self.seen.maps.append(made)
            return made

    def holds_weights(self, tensor):
        """Whether a tensor holds weights that sum to 1. A row whose keys are all hidden is NaN; we judge the others."""
        if not is_table(tensor.shape, self.num_tokens) or not tensor.is_floating_point() or (tensor < 0).any():
            return False
        sums = [tensor.float().sum(dim=dim) for dim in (-1, -2)]
        near = max(NEAR, torch.finfo(tensor.dtype).eps)
        return any((total.isnan() | ((total - 1).abs() < near)).all() and not total.isnan().all() for total in sums)


def settled(found, num_tokens):
    """A map with one dimension for its heads, in float32 at least."""
    shape, context = (-1, num_tokens, num_tokens), found.context
    for name in ("weights", "used", "scores"):
        table = getattr(found, name)
        if table is not None:
            setattr(found, name, widened(table).reshape(shape))
    heads = len(found.weights)
    fits = context is not None and context[..., 0].numel() == heads * num_tokens
    found.context = widened(context).reshape(heads, num_tokens, -1) if fits else None
    return found


def widened(tensor):
    """Half precision as float32."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def is_table(shape, num_tokens):
    return len(shape) > 1 and shape[-2] == shape[-1] == num_tokens


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

"""Record each torch operation of a call: its line, what went in and out, and whether anybody used it.

The maps of attention weights are found in the same record: see maps.
"""

import sys
import weakref
from dataclasses import dataclass, field, is_dataclass

import torch
from torch.overrides import TorchFunctionMode

from .lines import calling_line
from .maps import AGAIN, MapFinder, is_table, sums_to_one, widen

# These ask about a tensor without reading its values, so they don't count as a use of its memory.
METADATA = {"dim", "element_size", "is_contiguous", "is_floating_point", "len", "numel", "size", "stride", "type"}
PLAIN = {str, int, float}


@dataclass
class Operation:
    name: str
    line: str  # where it was called, with its code
    options: dict  # its arguments that aren't tensors, by name or place
    inputs: list  # all tensors among its arguments
    made: torch.Tensor  # a copy of its first result, which later operations can't change
    shapes: tuple  # of its inputs, and of its results
    fixed: list  # those of its inputs that don't come from the sentence
    drew: bool  # whether it moved torch's random generator
    cuts: bool  # whether it makes numbers without a gradient of some that have one
    unused: bool = False  # nobody read the result, and nothing that outlives the call holds it

    place = property(lambda self: self.line.partition(",")[0] or "it")
    where = property(lambda self: f"{self.name} in {self.place}" if self.line else self.name)
    varies = property(lambda self: len(self.fixed) < len(self.inputs))  # whether it comes from the sentence
    dim = property(lambda self: self.options.get("dim", self.options.get(1)))


@dataclass
class Record:
    """What a call of a layer did."""

    num_tokens: int
    result: object = None
    operations: list = field(default_factory=list)
    maps: list = field(default_factory=list)
    weights: list = field(default_factory=list)  # for each tensor in the result: is it a table of attention weights?
    fewer: Exception | None = None  # what the call with one token fewer raised

    def first(self, condition):
        """The first operation for which a condition holds, or None."""
        return next(filter(condition, self.operations), None)

    def of_maps(self, name):
        """The first map's attribute that isn't None or empty; None if there's none."""
        return next(filter(None, (getattr(each, name) for each in self.maps)), None)

    def stack(self, name):
        n, tables = self.num_tokens, [getattr(each, name) for each in self.maps]
        tables = [widen(each).reshape(-1, n, n) for each in tables if each is not None]
        return torch.cat([torch.zeros(0, n, n), *tables])

    # All maps' weights, (num_maps, num_tokens, num_tokens): as they average the values, and as softmax made them; and
    # what went into softmax, where we saw it.
    used = property(lambda self: self.stack("used"))
    made = property(lambda self: self.stack("weights"))
    scores = property(lambda self: self.stack("scores"))

    @property
    def eps(self):
        """Of the coarsest floating-point numbers that we saw."""
        kinds = {each.made.dtype for each in self.operations if each.made.is_floating_point()}
        return max((torch.finfo(kind).eps for kind in kinds), default=0.0)

    def __str__(self):
        rows = [("   row", "operation", "inputs", "output", "note")]
        for number, each in enumerate(self.operations, 1):
            sign, note = ("-> ", "never used") if each.unused else ("   ", "")
            before, after = (", ".join(map(str, shapes)) for shapes in each.shapes)
            rows.append((f"{sign}{number}", each.name, before, after, note))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def record(layer, x, again=False, grad=False):
    """Call layer with a copy of x and return its Record. Errors: what layer raises on x.

    x: one sentence, (num_tokens, d_in) or (1, num_tokens, d_in). again: call it with one token fewer, too, and leave
    out maps that don't shrink then: a softmax over as many features as tokens looks like one. We see nothing of what's
    computed outside torch, in other threads, or in scripts.
    """
    seen, fewer = Recorder(x.shape[-2]).watch(layer, x.clone(), grad), x.shape[-2] - 1
    try:
        shorter = Recorder(fewer).watch(layer, x[..., :-1, :].clone()) if again else Record(fewer)
    except Exception as error:  # the caller only asked about x
        seen.fewer = error
        return seen
    pairs = [*zip(seen.operations, shorter.operations, strict=False)]
    if (len(shorter.operations), len(shorter.weights)) == (len(seen.operations), len(seen.weights)):
        shrinks = {id(mine) for mine, each in pairs if each.name in AGAIN or is_table(each.made, fewer)}
        seen.maps = [each for each in seen.maps if id(each.made) in shrinks]
        seen.weights = [all(both) for both in zip(seen.weights, shorter.weights, strict=True)]
    return seen


class Recorder(TorchFunctionMode):
    """Follows a new result by its memory, because it can be used through a view, and a view by its tensor object.

    All tensors are kept until the call ends, since Python reuses ids; then weak references tell what others hold.
    """

    def __init__(self, num_tokens):
        super().__init__()
        self.seen, self.finder = Record(num_tokens), MapFinder(num_tokens)
        self.kept = []
        self.follow = []  # for each operation, the references by which to tell whether it was used
        self.created = set()  # what was made during the call; other memory outlives it
        self.last_read = {}  # reference -> how many operations there were when it was last read

    def watch(self, layer, x, grad=False):
        seen, finder = self.seen, self.finder
        self.from_x = {id(x)}
        self.sources = {memory(x), memory(getattr(layer, "sentence", x))}
        with torch.set_grad_enabled(grad), self:
            seen.result = layer(x)
        tensors = tensors_in(seen.result)
        seen.weights = [id(each) in finder.tables or sums_to_one(each, seen.num_tokens) for each in tensors]
        seen.maps = [each for each in finder.maps if each.mixed or not each.constant]
        self.finish(tensors)
        return seen

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name, getter = operation_name(func), getattr(func, "__name__", "") == "__get__"
        inputs = tensors_in((args, kwargs))
        objects, storages = references(inputs)  # before the call, which can give a tensor other memory
        before, drawn = [tuple(each.shape) for each in inputs], None if getter else torch.get_rng_state()
        result = func(*args, **kwargs)
        outputs = tensors_in(result) or (inputs[:1] if name == "setitem" else [])
        self.kept += inputs + outputs
        # reading a view's metadata uses the view
        self.use(objects | storages if outputs or not (getter or name in METADATA) else objects)
        if outputs:
            made = outputs[0].clone()
            fixed = [each for each in inputs if id(each) not in self.from_x and memory(each) not in self.sources]
            if len(fixed) < len(inputs):
                self.from_x.update(map(id, outputs))
            operation = Operation(
                name=name,
                line=calling_line(sys._getframe(1), self.watch),
                options={key: each for key, each in [*enumerate(args), *kwargs.items()] if type(each) in PLAIN},
                inputs=[*inputs],
                made=made,
                shapes=(before, [tuple(each.shape) for each in outputs]),
                fixed=fixed,
                drew=not getter and not torch.equal(drawn, torch.get_rng_state()),
                cuts=any(each.requires_grad for each in inputs) and not made.requires_grad and made.dtype != torch.bool,
            )
            self.seen.operations.append(operation)
            self.follow_memory(getter, outputs, objects, storages)
            if name in AGAIN and is_table(weights := AGAIN[name](*args, **kwargs), self.seen.num_tokens):
                self.finder.add(weights, operation)
            self.finder.watch(operation, outputs[0])
        return result

    def use(self, found):
        self.last_read.update(dict.fromkeys(found, len(self.seen.operations)))

    def follow_memory(self, getter, outputs, objects, storages):
        """Note how to follow the outputs, and their new memory."""
        views = {weakref.ref(each) for each in outputs if memory(each) in storages} - objects
        written = {memory(each) for each in outputs if weakref.ref(each) not in views}
        self.follow.append(views | written)
        # a property returns what already exists: we may not have seen x.grad before, but this call didn't make it
        self.created |= views | (set() if getter else written - self.last_read.keys())

    def finish(self, result):
        """Find the results that were never read and that nobody holds."""
        self.use(set.union(*references(result)))
        for each in self.seen.operations:  # what's older than the call may stay, as parameters
            for parts in each.inputs, each.fixed:
                parts[:] = [part.clone() if memory(part) in self.created else part for part in parts]
        self.kept.clear()
        self.finder.tables.clear()
        for number, (operation, followed) in enumerate(zip(self.seen.operations, self.follow, strict=True)):
            read = any(each not in self.created or self.last_read.get(each, -1) > number for each in followed)
            operation.unused = not read and all(reference() is None for reference in followed)


def operation_name(func):
    """What a learner would call the operation: matmul for __matmul__, T for the property T."""
    name = getattr(func, "__name__", type(func).__name__)
    if name == "__get__":
        return operation_name(func.__self__)
    return name.strip("_") if name.startswith("__") else name


def tensors_in(tree):
    """All tensors in nested tuples, lists, dicts, slices and dataclasses."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, slice):
        tree = tree.start, tree.stop, tree.step
    elif isinstance(tree, dict) or is_dataclass(tree):
        tree = [*(tree if isinstance(tree, dict) else vars(tree)).values()]
    return [each for part in tree for each in tensors_in(part)] if isinstance(tree, (tuple, list)) else []


def memory(tensor):
    """A weak reference to the memory that a tensor shares with its views."""
    return weakref.ref(tensor.untyped_storage())


def references(tensors):
    """Weak references to tensors, and to their memory."""
    return {weakref.ref(each) for each in tensors}, {memory(each) for each in tensors}

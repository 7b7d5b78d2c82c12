"""See every torch operation of a call: its shapes, its memory, and whether anybody used its result.

`scores.masked_fill(mask, -torch.inf)` on a line of its own masks nothing: it makes a masked copy and throws it away.
No error is raised and the numbers look plausible. The trace calls that row "never used".
"""

import traceback
import weakref
from dataclasses import is_dataclass
from typing import NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from attention_helpers.state import keep_state

NEVER_USED = "never used"
OPAQUE = {"multi_head_attention_forward": "opaque: torch runs it as a whole, the trace does not see inside"}
COMPILED = {  # modules of torch whose work happens where no trace sees it
    "torch.nn.attention.flex_attention": "flex_attention",
    "torch._dynamo": "torch.compile",
    "torch._functorch": "torch.vmap",
}
# These ask about a tensor without reading its values, so they make no row and don't count as a use of its memory.
METADATA = {"dim", "element_size", "is_contiguous", "is_floating_point", "len", "numel", "size", "stride", "type"}


class Row(NamedTuple):
    """One operation. Shapes are tuples; `output` is one shape, or a tuple of shapes if there are several outputs."""

    operation: str
    inputs: tuple  # the shapes of all tensors among the arguments
    output: tuple
    bytes: int  # new memory that the output took: 0 for a view and in place
    note: str

    @property
    def unused(self):
        return self.note.startswith(NEVER_USED)


class Trace:
    """What `trace` recorded: `result` is what the call returned, `rows` holds one Row per operation, in order.

    A notebook shows it as a table, and print or str as plain text.
    """

    def __init__(self, result, rows):
        self.result = result
        self.rows = rows

    @property
    def unused(self):
        """The rows whose result nobody used."""
        return [row for row in self.rows if row.unused]

    def __str__(self):
        table = [("row", *Row._fields), *self._cells()]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        marks = ["   ", *("-> " if row.unused else "   " for row in self.rows)]
        lines = [m + "  ".join(map(str.ljust, cells, widths)) for m, cells in zip(marks, table, strict=True)]
        return "\n".join([*map(str.rstrip, lines), self._summary()])

    __repr__ = __str__  # neither the tensors themselves nor a memory address

    def _repr_markdown_(self):
        lines = [["row", *Row._fields], ["---"] * 6]
        for row, (number, operation, *cells) in zip(self.rows, self._cells(), strict=True):
            cells = [number, f"`{operation}`", *cells]
            if row.unused:  # an arrow, bold type and the note, because not everybody sees colours
                cells = [cell and f"**{cell}**" for cell in (f"→ {number}", *cells[1:])]
            lines.append(cells)
        return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{self._summary()}"

    def _cells(self):
        """The table's body as text: row number, then the fields."""
        return [
            [str(number), row.operation, ", ".join(map(str, row.inputs)), str(row.output), str(row.bytes), row.note]
            for number, row in enumerate(self.rows, 1)
        ]

    def _summary(self):
        dead = [f"row {number} ({row.operation})" for number, row in enumerate(self.rows, 1) if row.unused]
        verdict = f"Never used: {', '.join(dead)}." if dead else "Every result was used."
        return f"{len(self.rows)} operations, {sum(row.bytes for row in self.rows)} bytes of new memory. {verdict}"


def trace(f, /, *args, **kwargs):
    """Call f(*args, **kwargs) and return a Trace: every torch operation that ran, and f's result.

    f: any callable, for example a layer, or a function typed in a notebook cell. Shapes: any. Memory: in bytes.
    A row's note can be "view" (no new memory), "in place", "returns its input", "was there before" (x.grad), or "never
    used", which means that no later operation read the result, f didn't return it, and nothing that outlives the call
    holds it (a list, an attribute, a buffer). If several wasted steps follow each other, only the last is marked. A
    split counts as used if one of its parts is.
    Errors: TypeError if f can't be called; what f itself raises comes through unchanged.

    A module's mode, buffers and attributes, and torch's random numbers, are afterwards as they were.

    Limits: we only see operations of the calling thread that torch reports to Python, so we don't see inside a scripted
    function or nn.MultiheadAttention (whose fast path is off under a trace). Since we follow memory, this is for plain
    tensors, not for sparse or nested ones, or for functions made by torch.func or torch.compile. Results that torch's
    own code throws away are marked too, such as the last state of an nn.LSTM that gets an unbatched sentence.
    Source: torch.overrides.TorchFunctionMode, "Extending PyTorch" in its documentation.
    """
    if not callable(f):
        hint = ": write trace(layer, x), not trace(layer(x))" if isinstance(f, torch.Tensor) else ""
        raise TypeError(f"f must be callable, got {type(f).__name__}{hint}")
    f = getattr(f, "_orig_mod", f)  # of torch.compile
    recorder = _Recorder()
    with keep_state(f):
        try:
            with recorder:
                result = f(*args, **kwargs)
        except (NotImplementedError, RuntimeError) as error:
            if compiled := compiled_by(error):
                raise ValueError(f"trace can't look inside {compiled}; find_leak and influence can") from error
            raise
        return Trace(result, recorder.finish(result))


def compiled_by(error):
    """Which function that torch compiles an error comes from, as far as we can tell; "" if none."""
    modules, chain = set(), [error]
    while error := error.__context__ or error.__cause__:
        if error in chain:
            break
        chain.append(error)
    for each in chain:
        modules |= {frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(each.__traceback__)}
    return next((said for name, said in COMPILED.items() if any(each.startswith(name) for each in modules)), "")


class _Recorder(TorchFunctionMode):
    """Records what every operation reads and writes, with weak references to tensors and their storages (the memory).

    We follow a new result by its storage, because it can be used through a view, and a view by its tensor object. Ids
    don't work, because Python reuses a dead object's id. Strong references don't work either, because they would keep
    alive what f drops. Two weak references are equal only if both refer to the same object.
    """

    def __init__(self):
        super().__init__()
        self.rows = []
        self.follow = []  # for each row, the references by which to tell whether it was used
        self.created = set()  # what was made during the trace; other memory outlives it
        self.last_read = {}  # reference -> how many rows there were when it was last read

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        inputs = tensors_in((args, kwargs))
        objects, memory = _references(inputs)  # before the call, which can give a tensor other memory or another shape
        shapes_in = tuple(tuple(tensor.shape) for tensor in inputs)
        result = func(*args, **kwargs)
        outputs = tensors_in(result) or (inputs[:1] if _raw_name(func) == "__setitem__" else [])
        asks_only = not outputs and (_raw_name(func) == "__get__" or operation_name(func) in METADATA)
        self.read(objects if asks_only else objects | memory)  # reading a view's metadata uses the view
        if outputs:
            new, note = self.judge(_raw_name(func), kwargs, outputs, objects, memory)
            shapes = tuple(tuple(tensor.shape) for tensor in outputs)
            output = shapes[0] if len(shapes) == 1 else shapes
            new_bytes = sum(reference().nbytes() for reference in new)
            self.rows.append(Row(operation_name(func), shapes_in, output, new_bytes, note))
        return result

    def read(self, references):
        self.last_read.update(dict.fromkeys(references, len(self.rows)))

    def judge(self, name, kwargs, outputs, objects, memory):
        """Note how to follow the outputs; return their new memory and a note. objects, memory: what the call read."""
        views = {weakref.ref(tensor) for tensor in outputs if _memory(tensor) in memory}
        views -= objects  # these are the inputs themselves
        written = {_memory(tensor) for tensor in outputs if weakref.ref(tensor) not in views}
        # A property returns what already exists: we may not have seen x.grad before, but this call didn't make it.
        new = set() if name == "__get__" else written - self.last_read.keys()
        self.follow.append(views | written)
        self.created |= views | new
        if new:
            return new, OPAQUE.get(name, "")
        if views:
            return new, "view"
        if name == "__get__":
            return new, "was there before"
        in_place = name.endswith("_") or name.startswith(("__i", "__setitem__")) or "out" in kwargs
        return new, "in place" if in_place or kwargs.get("inplace") else "returns its input"

    def finish(self, result):
        """The rows; those whose result was never read and no longer exists get a note."""
        objects, memory = _references(tensors_in(result))
        self.read(objects | memory)
        for i, references in enumerate(self.follow):
            # what is older than the trace counts as read
            read = any(each not in self.created or self.last_read.get(each, -1) > i for each in references)
            if not read and all(reference() is None for reference in references):  # nobody holds it either
                self.rows[i] = self.rows[i]._replace(note=f"{NEVER_USED}, {self.rows[i].note}".removesuffix(", "))
        return self.rows


def _raw_name(func):
    return getattr(func, "__name__", type(func).__name__)


def operation_name(func):
    """What a learner would call the operation: matmul for __matmul__, T for the property T."""
    name = _raw_name(func)
    if name == "__get__":
        return _raw_name(func.__self__)
    return name.strip("_") if name.startswith("__") else name


def tensors_in(tree):
    """All tensors in nested tuples, lists, dicts, slices and dataclasses."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, dict):
        tree = tree.values()
    elif isinstance(tree, slice):
        tree = (tree.start, tree.stop, tree.step)
    elif is_dataclass(tree):
        tree = vars(tree).values()
    elif not isinstance(tree, (tuple, list)):
        return []
    return [tensor for part in tree for tensor in tensors_in(part)]


def _memory(tensor):
    """A weak reference to the storage, which all views of a tensor share."""
    return weakref.ref(tensor.untyped_storage())


def _references(tensors):
    """Weak references to tensors, and to their memory."""
    return {weakref.ref(tensor) for tensor in tensors}, {_memory(tensor) for tensor in tensors}

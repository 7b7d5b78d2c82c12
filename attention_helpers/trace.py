"""See every torch operation of a call: its shapes, its memory, and whether anybody used its result.

`scores.masked_fill(mask, -torch.inf)` on a line of its own masks nothing: it makes a masked copy and throws it away.
No error is raised and the numbers look plausible. The trace calls that row "never used".
"""

import gc
import weakref
from typing import NamedTuple

import torch
from torch.overrides import TorchFunctionMode

NEVER_USED = "never used"
OPAQUE = {"multi_head_attention_forward": "opaque: torch runs it as a whole, the trace does not see inside"}
# Questions that do not look at a tensor's values: no rows, and no use of its memory.
METADATA = {
    "data_ptr", "dim", "element_size", "get_device", "has_names", "hash", "is_complex", "is_contiguous",
    "is_floating_point", "is_inference", "is_pinned", "is_same_size", "is_set_to", "is_shared", "is_signed", "len",
    "ndimension", "nelement", "numel", "size", "storage_offset", "stride", "type", "untyped_storage",
}  # fmt: skip


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
    """What `trace` saw: `result` is what the call returned, `rows` has a Row an operation, in order.

    It shows itself as a table in a notebook, and as plain text by print or str.
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

    __repr__ = __str__  # not the tensors themselves, and no memory address

    def _repr_markdown_(self):
        lines = [["row", *Row._fields], ["---"] * 6]
        for row, (number, operation, *cells) in zip(self.rows, self._cells(), strict=True):
            cells = [number, f"`{operation}`", *cells]
            if row.unused:  # an arrow, bold type and the note: nothing depends on colour
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

    f: any callable, for example a layer, or a function typed in a notebook cell. Shapes: any; bytes: bytes.
    A row's note says "view" (no new memory), "in place", "returns its input", "was there before" (x.grad), or "never
    used": no later operation read the result, f did not return it, and nothing that lives on holds it (a list, an
    attribute, a buffer). In a row of wasted steps only the last is marked, and a split counts as used if one of its
    parts is.
    Errors: TypeError if f can't be called; what f itself raises comes through unchanged.

    Limits. Only operations of the calling thread are seen, and only those that torch reports to Python: not the
    inside of a scripted function or of nn.MultiheadAttention (whose fast path is off under a trace). It follows memory,
    so it's for plain tensors: not sparse or nested ones, nor what torch.func or torch.compile make of f. What torch's
    own code drops on its way is marked as well, like the last state of an nn.LSTM that gets a sentence unbatched.
    Source: torch.overrides.TorchFunctionMode, "Extending PyTorch" in its documentation.
    """
    if not callable(f):
        hint = ": write trace(layer, x), not trace(layer(x))" if isinstance(f, torch.Tensor) else ""
        raise TypeError(f"f must be callable, got {type(f).__name__}{hint}")
    recorder = _Recorder()
    with recorder:
        result = f(*args, **kwargs)
    return Trace(result, recorder.finish(result))


class _Recorder(TorchFunctionMode):
    """Notes what every operation reads and writes, by weak references to tensors and to their storages (the memory).

    A new result is followed by its storage, for it may be used through a view; a view is followed as an object.
    Ids would not do, because Python gives a dead object's id to the next; strong references would keep alive
    what f forgets. A weak reference is equal to another only if both are of the same object.
    """

    def __init__(self):
        super().__init__()
        self.rows = []
        self.follow = []  # for each row, the references by which to tell whether it was used
        self.created = set()  # what came into being during the trace; other memory outlives it
        self.last_read = {}  # reference -> how many rows there were when it was last read

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        inputs = _tensors((args, kwargs))
        objects, memory = _references(inputs)  # before the call, which may give a tensor other memory
        result = func(*args, **kwargs)
        outputs = _tensors(result) or (inputs[:1] if _raw_name(func) == "__setitem__" else [])
        asks_only = not outputs and (_raw_name(func) == "__get__" or _name(func) in METADATA)
        self.read(objects if asks_only else objects | memory)  # a view is metadata: who asks for them has used it
        if outputs:
            new, note = self.judge(func, kwargs, outputs, objects, memory)
            shapes = tuple(tuple(tensor.shape) for tensor in outputs)
            output = shapes[0] if len(shapes) == 1 else shapes
            new_bytes = sum(reference().nbytes() for reference in new)
            self.rows.append(Row(_name(func), tuple(tuple(each.shape) for each in inputs), output, new_bytes, note))
        return result

    def read(self, references):
        self.last_read.update(dict.fromkeys(references, len(self.rows)))

    def judge(self, func, kwargs, outputs, objects, memory):
        """Note by what to follow the outputs; return their new memory and the row's note, given what func read."""
        views = {weakref.ref(tensor) for tensor in outputs if _memory(tensor) in memory}
        views -= objects  # those are the inputs themselves
        written = {_memory(tensor) for tensor in outputs if weakref.ref(tensor) not in views}
        # A property returns what is there already: x.grad may be new to the trace, but isn't made by it.
        new = set() if _raw_name(func) == "__get__" else written - self.last_read.keys()
        self.follow.append(views | written)
        self.created |= views | new
        if new:
            return new, OPAQUE.get(_raw_name(func), "")
        if views:
            return new, "view"
        if objects.isdisjoint(map(weakref.ref, outputs)):
            return new, "was there before"
        return new, "in place" if _writes_in_place(_raw_name(func), kwargs) else "returns its input"

    def finish(self, result):
        """The rows, with a note at each whose result was neither read later nor lives on."""
        objects, memory = _references(_tensors(result))
        self.read(objects | memory)
        unread = {i: refs for i, refs in enumerate(self.follow) if not any(self.was_read(ref, i) for ref in refs)}
        if _alive(unread):
            gc.collect()  # it may be garbage in a reference cycle
        for i in unread.keys() - _alive(unread):
            self.rows[i] = self.rows[i]._replace(note=f"{NEVER_USED}, {self.rows[i].note}".removesuffix(", "))
        return self.rows

    def was_read(self, reference, since):
        """Whether it was read after row `since`, or is older than the trace."""
        return reference not in self.created or self.last_read.get(reference, -1) > since


def _alive(rows):
    return {i for i, followed in rows.items() if any(ref() is not None for ref in followed)}


def _raw_name(func):
    return getattr(func, "__name__", type(func).__name__)


def _name(func):
    """What a learner would call the operation: matmul for __matmul__, T for the property T."""
    name = _raw_name(func)
    if name == "__get__":
        return _raw_name(func.__self__)
    return name.strip("_") if name.startswith("__") else name


def _writes_in_place(name, kwargs):
    """Whether a function that returned one of its inputs wrote into it."""
    ends_in_one = name.endswith("_") and not name.endswith("__")
    return ends_in_one or name.startswith(("__i", "__setitem__")) or "out" in kwargs or kwargs.get("inplace")


def _tensors(tree):
    """All tensors in nested tuples, lists, dicts and slices."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, dict):
        tree = tree.values()
    elif isinstance(tree, slice):
        tree = (tree.start, tree.stop, tree.step)
    elif not isinstance(tree, (tuple, list)):
        return []
    return [tensor for part in tree for tensor in _tensors(part)]


def _memory(tensor):
    """The storage, which all views of a tensor share."""
    return weakref.ref(tensor.untyped_storage())


def _references(tensors):
    """Of the tensors themselves, and of their memory."""
    return {weakref.ref(tensor) for tensor in tensors}, {_memory(tensor) for tensor in tensors}

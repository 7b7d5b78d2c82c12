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
        for row, cells in zip(self.rows, self._cells(), strict=True):
            # An arrow, bold type and the note: nothing hangs on colour.
            lines.append([cell and f"**{cell}**" for cell in ("→ " + cells[0], *cells[1:])] if row.unused else cells)
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

    f: any callable: a layer, a function, also one typed in a notebook cell. Shapes: any; bytes: bytes.
    A row's note tells "view" (no new memory), "in place", "returns its input", and "never used": no later operation
    read the result, f did not return it, and nothing that lives on holds it (a list, an attribute, a buffer).
    Errors: TypeError if f cannot be called; what f raises comes through unchanged.

    Limits. Every intermediate result stays in memory until f returns. Only operations of the calling thread are seen,
    and only those that torch reports to Python: not the inside of a scripted function or of nn.MultiheadAttention
    (whose fast path is off under a trace), nor that nn.Parameter or nested_tensor took a view. Trace first, compile
    later: a compiled f is compiled anew.
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
    """Notes what every operation reads and writes, by keys: storages, and weak references to tensors.

    A result is followed by its storage, for it may be used through a view; a view is followed as an object, weakly,
    for what f forgets must die. Storages are held until the end, because Python gives a dead one's id to the next.
    """

    def __init__(self):
        super().__init__()
        self.rows = []
        self.follow = []  # for each row, the keys by which to tell whether it was used
        self.created = set()  # the keys that came into being during the trace; other memory outlives it
        self.last_read = {}  # key -> how many rows there were when it was last read

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        inputs = _tensors((args, kwargs))
        reads = _keys(inputs)  # before the call, which may give a tensor another storage
        result = func(*args, **kwargs)
        outputs = _tensors(result) or (inputs[:1] if _raw_name(func) == "__setitem__" else [])
        asks_only = not outputs and (_raw_name(func) == "__get__" or _name(func) in METADATA)
        # A view is nothing but its metadata: who asks for them has used it.
        self.read([key for key in reads if _is_ref(key)] if asks_only else reads)
        if outputs:
            self.add_row(func, kwargs, inputs, reads, outputs)
        return result

    def read(self, keys):
        self.last_read.update(dict.fromkeys(keys, len(self.rows)))

    def add_row(self, func, kwargs, inputs, reads, outputs):
        memory = [_memory(tensor) for tensor in outputs]
        # A property hands out what is there already: x.grad is new to the trace, but not made by it.
        new = set() if _raw_name(func) == "__get__" else set(memory) - self.last_read.keys()
        keys = [
            weakref.ref(tensor) if _is_view(tensor, key, reads) else key
            for tensor, key in zip(outputs, memory, strict=True)
        ]
        self.follow.append(keys)
        self.created |= new | set(keys) - set(memory)
        self.last_read |= dict.fromkeys(set(memory) - self.last_read.keys(), -1)

        shapes = tuple(map(_shape, outputs))
        new_bytes = sum(key.nbytes() for key in new if not _is_ref(key))
        note = _note(func, kwargs, new, _keys(outputs) & reads)
        output = shapes[0] if len(shapes) == 1 else shapes
        self.rows.append(Row(_name(func), tuple(map(_shape, inputs)), output, new_bytes, note))

    def finish(self, result):
        """The rows, with a note at each whose result was neither read later nor lives on."""
        self.read(_keys(_tensors(result)))
        refs = {
            i: [key if _is_ref(key) else weakref.ref(key) for key in keys]
            for i, keys in enumerate(self.follow)
            if not any(key not in self.created or self.last_read.get(key, -1) > i for key in keys)
        }
        for held in (self.follow, self.created, self.last_read):
            held.clear()  # now only what others hold is still there
        if _alive(refs):
            gc.collect()  # it may be garbage in a reference cycle
        for i in refs.keys() - _alive(refs):
            row = self.rows[i]
            self.rows[i] = row._replace(note=f"{NEVER_USED}, {row.note}".removesuffix(", "))
        return self.rows


def _alive(refs):
    return {i for i, row_refs in refs.items() if any(ref() is not None for ref in row_refs)}


def _raw_name(func):
    return getattr(func, "__name__", type(func).__name__)


def _name(func):
    """What a learner would call the operation: matmul for __matmul__, T for the property T."""
    name = _raw_name(func)
    if name == "__get__":
        return _raw_name(func.__self__)
    return name.strip("_") if name.startswith("__") else name


def _note(func, kwargs, new, shared):
    """Where the output lives; `new` are its keys that were not there before, `shared` those it has from its inputs."""
    name = _raw_name(func)
    if new:
        return "bytes not known" if any(map(_is_ref, new)) else OPAQUE.get(name, "")
    if not shared:
        return "was there before"
    if not any(map(_is_ref, shared)):
        return "view"
    ends_in_one = name.endswith("_") and not name.endswith("__")
    in_place = ends_in_one or name.startswith(("__i", "__setitem__")) or "out" in kwargs or kwargs.get("inplace")
    return "in place" if in_place else "returns its input"


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


def _keys(tensors):
    """What a reader of these tensors reads: each as an object, and its memory."""
    return {key for tensor in tensors for key in (weakref.ref(tensor), _memory(tensor))}


def _memory(tensor):
    """The storage, which all views share; for a tensor without one (a sparse one) the tensor, weakly."""
    while _is_wrapped(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    try:
        return tensor.untyped_storage()
    except NotImplementedError:
        return weakref.ref(tensor)


def _is_wrapped(tensor):
    """Whether torch.func (vmap, grad) has wrapped the tensor; it has no public way to ask, or to unwrap."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def _is_view(tensor, memory, reads):
    """Whether an output is a new tensor on an input's memory. A wrapper is not judged: it is unwrapped unseen."""
    return memory in reads and weakref.ref(tensor) not in reads and not _is_wrapped(tensor)


def _is_ref(key):
    return isinstance(key, weakref.ref)


def _shape(tensor):
    try:
        return tuple(tensor.shape)
    except RuntimeError:  # a nested tensor has none
        return ("?",) * tensor.dim()

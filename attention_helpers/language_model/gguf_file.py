"""What a GGUF file holds for us: the config, the tokenizer and the weights, decoded some rows at a time."""

from typing import NamedTuple

import numpy as np

from .families import DIVISORS, ModelConfig, config_in, layout, order_of
from .gguf_header import read_header
from .tokenizer import tokenizer_json

STEP = 4 * 2**20  # weights that are decoded at a time


class ModelFile(NamedTuple):
    """A model file's contents, except for the weights: what they're called, and where they are."""

    path: object
    config: ModelConfig
    tokenizer: str  # as JSON
    shapes: dict  # of the weights, by our names, in the order in which we decode them
    places: dict  # where they are in the file, by our names

    @property
    def num_parameters(self):
        return sum(int(np.prod(shape)) for shape in self.shapes.values())


def opened(path):
    """The ModelFile of a GGUF file whose family we know. Decodes no weight.

    Errors: OSError if there's no such file; ValueError, one sentence, if it's damaged, incomplete or of another kind.
    """
    try:
        header = read_header(path)
        check_complete(header.fields)
        config = config_in(header)
        if DIVISORS in header.tensors and config.family == "llama":
            config = config._replace(divisors=divisors_at(path, header.tensors.pop(DIVISORS), config.head_dim // 2))
        shapes, places = matched(header.tensors, layout(config))
        return ModelFile(path, config, tokenizer_json(header.fields), shapes, places)
    except ValueError as error:
        said = " ".join(str(error).split())  # names and values in the file may be long, and have line ends
        raise ValueError(f"{path} cannot be read: {said:.300}") from None


def check_complete(fields):
    """ValueError for one part of a model that was split into several files; a joined file claims 0 parts."""
    number, count = fields.get("split.no"), fields.get("split.count")
    if isinstance(count, int) and count > 1:
        part = number + 1 if isinstance(number, int) else "?"
        takes = "which takes the path of the first part and one for the complete model"
        raise ValueError(f"it's part {part} of {count}: join them with `llama-gguf-split --merge`, {takes}")


def divisors_at(path, place, count):
    """What Llama 3's scaling divides each pair's frequency by, a list; ValueError if it can't be."""
    check_kind(place.kind)
    divisors = np.concatenate([*decoded_rows(path, place)]).ravel().tolist() if place.shape == (count,) else [0]
    if not all(0 < divisor < np.inf for divisor in divisors):
        raise ValueError(f"{DIVISORS} must hold {count} finite numbers above 0")
    return divisors


def matched(tensors, names):
    """Shapes and Places by our names; ValueError if a tensor is missing, unknown, misshapen or can't be decoded."""
    wrong = [f"lacks {name}" for name in names.keys() - tensors.keys()]
    wrong += [f"holds {name}, which our layers do not know" for name in tensors.keys() - names.keys()]
    if wrong:
        raise ValueError(f"it {min(wrong)}")
    for name, (_, shape) in names.items():
        if tensors[name].shape != shape:
            raise ValueError(f"{name} must have the shape {shape}, got {tensors[name].shape}")
    for kind in {place.kind for place in tensors.values()}:
        check_kind(kind)
    return dict(names.values()), {ours: tensors[theirs] for theirs, (ours, _) in names.items()}


def check_kind(kind):
    """ValueError unless `gguf` decodes this kind of compression to fractions."""
    from gguf import GGML_QUANT_SIZES, dequantize

    try:
        known = np.issubdtype(dequantize(np.zeros((1, GGML_QUANT_SIZES[kind][1]), np.uint8), kind).dtype, np.floating)
    except NotImplementedError:
        known = False
    if not known:
        raise ValueError(f"some of its weights are compressed as {kind.name}, which gguf doesn't decode")


def decoded(file):
    """The weights one after the other, as pairs of our name and float32 rows; large tensors come in several parts.

    The rows of W_query and W_key are in the order for interleaved rotary positions, the layout of `rotate`.
    """
    for name, place in file.places.items():
        order = order_of(name, file.config, place.shape[0])
        for rows in decoded_rows(file.path, place, order):
            yield name, rows


def decoded_rows(path, place, order=None):
    """A tensor's rows as float32 arrays, some at a time; order: of the rows, or of a vector's entries."""
    from gguf import dequantize

    *rows, width = place.shape
    raw = np.memmap(path, np.uint8, "r", place.start, (int(np.prod(rows)), place.size // int(np.prod(rows))))
    if order is not None and rows:
        raw = raw[order]
    step = max(1, STEP // width)
    for start in range(0, len(raw), step):
        part = dequantize(raw[start : start + step], place.kind).astype(np.float32, copy=False)
        yield part if rows or order is None else part[:, order]

"""Read the header of a GGUF file: what it says of its model, and where each tensor begins. Everything is bounded.

`gguf` has a reader of its own, but it believes every number: an array that claims 10**12 values keeps it busy for a
minute, and takes gigabytes. We compare each number with the file's size and with what published models need.
"""

import math
import os
import struct
from typing import NamedTuple

MIB = 2**20
LONGEST, MOST_VALUES, MOST_TENSORS, MOST_FIELDS = 64 * MIB, 1_000_000, 20_000, 5_000  # of one header
LONGEST_TEXT, LONGEST_NAME, MOST_DIMENSIONS = MIB, 65_535, 4  # such as a chat's template; a key or tensor's name
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, ARRAY = 8, 9  # a value's kinds besides numbers


class Place(NamedTuple):
    """Where a tensor is in the file, and how it's compressed."""

    shape: tuple  # rows first, as in torch
    kind: object  # gguf.GGMLQuantizationType
    start: int  # in bytes, from the file's beginning
    size: int  # in bytes


class Header(NamedTuple):
    """What a GGUF file says of its model."""

    fields: dict  # values by key: numbers, texts, or lists of them
    tensors: dict  # Places by name


class Reader:
    """Takes one value after the other from the first bytes of a file."""

    def __init__(self, data, size):
        self.data, self.size, self.at, self.values = data, size, 0, 0

    def skip(self, length):
        """Move on by some bytes; returns where they begin. ValueError if there aren't as many."""
        start, self.at = self.at, self.at + length
        if self.at > len(self.data):
            cut = "it's cut off within its header" if self.at > self.size else "its header is longer than 64 MiB"
            raise ValueError(cut)
        return start

    def numbers(self, kinds):
        """A tuple of numbers; kinds: struct's letters for them."""
        return struct.unpack_from(f"<{kinds}", self.data, self.skip(struct.calcsize(f"<{kinds}")))

    def text(self, most=LONGEST_TEXT):
        [length] = self.numbers("Q")
        if length > most:
            raise ValueError(f"one of its texts claims {length:,} bytes, more than {most:,}")
        start = self.skip(length)
        try:
            return self.data[start : self.at].decode()
        except UnicodeDecodeError:
            raise ValueError(f"the text at byte {start:,} isn't UTF-8") from None

    def value(self, kind):
        """A number or a text, or a list of them."""
        if kind == TEXT:
            return self.text()
        if kind == ARRAY:
            return self.array(*self.numbers("IQ"))
        if kind not in NUMBERS:
            raise ValueError(f"there's no kind {kind} of values")
        return self.numbers(NUMBERS[kind])[0]

    def array(self, kind, count):
        self.values += count
        if self.values > MOST_VALUES:
            raise ValueError(f"its lists claim {self.values:,} values, more than {MOST_VALUES:,}")
        if kind == TEXT:
            return [self.text() for _ in range(count)]
        if kind not in NUMBERS:
            raise ValueError(f"a list must hold numbers or texts, got kind {kind}")
        return list(self.numbers(f"{count}{NUMBERS[kind]}"))


def read_header(path):
    """The Header of a GGUF file, little-endian, of version 2 or 3. Reads at most the first 64 MiB.

    Errors: OSError if there's no such file; ValueError, one sentence, if it's another kind of file, damaged or cut off,
    or claims more than published models need.
    Source: the GGUF format, github.com/ggml-org/ggml, docs/gguf.md.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        reader = Reader(file.read(LONGEST), size)
    if reader.data[:4] != b"GGUF":
        raise ValueError(f"a GGUF file begins with b'GGUF', and this one with {reader.data[:4]!r}")
    reader.at = 4
    version, num_tensors, num_fields = reader.numbers("IQQ")
    if version not in (2, 3):
        raise ValueError(f"its GGUF version must be 2 or 3, little-endian, got {version}")
    for count, most, what in ((num_tensors, MOST_TENSORS, "tensors"), (num_fields, MOST_FIELDS, "keys")):
        if count > most:
            raise ValueError(f"it claims {count:,} {what}, more than {most:,}")
    fields = dict(read_field(reader) for _ in range(num_fields))
    tensors = dict(read_place(reader) for _ in range(num_tensors))
    if len(fields) + len(tensors) < num_fields + num_tensors:
        raise ValueError("one of its keys or tensors comes twice")
    return Header(fields, placed(tensors, reader, fields.get("general.alignment", 32)))


def read_field(reader):
    name = reader.text(LONGEST_NAME)
    try:
        return name, reader.value(*reader.numbers("I"))
    except ValueError as error:
        raise ValueError(f"{error} (at the key {name!r})") from None


def read_place(reader):
    """A tensor's name and Place, whose start is still counted from where the tensors begin."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    name, [dimensions] = reader.text(LONGEST_NAME), reader.numbers("I")
    if not 1 <= dimensions <= MOST_DIMENSIONS:
        raise ValueError(f"the tensor {name!r} must have 1 to {MOST_DIMENSIONS} dimensions, got {dimensions}")
    *shape, kind, start = reader.numbers(f"{dimensions}QIQ")
    if kind not in (known := {int(kind): kind for kind in GGMLQuantizationType}):
        raise ValueError(f"the tensor {name!r} is compressed in a way that we don't know, {kind}")
    block, length = GGML_QUANT_SIZES[known[kind]]
    if 0 in shape or shape[0] % block:
        raise ValueError(f"the tensor {name!r} must have rows of whole blocks of {block}, got {tuple(shape[::-1])}")
    return name, Place(tuple(shape[::-1]), known[kind], start, math.prod(shape) // block * length)


def placed(tensors, reader, alignment):
    """The Places, counted from the file's beginning; ValueError for one that isn't within the file.

    alignment: each tensor begins at a multiple of so many bytes.
    """
    if not isinstance(alignment, int) or not 1 <= alignment <= MIB:
        raise ValueError(f"general.alignment must be a whole number from 1 to {MIB:,}, got {alignment!r}")
    begin = math.ceil(reader.at / alignment) * alignment
    for name, place in tensors.items():
        if place.start % alignment:
            raise ValueError(f"the tensor {name!r} must begin at a multiple of {alignment} bytes, got {place.start:,}")
        if (end := begin + place.start + place.size) > reader.size:
            raise ValueError(f"it's cut off: the tensor {name!r} ends at byte {end:,} of {reader.size:,}")
    return {name: place._replace(start=begin + place.start) for name, place in tensors.items()}

"""Read numbers as people paste them, and find them among the rows of many tables."""

import math
import re
from collections import defaultdict
from typing import Any, NamedTuple

import torch

NUMBER = r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+|inf|nan)"
NOT_NUMBERS = "|".join(  # what else stands where a tensor was printed
    [
        r"shape=\([^)]*\)",
        r"(?:In|Out) ?\[\d*\]",
        r"\b\d+ ?:",
        r"grad_fn=<[^>]*>",
        r"(?:dtype|device)=[^,)]*",
        r"\b(?!inf\b|nan\b|e[-+]?\d)[A-Za-z_]\w*",  # words, some of which have digits
    ]
)
MOST = 2000  # numbers, more than any table has
SURE = 28.0  # bits: among 300,000 rows, chance meets such numbers once in a thousand times


class Given(NamedTuple):
    """What somebody gave: rows of numbers, and how far each can be off."""

    rows: list
    near: float

    @property
    def flat(self):
        return [number for row in self.rows for number in row]

    @property
    def telling(self):
        """Which numbers say something, (num_rows, width): 0, 1, infinity and NaN are in every mask."""
        return [[number not in (0.0, 1.0) and math.isfinite(number) for number in row] for row in self.rows]

    @property
    def count(self):
        return sum(map(sum, self.telling))

    @property
    def sure(self):
        """Whether they hold too much to be met by chance: four numbers, and far enough apart for their rounding."""
        return self.count >= 4 and self.bits >= SURE

    @property
    def bits(self):
        """What a number tells is how far it is from its row's mean, or from the number above, in roundings."""
        total, above = 0.0, None
        for row, telling in zip(self.rows, self.telling, strict=True):
            told = [number for number, tells in zip(row, telling, strict=True) if tells]
            gaps = [abs(number - sum(told) / len(told)) for number in told]
            if above is not None and len(above) == len(told):
                gaps = [min(gap, abs(number - other)) for gap, number, other in zip(gaps, told, above, strict=True)]
            total += sum(math.log2(1 + gap / (2 * self.near)) for gap in gaps)
            above = told
        return total


def read_numbers(numbers):
    """Numbers from a tensor, nested lists, an array, or text that shows them.

    Errors: ValueError or TypeError, in words for whoever gave them, if there's nothing to look for.
    """
    given = read_text(numbers if isinstance(numbers, str) else to_text(numbers))
    if isinstance(numbers, torch.Tensor) and numbers.dtype in (torch.float16, torch.bfloat16):
        given = given._replace(near=torch.finfo(numbers.dtype).eps)
    if not given.flat:
        raise ValueError("There are no numbers in that. Give a tensor, a list, or what `print` showed.")
    if len(given.flat) > MOST:
        raise ValueError(f"That's {len(given.flat):,} numbers, more than any table has. Give some of its rows.")
    if all(map(math.isnan, given.flat)):
        raise ValueError("That's only NaN, which says no more than that a row had nothing to look at, or overflowed.")
    return given


def to_text(numbers):
    """A tensor, array or list as text that keeps its rows."""
    if isinstance(numbers, torch.Tensor):
        numbers = numbers.detach().cpu().dequantize() if numbers.is_quantized else numbers.detach().cpu()
        numbers = numbers.to_dense().tolist()
    elif hasattr(numbers, "tolist"):
        numbers = numbers.tolist()
    if isinstance(numbers, dict):
        numbers = list(numbers.values())
    if isinstance(numbers, (list, tuple)):
        return f"[{', '.join(map(to_text, numbers))}]"
    if not isinstance(numbers, (int, float, str)):
        raise TypeError(f"`whose` takes a tensor, a list or text, not {type(numbers).__name__}.")
    return str(numbers)


def read_text(text):
    """Rows of numbers: what's between the innermost brackets, or else each line."""
    text = text.replace("−", "-")
    if re.search(r"\d\.", text):  # a size stands next to a table
        text = re.sub(r"torch\.Size\([^)]*\)", " ", text)
    text = re.sub(NOT_NUMBERS, " ", text)
    pieces = re.findall(r"\[([^\[\]]*)\]", text) or text.splitlines()
    found = [re.findall(NUMBER, piece) for piece in pieces]
    rows = without_labels([[float(number) for number in row] for row in found if row])
    # as many digits as were shown, of 0.29600000381469727 three; each may have been rounded before
    digits = max((len(f"{number:.6f}".rstrip("0").partition(".")[2]) for row in rows for number in row), default=0)
    rounding = 0.56 * 10.0**-digits if digits else 0.0  # whole numbers aren't rounded ones
    half = len(rows) // 2
    if rows[:half] == rows[half:]:  # a batch that holds the sentence twice
        rows = rows[half:]
    return Given(rows, rounding + (2e-5 if digits < 5 else 2e-6))


def without_labels(rows):
    """Rows without a first one of column numbers, and without a first column that counts them."""
    if len(rows) > 2 and len(rows[0]) == len(rows[1]) - 1 and rows[0] == [*range(len(rows[0]))]:
        rows = rows[1:]
    first = [row[0] for row in rows]
    counted = any(first == [*range(start, start + len(rows))] for start in (0, 1))
    return [row[1:] for row in rows] if counted and len(rows) > 1 and min(map(len, rows)) > 1 else rows


class Place(NamedTuple):
    """Where numbers were found: the table by its name, the first of its rows, and how many it has."""

    table: Any
    row: int
    count: int


class Stack(NamedTuple):
    """All rows of a width, (num_rows, width), and for each its slack, and its table, place there, and table's rows."""

    numbers: torch.Tensor
    slack: torch.Tensor
    where: torch.Tensor


class Index:
    """The rows of many tables, by width."""

    def __init__(self):
        self.tables = defaultdict(list)
        self.stacks = {}

    def add(self, table, numbers, slack=0.0):
        """Add a table by whatever name it has. slack: how far it may be off, where it follows from rounded numbers."""
        numbers = numbers.detach().double()
        rows = numbers.reshape(-1, numbers.shape[-1]) if numbers.ndim else numbers.reshape(1, 1)
        self.tables[rows.shape[1]].append((table, rows, slack))

    def stack(self, width):
        if width not in self.stacks:
            tables = self.tables[width]
            numbers = torch.cat([rows for _, rows, _ in tables])
            slack = torch.cat([torch.full((len(rows), 1), slack) for _, rows, slack in tables])
            sizes = [(n, len(rows)) for n, (_, rows, _) in enumerate(tables)]
            where = torch.tensor([(n, row, count) for n, count in sizes for row in range(count)])
            self.stacks[width] = Stack(numbers, slack, where)
        return self.stacks[width]

    def find(self, given):
        """The places of tables whose rows, one after the other, are those that were given."""
        agree, where = self.compare(given)
        return [self.place(given, start) for start in where[agree.all(dim=-1)]]

    def nearest(self, given):
        """Which of the given numbers agree at the place where most do, and that place; [] and None without one."""
        agree, where = self.compare(given)
        if not len(where):
            return [], None
        telling = torch.tensor(given.telling).flatten()
        best = int((agree & telling).sum(dim=-1).argmax())
        return agree[best].tolist(), self.place(given, where[best])

    def place(self, given, start):
        table, row, count = start.tolist()
        return Place(self.tables[len(given.rows[0])][table][0], row, count)

    def compare(self, given):
        """Which of the given numbers agree, and where: at each place where a table goes on for so many rows."""
        count, width = len(given.rows), len(given.rows[0])
        if any(len(row) != width for row in given.rows) or width not in self.tables:
            return torch.ones(0, count * width, dtype=torch.bool), torch.zeros(0, 3)
        numbers, slack, where = self.stack(width)
        starts = (where[:, 1] + count <= where[:, 2]).nonzero()
        chosen = starts + torch.arange(count)
        rows = torch.tensor(given.rows, dtype=torch.float64)
        agree = close(numbers[chosen], rows, given.near + slack[chosen])
        return agree.flatten(1), where[starts[:, 0]]


def close(ones, others, near):
    """Whether numbers are as near as that; infinity is near to itself."""
    return (ones == others) | ((ones - others).abs() <= near) | (ones.isnan() & others.isnan())

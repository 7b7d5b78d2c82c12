"""Read numbers as people paste them, and find them among the rows of many tables."""

import re
from collections import defaultdict
from typing import Any, NamedTuple

import torch

NUMBER = r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+|inf|nan)"
# What else stands in a printed tensor, and words, some of which have digits
NOT_NUMBERS = r"grad_fn=<[^>]*>|(?:dtype|device)=[^,)]*|\b(?!inf\b|nan\b|e[-+]?\d)[A-Za-z_]\w*"


class Given(NamedTuple):
    """What somebody gave: rows of numbers (float64, one list each), and how far a printed number can be off."""

    rows: list
    near: float

    @property
    def telling(self):
        """How many numbers say something: 0, 1 and infinity are in every mask."""
        return sum(number not in (0.0, 1.0) and number == number and abs(number) != torch.inf for number in self.flat)

    @property
    def flat(self):
        return [number for row in self.rows for number in row]


def read_numbers(numbers):
    """Numbers from a tensor, nested lists, an array, or text that shows them.

    Errors: ValueError, in words for whoever gave them, if there are none, or only NaN.
    """
    given = read_text(numbers if isinstance(numbers, str) else to_text(numbers))
    if not given.flat:
        raise ValueError("There are no numbers in that. Give a tensor, a list, or what `print` showed.")
    if all(number != number for number in given.flat):
        raise ValueError("That's only NaN, which says no more than that a row had nothing to look at, or overflowed.")
    return given


def to_text(numbers):
    """A tensor, array or list as text that keeps its rows."""
    if isinstance(numbers, torch.Tensor):
        numbers = numbers.detach().tolist()
    if hasattr(numbers, "tolist"):
        numbers = numbers.tolist()
    if isinstance(numbers, dict):
        numbers = list(numbers.values())
    if isinstance(numbers, (list, tuple)):
        return f"[{', '.join(map(to_text, numbers))}]"
    return str(numbers)


def read_text(text):
    """Rows of numbers: what's between the innermost brackets, or else each line."""
    text = re.sub(NOT_NUMBERS, " ", text)
    pieces = re.findall(r"\[([^\[\]]*)\]", text) or text.splitlines()
    found = [re.findall(NUMBER, piece) for piece in pieces]
    found = [row for row in found if row]
    rows = [[float(number) for number in row] for row in found]
    # as many digits as were shown, of 0.29600000381469727 three; each may have been rounded before
    digits = max((len(f"{number:.6f}".rstrip("0").partition(".")[2]) for row in rows for number in row), default=0)
    rounding = 0.56 * 10.0 ** -min(digits, 4) if digits else 0.0  # whole numbers aren't rounded ones
    return Given(rows, rounding + 2e-5)


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
        best = int(agree.sum(dim=-1).argmax())
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

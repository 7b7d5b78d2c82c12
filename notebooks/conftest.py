"""How nbval compares the notebooks: all but what was measured; and what it prints of a picture that differs."""

from itertools import takewhile
from pathlib import Path

MOST = (
    200  # characters of a line that is printed: a picture is one line of 100 kB
)


def pytest_configure(config):
    if not hasattr(config.option, "nbval_sanitize_with"):
        return  # nbval isn't there
    if config.option.nbval_sanitize_with is None:
        config.option.nbval_sanitize_with = str(
            Path(__file__).with_name("measured.cfg")
        )  # the numbers after ≈
    from nbval import plugin

    compare = plugin.IPyNbCell.format_output_compare
    plugin.IPyNbCell.format_output_compare = lambda cell, key, *both: compare(
        cell, key, *where_they_differ(*both)
    )
    plugin._trim_base64 = cut


def where_they_differ(left, right):
    """Two outputs; of texts with a long line what stands around the first difference."""
    if not (isinstance(left, str) and isinstance(right, str)):
        return left, right
    same = sum(
        1
        for _ in takewhile(
            lambda pair: pair[0] == pair[1], zip(left, right, strict=False)
        )
    )
    if max(map(len, [*left.splitlines(), *right.splitlines()])) <= MOST:
        return left, right
    return tuple(
        cut("…" + text[max(0, same - MOST // 2) :]) for text in (left, right)
    )


def cut(text):
    """The text, its long lines cut."""
    return "\n".join(
        line if len(line) <= MOST else line[: MOST - 1] + "…"
        for line in text.split("\n")
    )

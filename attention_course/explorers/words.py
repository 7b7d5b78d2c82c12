"""Numbers in words, and words as HTML."""

import html
import re

LOOKS = "{} looks at {}"  # a token, and one that it gives weight to; it reads what comes out


def list_numbers(values):
    """ "0.24, 0.10, 0.66"."""
    return ", ".join(f"{value:.2f}" for value in values)


def join_words(words):
    """ "1, 2 and 4"."""
    *first, last = words or [""]
    return f"{', '.join(first)} and {last}" if first else last


def plural(word, count):
    """ "head" for one, "heads" for any other count."""
    return word if count == 1 else f"{word}s"


def shares(tokens, weights):
    """ "Your: 0.24, journey: 0.10"."""
    return ", ".join(f"{token}: {weight + 1e-7:.2f}" for token, weight in zip(tokens, weights, strict=True))


def size_in_words(count):
    """A number of bytes as "96 bytes", "1.2 MB" or "3.2 GB"."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def rounded_size(count):
    """As on an axis: "1 MB"."""
    return size_in_words(round(count)).replace(".0 ", " ")


class Markup(str):
    """A readout that is already HTML; all others are plain text."""


def mark_code(text):
    """Text as Markup: what's between backticks becomes code."""
    return text if isinstance(text, Markup) else Markup(re.sub("`([^`]*)`", r"<code>\1</code>", html.escape(text)))


def plain(text):
    return html.unescape(re.sub("<[^>]*>", "", mark_code(text)))


def table(rows):
    head = '<tr><th scope="row" style="text-align:left;vertical-align:top;padding-right:1em">'
    cells = [f"{head}{html.escape(name)}</th><td>{mark_code(text)}</td></tr>" for name, text in rows.items()]
    return f"<table><tbody>{''.join(cells)}</tbody></table>" if cells else ""

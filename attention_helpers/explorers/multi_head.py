"""Notebooks 05 and 06: the sentence with two questions, and what heads read of it, in words."""

from ..sentences import load_sentence
from .base import Explorer
from .words import entropy_in_bits


class HeadsExplorer(Explorer):
    """An explorer in which each kind of weights has values of its own for other controls: `offered`, by weights."""

    offered: dict

    def choices(self, values):
        return self.offered[values["weights"]]

    def note(self, wanted, values):
        gave_way = [name for name in self.offered["hand-made"] if wanted[name] != values[name]]
        without = f"isn't offered with {values['weights']} weights"
        return " ".join(f"{name} is {values[name]} for now: {wanted[name]} {without}." for name in gave_way)


def two_lookups(swapped):
    """The tokens and embeddings of the sentence with two questions, or of the one with two digits swapped."""
    (a, one, other, last), x = load_sentence("two_lookups")
    if swapped:
        one, other = one[:-1] + other[-1], other[:-1] + one[-1]
        x[[1, 2], 3:6] = x[[2, 1], 3:6]
    return [a, one, other, last], x


def joined(words):
    """ "1, 2 and 4"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def most_read(row, tokens):
    """The tokens with the largest weight of a row."""
    names = [f"“{token}”" for token, weight in zip(tokens, row, strict=True) if weight > row.max() - 1e-6]
    return "all tokens alike" if len(names) == len(tokens) else joined(names) + " alike" * (len(names) > 1)


def last_token_reads(weights, tokens):
    """What the last token reads most, as a clause, with the weight if heads are few."""
    rows, heads = weights[:, -1], {}  # rows: (num_heads, num_tokens)
    if len(rows) == 1:
        return f"“{tokens[-1]}” reads {most_read(rows[0], tokens)}: {rows.max():.3f}"
    for head, row in enumerate(rows, 1):
        heads.setdefault(most_read(row, tokens), []).append(f"{head}" + f" ({row.max():.2f})" * (len(rows) == 2))
    said = [f"{names} in head{'s' * (len(those) > 1)} {joined(those)}" for names, those in heads.items()]
    return f"“{tokens[-1]}” reads {', '.join(said)}"


def right(state):
    """A trained layer's accuracy, on each of the two questions."""
    first, second = (f"{share:.0%}" for share in state.accuracy.tolist())
    return f"first digit right in {first}, second in {second}"


def task(state):
    """What trained weights were trained for, as a readout; none with weights made by hand."""
    if state.accuracy is None:
        return {}
    last, tokens = state.tokens[-1], state.tokens[:-1]
    pairs = [token for letter in last[:2] for token in tokens if token.startswith(letter)]
    asks = f"“{last}” asks for the digits in {joined([f'“{pair}”' for pair in pairs])}, in this order"
    return {"trained for": f"{asks}. Unseen examples: {right(state)}."}


def each_head(state):
    """What the last token reads most in each head, for readers who can't see it."""
    last, said = state.tokens[-1], []
    entropies = entropy_in_bits(state.weights).mean(dim=-1).tolist()  # one per head
    for head, (row, entropy) in enumerate(zip(state.weights[:, -1], entropies, strict=True), 1):
        reads = f"{most_read(row, state.tokens)} ({row.max():.2f})"
        said.append(f"Head {head}: “{last}” reads {reads}, mean entropy {entropy:.2f} bits.")
    return " ".join(said)

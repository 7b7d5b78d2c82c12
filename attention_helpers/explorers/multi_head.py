"""Notebooks 05 and 06: what heads read, in words."""

from .words import entropy_in_bits


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

"""Notebooks 05 and 06 in words: what heads read, what dropout removed, and what trained heads can do."""

import torch

from .multi_head import taken_from

FEW = 4  # heads that a headline can name


def joined(words):
    """ "1, 2 and 4"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def strongest(weights):
    """What the last token reads most, by head: pairs of a token's index and its weight."""
    most, keys = weights[:, -1].max(dim=-1)  # each (num_heads,)
    return list(zip(keys.tolist(), most.tolist(), strict=True))


def last_token_reads(weights, tokens):
    """What the last token reads, as a clause: all about equally, or what each head reads most, if heads are few."""
    row, last, found = weights[:, -1], f"“{tokens[-1]}”", strongest(weights)  # row: (num_heads, num_tokens)
    low, high = (each.item() for each in row.aminmax())
    if len(tokens) == 1:
        return f"{last} can only read itself"
    if high - low <= 0.5 / len(tokens):  # half of an even share
        return f"{last} reads all {len(tokens)} tokens about equally ({low:.2f} to {high:.2f})"
    if 1 < len(found) <= FEW:
        return f"{last} reads {by_token(found, tokens)}"
    head, (key, _) = max(enumerate(found, 1), key=lambda each: each[1][1])
    return f"{last} reads “{tokens[key]}” most: {high:.2f}" + f" in head {head}" * (len(found) > 1)


def by_token(found, tokens):
    """ "“H 8” most in heads 1 and 3, “I 3” in head 2"; found: each head's strongest."""
    heads = {}
    for head, (key, most) in enumerate(found, 1):
        heads.setdefault(tokens[key], []).append(f"{head}" + f" ({most:.2f})" * (len(found) == 2))
    said = [f" in head{'s' * (len(those) > 1)} {joined(those)}" for those in heads.values()]
    first, *others = [f"“{token}”" for token in heads]
    return ", ".join(token + where for token, where in zip([f"{first} most", *others], said, strict=True))


def dropped(state):
    """What dropout did, as a sentence, or "" if it's off."""
    if torch.equal(state.shown, state.weights):
        return ""
    taken, count = taken_from(state), int((state.weights > 0).sum())
    kept = state.weights[~taken].sum().item()
    grew = f"; the others grew {state.shown.sum().item() / kept:.2f} times" if kept else ""
    return f"Dropout removed {int(taken.sum())} of {count} weights{grew}"


def right(state):
    """A trained layer's accuracy, on each of the two questions."""
    first, second = (f"{share:.0%}" for share in state.accuracy.tolist())
    return f"first digit right in {first}, second in {second}"


def task(state):
    """What trained weights were trained for, as a readout; none with random weights."""
    if state.accuracy is None:
        return {}
    last, tokens = state.tokens[-1], state.tokens[:-1]
    pairs = [token for letter in last[:2] for token in tokens if token.startswith(letter)]
    asks = f"“{last}” asks for the digits in {joined([f'“{pair}”' for pair in pairs])}, in this order"
    return {"trained for": f"{asks}. Unseen examples: {right(state)}."}


def each_head(state, weights):
    """What the last token reads most in each head, for readers who can't see it; weights: those that are drawn."""
    last, said = state.tokens[-1], []
    for head, (entropy, (key, most)) in enumerate(zip(state.entropy.tolist(), strongest(weights), strict=True), 1):
        reads = f"“{last}” reads “{state.tokens[key]}” most ({most:.2f})" if most else f"“{last}” reads nothing"
        said.append(f"Head {head}: {reads}, mean entropy {entropy:.2f} bits.")
    return " ".join(said)

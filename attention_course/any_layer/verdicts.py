"""A verdict on a layer, and the headline that's made of several."""

from typing import NamedTuple


class Verdict(NamedTuple):
    """Its sign is "✓" for what should be so, "✗" for a fault that was measured, "?" for what only its author can tell,
    and "•" for a property that's a fault in some layers and right in others.
    """

    sign: str
    claim: str
    words: str  # how we know
    cause: str = ""  # for the headline, if it isn't the words


def headline(verdicts, name):
    """The worst of some verdicts, by topic and sorted by weight, in one sentence. name: the layer's."""
    turned = " with the tokens first" if "first" in verdicts else ""
    for sign, claim, words, cause in verdicts.values():
        if sign == "✗":
            return f"{claim}: {cause or words}"
    future, course, past = (verdicts.get(topic) for topic in ("future", "course", "past"))
    if course and course.sign == "✓":
        return f"{name} {course.cause}{turned}"
    for topic, (sign, _, words, cause) in verdicts.items():
        if sign == "?" and topic != "sums":
            return f"No fault found, but {cause or words}"
    if future and future.sign == "•":
        return f"{name} has no mask{turned}: {future.words}"
    if past and past.sign == "•":
        return f"{past.claim}: {past.words}"
    claims = [verdicts[topic].claim for topic in ("future", "past", "sums") if topic in verdicts]
    claims = ", ".join(claim[0].lower() + claim[1:] for claim in claims if claim[-1] != "?")
    no_maps = "sums" in verdicts and verdicts["sums"].words.startswith("no map")
    return f"No fault found{', but no attention weights either' if no_maps else ''}{turned}: {claims}"

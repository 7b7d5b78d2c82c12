"""A verdict on a layer, and the headline that's made of several."""

from typing import NamedTuple


class Verdict(NamedTuple):
    """Its sign is "✓" for what should be so, "✗" for what no attention layer wants, "?" for what only its author can
    tell, and "•" for a property that's a fault in some layers and right in others.
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
    course = verdicts.get("course")
    if course and course.sign == "✓":
        return f"{name} {course.cause}{turned}"
    for topic, (sign, _, words, cause) in verdicts.items():
        if sign == "?" and topic != "sums":
            return f"No fault found, but {(cause or words)[:1].lower() + (cause or words)[1:]}"
    for topic in "future", "past":
        if topic in verdicts and verdicts[topic].sign == "•":
            _, claim, words, _ = verdicts[topic]
            return f"{name} has no mask{turned}: {words}" if topic == "future" else f"{claim}: {words}"
    claims = [verdicts[topic].claim for topic in ("future", "past", "sums") if topic in verdicts]
    claims = ", ".join(claim[0].lower() + claim[1:] for claim in claims if claim[-1] != "?")
    no_maps = "sums" in verdicts and verdicts["sums"].words.startswith("no map")
    return f"No fault found{', but no attention weights either' if no_maps else ''}{turned}: {claims}"

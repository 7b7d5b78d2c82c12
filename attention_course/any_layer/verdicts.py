"""What was found in a layer, in words. A finding is data; here it becomes a sentence, at the end and only once."""

import math
from typing import NamedTuple


class Finding(NamedTuple):
    """One thing that was measured, or that is so: which, and with what numbers and lines."""

    kind: str  # a key of SAID
    data: dict = {}  # what its sentences need  # noqa: RUF012


class Verdict(NamedTuple):
    """A finding in words: a claim, and how we know.

    sign: "✓" for what should be so, "✗" for a fault that was measured, "?" for what only the layer's author can tell,
    and "•" for a property that's a fault in some layers and right in others.
    """

    sign: str
    claim: str
    words: str
    cause: str = ""  # for the headline, where `words` would be too long
    kind: str = ""


FUTURE, SUMS, SCALE = "It reads the future", "Rows don't sum to 1", "The scores' scale is wrong"
SAID = {  # kind: (sign, claim, words, cause for the headline)
    "returns weights": ("✗", "It returns its attention weights", "{made_by} makes them; return them times the values"),
    "unregistered": ("✗", "Parameters aren't registered",
        "`parameters()` lacks {numbers} trainable numbers, as with layers in a list, not an nn.ModuleList"),
    "draws": ("✗", "It's random in eval mode too",
        "{where} draws at each call; draw in `__init__`, or only if self.training", "{where} draws at each call"),
    "drops": ("✗", "It's random in eval mode too", "{where} stays on; dropout needs training=self.training",
        "{where} stays on"),
    "nan": ("✗", "Row {row} is NaN", "{where} makes the first NaN{why}"),
    "past only": ("✓", "It reads only the past", "{tried} perturbations of later tokens moved no earlier row"),
    "context": ("✓", "It reads all of {other}", "which is the same sentence here; perturbing x moved no earlier row"),
    "unjudged": ("?", "Does it read the future?", "can't be judged: {error}"),
    "future": ("✗", FUTURE, "{leak}", "{cause}"),
    "future in training": ("✗", "In training, it reads the future", "{leak}", "{cause}"),
    "mask in training": ("✗", "In eval mode, it reads the future", "only in training, no weight is after the diagonal"),
    "no mask": ("•", "It has no mask", "no weight after the diagonal is 0{unasked}: each token reads all tokens"),
    "no mask, by its name": ("?", "Should it have a mask?",
        "no weight after the diagonal is 0{unasked}: each token reads all tokens"),
    "all, without maps": ("?", "Should it read the future?", "each token moves all rows; {leak}"),
    "whole past": ("✓", "Each token reads its whole past", "perturbing it moves its own row and all later ones"),
    "all tokens": ("✓", "Each token reads all tokens", "perturbing it moves all rows"),
    "only itself": ("✗", "Each token reads only itself",
        "none of {tried} perturbations of another token moved a row{why}",
        "perturbing another token never moved a row{why}"),
    "window": ("•", "It has a sliding window of {window}", "each token reads itself and the {before} before it"),
    "hidden past": ("?", "Does each token read its whole past?",
        "token {row} never reads {missed}: no map has a weight there", "token {row} never reads {missed}"),
    "hardly read": ("?", "Does each token read its whole past?",
        "no perturbation showed that token {row} reads {missed}"),
    "missed past": ("✗", "Tokens miss part of their past", "token {row} never reads {missed}{though}{why}",
        "token {row} never reads {missed}{why}"),
    "mixed rows": ("?", "Do its rows stay apart?",
        "{where} makes {after} of {before}, so a row gets numbers of several tokens",
        "{where} joins numbers of several tokens"),
    "tokens first": ("•", "It takes the tokens first",
        "(num_tokens, b, d_in), as nn.MultiheadAttention without batch_first=True; else each token reads only itself"),
    "early dropout": ("✗", "Dropout comes before softmax", "{where} drops scores, not weights"),
    "summed": ("✗", "An einsum sums too much",
        "{where} sums over `{letter}`, of size {size}, which only the values have"),
    "no map": ("?", "Do rows sum to 1?", "no map found: no operation made attention weights {shape} from the tokens"),
    "sums across": ("✗", SUMS, "{where}; over the keys, it would be dim=-1"),
    "sums wide": ("✓", "Rows sum to 1", "in {where}"),
    "sums": ("✓", "Rows sum to 1", "{where}"),
    "sums before dropout": ("✓", "Rows sum to 1", "before some weights are dropped"),
    "no sums": ("✗", SUMS, "from {least:.2f} to {most:.2f}: {why}", "{why}"),
    "dead": ("✗", "A result is never used", "{where}"),
    "spare": ("•", "A result is never used", "{where}"),
    "unread": ("✗", "A parameter is never used", "{names}"),
    "shared": ("?", "Should one projection serve several times?", "`{name}` is used {times} times in a call",
        "`{name}` is used {times} times in a call"),
    "idle part": ("?", "Should all of `{name}` be used?", "{idle} of its {parts} parts have no effect on the result",
        "{idle} of {parts} parts of `{name}` have no effect on the result"),
    "all used": ("✓", "Every result is used", "and so is every parameter"),
    "fewer": ("✓", "It accepts shorter inputs", "{fewer} tokens instead of {num_tokens}"),
    "not fewer": ("✗", "It fails on fewer tokens", "with {fewer}, {failure}", "{where} raises {error}"),
    "one length": ("•", "It takes one number of tokens", "with {fewer}, {failure}"),
    "one sentence": ("✓", "It takes one sentence at a time", "(num_tokens, d_in)"),
    "batch fails": ("✗", "It fails on a batch of sentences", "{failure}"),
    "batch mixes": ("✗", "Sentences of a batch mix", "next to other sentences, a row moves by {gap:.2g}"),
    "batch": ("✓", "Sentences of a batch stay apart", "next to three others, a sentence has the same rows"),
    "course": ("✓", "As in the course", "with the same weights, {name}{without} returns the same numbers",
        "computes what the course's {name} computes{without}"),
    "other numbers": ("•", "Not as in the course", "its parameters fit {name}, but the numbers differ by {gap:.2g}"),
    "other shape": ("•", "Not as in the course", "its parameters fit {name}, but it returns another shape"),
    "same weights": ("?", "As in the course?",
        "its weights are those of {name}, but what it makes of the values differs by {gap:.2g}",
        "its weights are those of {name}, but not what it makes of the values"),
    "scale": ("✗", SCALE, "times {times:.3g}, they would match {name}: {how}",
        "times {times:.3g}, they would match {name}"),
    "odd scale": ("?", "Is the scores' scale right?",
        "queries @ keys.T are multiplied by {factor:.3g}, which is {formula}; 1/√{width} is {right:.3g}",
        "queries @ keys.T are multiplied by {factor:.3g}, which is {formula}, not by 1/√{width} = {right:.3g}"),
    "exchanged": ("✗", "{claim}", "with {right}, it would match {name}"),
    "scrambled": ("✗", "{claim}", "{how}, it would match {name}{where}"),
}  # fmt: skip


def worded(finding, num_tokens=0):
    """A finding as a Verdict."""
    sign, claim, words, *cause = (text.format(**finding.data) for text in SAID[finding.kind])
    return Verdict(sign, claim, words, *cause or [""], kind=finding.kind)


def headline(verdicts, name):
    """The worst of some verdicts, which are sorted by weight, in one sentence. name: the layer's."""
    kinds = {verdict.kind: verdict for verdict in verdicts.values()}
    for verdict in verdicts.values():
        if verdict.sign == "✗":
            return f"{verdict.claim}: {verdict.cause or verdict.words}"
    if "unjudged" in kinds:
        return f"{name} {kinds['unjudged'].words}"
    turned = " with the tokens first" * ("tokens first" in kinds)
    if "no mask, by its name" in kinds:
        return f"{name} has no mask{turned}: {kinds['no mask, by its name'].words}"
    if "course" in kinds:
        return f"{name} {kinds['course'].cause}{turned}"
    open_ones = [verdict for verdict in verdicts.values() if verdict.sign == "?" and verdict.kind not in ("no map",)]
    if open_ones:
        first = open_ones[0]
        return f"No fault found, but {first.cause}" if first.cause else f"{first.claim} {first.words}"
    if "no mask" in kinds:
        return f"{name} has no mask{turned}: {kinds['no mask'].words}"
    if "window" in kinds:
        return f"{kinds['window'].claim}: {kinds['window'].words}"
    sound = [verdicts[topic].claim for topic in ("future", "past", "sums") if topic in verdicts]
    sound = [claim[0].lower() + claim[1:] for claim in sound if not claim.endswith("?")]
    but = ", but no attention weights either" * ("no map" in kinds)
    return f"No fault found{but}{turned}: {', '.join(sound)}"


def counted(tokens):
    """ "token" or "3 tokens" for a number of them; "token 2" or "tokens 0, 1" for their indices."""
    if isinstance(tokens, int):
        return "token" if tokens == 1 else f"{tokens} tokens"
    return f"token{'s' * (len(tokens) > 1)} {', '.join(map(str, tokens))}"


def leak_in_words(leak):
    """What find_leak saw, without the claim."""
    change = f"moves by {leak.change:.2g}" if math.isfinite(leak.change) else "turns to NaN or infinity"
    return f"row {leak.row} {change} when {leak.how}"

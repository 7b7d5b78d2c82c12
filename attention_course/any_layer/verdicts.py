"""What was found in a layer, in words. A finding is data; here it becomes a sentence, at the end and only once."""

from types import SimpleNamespace
from typing import NamedTuple


class Verdict(NamedTuple):
    """Its sign is "✓" for what should be so, "✗" for a fault that was measured, "?" for what only its author can tell,
    and "•" for a property that's a fault in some layers and right in others.
    """

    sign: str
    claim: str
    words: str  # how we know
    cause: str  # for the headline
    kind: str


MOVED, FUTURE = "{row} {moves} when {token} {what}", "It reads the future"
NO_MASK = "no weight after the diagonal is 0{unasked}: each token reads all tokens"
PLACES = {"row": "row", "token": "token", "reader": "token", "missed": "token"}  # data that are places: of what
SAID = {  # kind: (sign, claim, words, cause for the headline if it's another)
    "returns weights": ("✗", "It returns its attention weights", "{where} makes them; return them times the values"),
    "unregistered": ("✗", "Parameters aren't registered",
        "`parameters()` lacks {numbers} trainable numbers, as with layers in a list, not an nn.ModuleList"),
    "draws": ("✗", "It's random in eval mode too", "{where} draws at each call, not only if self.training"),
    "nan": ("✗", "{row} is NaN", "{where} makes the first NaN{why}"),
    "past only": ("✓", "It reads only the past", "{tried} perturbations of later tokens moved no earlier row"),
    "context": ("✓", "It reads all of {other}", "which is the same sentence here; perturbing x moved no earlier row"),
    "unjudged": ("?", "Does it read the future?", "can't be judged: {error}"),
    "mask in training": ("✗", "In eval mode, it reads the future", "only in training, no weight is after the diagonal"),
    "no mask": ("•", "It has no mask", NO_MASK),
    "no mask, by its name": ("?", "Should it have a mask?", NO_MASK),
    "all, without maps": ("?", "Should it read the future?", f"each token moves all rows; {MOVED}"),
    "future in training": ("✗", "In training, it reads the future", "{row} {moves} when {token} changes", "{cause}"),
    "future": ("✗", FUTURE, MOVED),
    "mask thrown away": ("✗", FUTURE, MOVED, "{where} computes {name} and throws it away"),
    "mask not used": ("✗", FUTURE, MOVED, "{triangle} makes a mask, but no weight after the diagonal is 0"),
    "mask after softmax": ("✗", FUTURE, MOVED, "its mask comes after softmax, which has counted the future"),
    "mask after exp": ("✗", FUTURE, MOVED, "a large score there takes all: mask the scores before exp"),
    "softmax across": ("✗", FUTURE, MOVED, "{where} runs over neither keys nor queries"),
    "over queries": ("✗", FUTURE, MOVED, "{where} runs over the queries, not the keys"),
    "turned": ("✗", FUTURE, MOVED, "its weights are transposed by {where}"),
    "mixed": ("✗", FUTURE, MOVED, "{where} mixes later tokens into earlier rows"),
    "view mixes": ("✗", FUTURE, MOVED, "the {where} mixes the rows"),
    "finite mask": ("✗", FUTURE, MOVED, "it hides by a score of {value:.4g}, not far below others: fill with -inf"),
    "hides past": ("✗", FUTURE, MOVED, "its mask hides the past instead"),
    "one too late": ("✗", FUTURE, MOVED, "its mask begins one diagonal too late"),
    "one too early": ("✗", FUTURE, MOVED, "its mask begins one diagonal too early, so row 0 averages over all tokens"),
    "hides some": ("✗", FUTURE, MOVED, "its mask hides only some of it"),
    "whole past": ("✓", "Each token reads its whole past", "perturbing it moves its own row and all later ones"),
    "all tokens": ("✓", "Each token reads all tokens", "perturbing it moves all rows"),
    "only itself": ("✗", "Each token reads only itself", "{tried} perturbations of other tokens moved no row{why}"),
    "window": ("•", "It has a sliding window of {window}", "each token reads itself and the {before} before it"),
    "hidden past": ("?", "Does each token read its whole past?", "{reader} never reads {missed}"),
    "missed past": ("✗", "Tokens miss part of their past", "{reader} never reads {missed}{why}"),
    "mixed rows": ("?", "Do its rows stay apart?", "the {where} joins numbers of several tokens"),
    "tokens first": ("•", "It takes the tokens first",
        "(num_tokens, b, d_in), as nn.MultiheadAttention without batch_first=True; else each token reads only itself"),
    "summed": ("✗", "A product sums too much", "{where} adds the values of {times} heads, each with the same weights"),
    "no map": ("?", "Do rows sum to 1?", "no map found: no operation made attention weights {shape} from the tokens"),
    "sums": ("✓", "Rows sum to 1", "{where}"),
    "no sums": ("✗", "Rows don't sum to 1", "{range}{why}", "{why}"),
    "dead": ("✗", "A result is never used", "{where}"),
    "unread": ("✗", "A parameter is never used", "in eval mode or in training: {names}", "{names}"),
    "optional": ("?", "Should a parameter be used?", "no call of ours used {names}; they leave out `{switches}`"),
    "shared": ("?", "Should one projection serve several times?", "`{name}` is used {times} times in a call"),
    "idle part": ("?", "Should all of `{name}` be used?", "{idle} of {parts} parts of `{name}` have no effect"),
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
    "scale": ("✗", "The scores' scale is wrong", "times {times:.3g}, they would match {name}: {how}",
        "times {times:.3g}, they would match {name}"),
    "odd scale": ("?", "Is the scores' scale right?",
        "queries @ keys.T are multiplied by {factor:.3g}, which is {formula}, not by 1/√{width} = {right:.3g}"),
    "changed": ("✗", "{claim}", "with {right}, it would match {name}{where}"),
}  # fmt: skip


def finding(kind, **data):
    """A Finding. kind: a key of SAID; data: what its words need, as numbers, places, operations with their lines."""
    return SimpleNamespace(kind=kind, data=data)


def worded(found, tokens=()):
    """A Finding as a Verdict, in which rows and tokens have the sentence's words, if `tokens` has them."""
    named = {key: in_sentence(PLACES[key], places, tokens) for key, places in found.data.items() if key in PLACES}
    sign, claim, words, *cause = (text.format(**found.data | named) for text in SAID[found.kind])
    return Verdict(sign, claim[0].upper() + claim[1:], words, *cause or [words], kind=found.kind)


def in_sentence(what, places, tokens):
    """Rows or tokens, by number or several in a list: “journey” (token 1), or only token 1 without the words."""
    places = places if isinstance(places, list) else [places]
    numbers = f"{what}{'s' * (len(places) > 1)} {', '.join(map(str, places))}"
    return f"{', '.join(f'“{tokens[place]}”' for place in places)} ({numbers})" if tokens else numbers


def headline(verdicts, name):
    """The worst of some verdicts, which are sorted by weight, in one sentence. name: the layer's."""
    kinds = {verdict.kind: verdict for verdict in verdicts.values()}
    turned = " with the tokens first" * ("tokens first" in kinds)
    no_mask = "{name} has no mask{turned}: {0.words}"
    says = [(kind, "{0.claim}: {0.cause}") for kind in kinds if kinds[kind].sign == "✗"]
    says += [("unjudged", "{name} {0.words}"), ("no mask, by its name", no_mask)]
    says += [("course", "{name} {0.cause}{turned}")]
    says += [(each, "No fault found, but {0.cause}") for each in kinds if kinds[each].sign == "?" and each != "no map"]
    says += [("no mask", no_mask), ("window", "{0.claim}: {0.words}")]
    for kind, words in says:
        if kind in kinds:
            return words.format(kinds[kind], name=name, turned=turned)
    sound = [verdicts[topic].claim for topic in ("future", "past", "sums") if topic in verdicts]
    sound = ", ".join(claim[0].lower() + claim[1:] for claim in sound if claim[-1] != "?")
    return f"No fault found{', but no attention weights either' * ('no map' in kinds)}{turned}: {sound}"

"""What can go wrong in an attention layer, as one list: each mistake is an edit of the course's classes, with a reply.

To teach the course a mistake, add a row. A mistake belongs to each class whose text holds all that it replaces.
"""

import inspect
from functools import cache
from typing import NamedTuple


class Mistake(NamedTuple):
    """One row.

    name: what the class does. edits: (old, new) pairs, each replaced everywhere in the class's text. reply: what to say
    to whoever made it; it names the mistake and asks a question. heading: where the course settles it, such as
    "03#Find-the-leak". leaks: whether a row depends on later tokens. meant: whether somebody could mean it; then it's a
    mistake where the course's layer is asked for, and a question anywhere else. report: a public report's address.
    """

    name: str
    edits: tuple
    reply: str
    heading: str
    leaks: bool = False
    meant: bool = False
    report: str = ""


SCORES = "queries @ keys.mT"
SCALED = f"scores = {SCORES} / keys.shape[-1] ** 0.5"
MASKED = "scores = scores.masked_fill(future, -torch.inf)"
SOFTMAX = "weights = torch.softmax(scores, dim=-1)"
UNMASKED = MASKED, "pass"
# with the comment above it, which only MultiHeadAttention has
HEADS = "# (b, num_heads, num_tokens, num_tokens)\n        "
CONTEXT = "context = self.dropout(weights) @ values"
TO_FRONT = "return x.transpose(1, 2)"
IN_HEADS = "x.view(b, num_tokens, self.num_heads, self.head_dim)"
BY_VIEW = f"x = {IN_HEADS}\n        {TO_FRONT}", "return x.reshape(b, self.num_heads, num_tokens, self.head_dim)"
JOINED = "context = context.transpose(1, 2)"
TURNED = "rotated = rotate(keys, positions, self.frequencies)"

WHY_SCALE = "02#Why-divide-by-the-square-root-of-d_k?"
HIDE = "03#How-do-we-hide-the-future-from-softmax?"
LEAK = "03#Find-the-leak"
ROWS = "01#All-tokens-at-once"
ONE_LINE = "02#One-line-for-all-of-it"
VECTORS = "02#What-does-a-token-pass-on?"
CUT = "06#The-cut"
AT_ONCE = "06#All-heads-at-once"
BACK = "06#Back-to-one-row-per-token"
FAR = "11#How-does-a-layer-know-how-far-apart-two-tokens-are?"

MISTAKES = [
    Mistake(
        "throws the masked copy away",
        ((MASKED, "scores.masked_fill(future, -torch.inf)"),),
        "The future leaks: `masked_fill` returns a masked copy. Does anything use it?",
        LEAK,
        leaks=True,
        report="https://github.com/TomJourney/build_a_llm_from_scratch/blob/94cf927d83195f2d9bd75aa6ca256b656f6d4036/"
        "src/chapter03/test0305_p72_simple_causal_attention_module.py",
    ),
    Mistake(
        "masks after softmax",
        (UNMASKED, (SOFTMAX, f"{SOFTMAX}.masked_fill(future, 0.0)")),
        "The mask comes after softmax, so a row's weights no longer sum to 1. Where do the hidden weights go?",
        HIDE,
        leaks=True,
    ),
    Mistake(
        "fills with 0",
        ((MASKED, "scores = scores.masked_fill(future, 0.0)"),),
        "A hidden score of 0 still gets a weight, because exp(0) is 1. Which score gets the weight 0?",
        HIDE,
        leaks=True,
    ),
    Mistake(
        "hides the past",
        ((MASKED, "scores = scores.masked_fill(~future, -torch.inf)"),),
        "The mask is upside down: it hides the past and shows the future. Does True mean hide or keep here?",
        HIDE,
        leaks=True,
        report="https://github.com/rasbt/LLMs-from-scratch/issues/1061",
    ),
    Mistake(
        "hides the past, but not the token itself",
        ((MASKED, "scores = scores.masked_fill(future.mT, -torch.inf)"),),
        "The mask hides the past instead of the future. On which side of the diagonal are the later tokens?",
        HIDE,
        leaks=True,
    ),
    Mistake(
        "shows the next token",
        ((".triu(diagonal=1)", ".triu(diagonal=2)"),),
        "Each token sees the next one: the mask begins one diagonal too late. At which does the future begin?",
        HIDE,
        leaks=True,
    ),
    Mistake(
        "hides the token itself",
        ((".triu(diagonal=1)", ".triu(diagonal=0)"),),
        "The mask begins one diagonal too early, so no token sees itself, and the first row is NaN. What's left of "
        "that row to sum over?",
        HIDE,
    ),
    Mistake(
        "adds a mask of 0 and 1",
        ((MASKED, "scores = scores + ~future"),),
        "It adds its mask of 0 and 1 to the scores, which hides nothing. Which number hides a score if it's added?",
        HIDE,
        leaks=True,
    ),
    Mistake(
        "raises the future by 1e9",
        ((MASKED, "scores = scores + 1e9 * future"),),
        "The mask's sign is wrong: it adds a large number to the future's scores. Which sign hides them?",
        HIDE,
        leaks=True,
    ),
    Mistake(
        "doesn't scale",
        ((SCALED, f"scores = {SCORES}"),),
        "The scores aren't scaled. What are they divided by before softmax?",
        WHY_SCALE,
        meant=True,
    ),
    Mistake(
        "divides by d_k",
        ((SCALED, f"scores = {SCORES} / keys.shape[-1]"),),
        "The scores are divided by d_k, the width of a key. What of d_k should it be?",
        WHY_SCALE,
        meant=True,
    ),
    Mistake(
        "multiplies by the root of d_k",
        ((SCALED, f"scores = {SCORES} * keys.shape[-1] ** 0.5"),),
        "The scores are multiplied by the root of d_k. Should they become larger or smaller with it?",
        WHY_SCALE,
        meant=True,
    ),
    Mistake(
        "divides by the root of d_in",
        ((SCALED, f"scores = {SCORES} / x.shape[-1] ** 0.5"),),
        "The scores are divided by the root of d_in. How many terms does a query's product with a key have?",
        WHY_SCALE,
        meant=True,
        report="https://github.com/karpathy/ng-video-lecture/pull/6",
    ),
    Mistake(
        "divides by the root of num_tokens",
        ((SCALED, f"scores = {SCORES} / keys.shape[-2] ** 0.5"),),
        "The scores are divided by the root of the number of tokens. Which dimension of `keys` holds d_k?",
        WHY_SCALE,
        meant=True,
    ),
    Mistake(
        "divides by the root of d_out",
        ((HEADS + SCALED, f"{HEADS}scores = {SCORES} / self.W_query.out_features ** 0.5"),),
        "The scores are divided by the root of d_out. But a dot product has only one head's terms: how many?",
        AT_ONCE,
        meant=True,
    ),
    Mistake(
        "divides by the root of num_heads",
        ((HEADS + SCALED, f"{HEADS}scores = {SCORES} / self.num_heads ** 0.5"),),
        "The scores are divided by the root of num_heads. Which width does a head's dot product have?",
        AT_ONCE,
        meant=True,
    ),
    Mistake(
        "scales after softmax",
        ((SCALED, f"scores = {SCORES}"), (SOFTMAX, f"{SOFTMAX} / keys.shape[-1] ** 0.5")),
        "It divides the weights, not the scores, by the root of d_k. Do its rows still sum to 1?",
        WHY_SCALE,
    ),
    Mistake(
        "exchanges queries and keys",
        ((SCALED, "scores = keys @ queries.mT / keys.shape[-1] ** 0.5"),),
        "Queries and keys are exchanged: a row of scores belongs to a key. Which should be on the left?",
        ONE_LINE,
        meant=True,
    ),
    Mistake(
        "exchanges queries and keys, and doesn't scale",
        ((SCALED, "scores = keys @ queries.mT"),),
        "Queries and keys are exchanged, and the scores aren't scaled. What should a row of scores belong to?",
        ONE_LINE,
        meant=True,
    ),
    Mistake(
        "compares queries with queries",
        ((SCALED, "scores = queries @ queries.mT / keys.shape[-1] ** 0.5"),),
        "It compares queries with queries, and never uses the keys. What does a query look for?",
        VECTORS,
        meant=True,
    ),
    Mistake(
        "takes the scores' absolute values",
        ((SCALED, f"scores = ({SCORES}).abs() / keys.shape[-1] ** 0.5"),),
        "The scores lose their sign, so the opposite of a query counts like a match. Is that meant?",
        ONE_LINE,
        meant=True,
    ),
    Mistake(
        "takes the softmax over the queries",
        ((SOFTMAX, "weights = torch.softmax(scores, dim=-2)"),),
        "Columns sum to 1 instead of rows. A query's weights are in one row, so which dimension is softmax's?",
        ROWS,
        leaks=True,
    ),
    Mistake(
        "takes the softmax over the sentences",
        ((MASKED, MASKED.replace("-torch.inf", "-1e9")), (SOFTMAX, "weights = torch.softmax(scores, dim=0)")),
        "Softmax runs over the sentences of a batch, so a single one has only weights of 1. Which dimension holds the "
        "keys?",
        ROWS,
        leaks=True,
    ),
    Mistake(
        "takes the softmax over the heads",
        (
            UNMASKED,
            (HEADS + SCALED, f"{HEADS}{SCALED}\n        weights = torch.softmax(scores, dim=1)"),
            (SOFTMAX, "pass"),
        ),
        "Softmax runs over the heads, so a row's weights don't sum to 1. Which dimension holds the keys?",
        AT_ONCE,
        leaks=True,
    ),
    Mistake(
        "transposes its weights",
        ((SOFTMAX, f"{SOFTMAX}.mT"),),
        "The weights are transposed: a value is spread over the rows that follow. Whose weights are in a row?",
        ROWS,
        leaks=True,
    ),
    Mistake(
        "takes the softmax twice",
        ((SOFTMAX, "weights = torch.softmax(torch.softmax(scores, dim=-1), dim=-1)"),),
        "Softmax runs twice. What does the second one make of weights that are 0?",
        HIDE,
        leaks=True,
    ),
    Mistake(
        "averages keys",
        (("@ values", "@ keys"),),
        "The weights average the keys. Which vectors hold what a token passes on?",
        VECTORS,
    ),
    Mistake(
        "exchanges keys and values",
        ((SCALED, "scores = queries @ values.mT / keys.shape[-1] ** 0.5"), ("@ values\n", "@ keys\n")),
        "Keys and values are exchanged. Which are compared with a query, and which are averaged?",
        VECTORS,
        meant=True,
    ),
    Mistake(
        "cuts heads by view alone",
        (BY_VIEW,),
        "A head gets whole tokens instead of a part of every token. Which dimension should be cut first?",
        CUT,
        leaks=True,
    ),
    Mistake(
        "cuts and joins heads by view alone",
        (BY_VIEW, (JOINED, "pass")),
        "A head gets whole tokens instead of a part of every token, so rows miss part of their past. Which dimension "
        "should be cut first?",
        CUT,
        report="https://github.com/reczoo/FuxiCTR/issues/30",
    ),
    Mistake(
        "joins heads without a transpose",
        ((JOINED, "pass"),),
        "A row gets the numbers of several tokens. Which two dimensions have to change places before you join?",
        BACK,
        leaks=True,
        report="https://github.com/jsbaan/transformer-from-scratch/pull/6",
    ),
    Mistake(
        "gives a head every num_heads-th entry",
        (
            (IN_HEADS, "x.unflatten(-1, (-1, self.num_heads))"),
            (TO_FRONT, "return x.permute(0, 3, 1, 2)"),
        ),
        "Each head gets every num_heads-th entry of a token. Should its entries stand next to each other?",
        CUT,
        meant=True,
    ),
    Mistake(
        "joins heads entry by entry",
        ((JOINED, "context = context.permute(0, 2, 3, 1)"),),
        "It joins the first entries of all heads, then the second ones. Should a head's entries stay together?",
        BACK,
        meant=True,
    ),
    Mistake(
        "has only one head",
        ((IN_HEADS, "x.unsqueeze(2)"),),
        "It computes one head that's as wide as all of them. Where should `num_heads` cut?",
        CUT,
        meant=True,
    ),
    Mistake(
        "adds all heads' values",
        ((CONTEXT, f"{CONTEXT}.sum(dim=1, keepdim=True)"),),
        "Each head averages the values of all heads. Whose values belong to a head's weights?",
        AT_ONCE,
    ),
    Mistake(
        "gives all heads the first one's values",
        ((CONTEXT, f"{CONTEXT}[:, :1]"),),
        "All heads average the first head's values. Whose values belong to a head's weights?",
        AT_ONCE,
    ),
    Mistake(
        "doesn't use out_proj",
        (("return self.out_proj(context)", "return context"),),
        "The heads are returned side by side. Which step is left, the one that mixes them?",
        BACK,
        meant=True,
    ),
    Mistake(
        "rotates queries only",
        ((TURNED, "rotated = keys"),),
        "Only the queries are rotated. What has to turn as well, so that a score depends on the distance alone?",
        FAR,
        meant=True,
    ),
    Mistake(
        "rotates the values, too",
        ((TURNED, f"{TURNED}; values = rotate(values, positions, self.frequencies)"),),
        "The values are rotated, too. Should what a token passes on depend on its position?",
        FAR,
        meant=True,
    ),
    Mistake(
        "repeats the KV heads in another order",
        ((".repeat_interleave(groups, dim=1)", ".repeat(1, groups, 1, 1)"),),
        "Query heads get other KV heads than their own: `repeat` begins again after the last one. Which function "
        "repeats each of them before the next?",
        "10#Does-every-head-need-its-own-keys?",
        meant=True,
        report="https://github.com/onnx/onnx/pull/7274",
    ),
]


def mistakes_of(layer_class):
    """The rows that a class of the course can have: those that replace something in its text, or in its parts' text."""
    return [mistake for mistake in MISTAKES if applies(mistake, text_with_parts(layer_class))]


def applies(mistake, text):
    return all(old in text for old, _ in mistake.edits)


@cache
def text_with_parts(layer_class):
    """A class's text, after that of each class of its module that it makes."""
    module = inspect.getmodule(layer_class)
    text = inspect.getsource(layer_class)
    parts = [part for name, part in vars(module).items() if inspect.isclass(part) and f"{name}(" in text]
    parts = [part for part in parts if part is not layer_class and inspect.getmodule(part) is module]
    return "".join(map(inspect.getsource, [*parts, layer_class]))


@cache
def with_mistake(layer_class, mistake):
    """The class with a row's mistake, as are the classes of its module that it makes.

    Errors: ValueError if there's nothing in their text to replace.
    """
    text = text_with_parts(layer_class)
    if not applies(mistake, text):
        raise ValueError(f"{layer_class.__name__} has no text that a layer that {mistake.name} would replace")
    return edited(layer_class, mistake.edits)


def edited(layer_class, edits, **names):
    """A class, and its parts, with pieces of their text replaced. names: what the text knows besides its module's."""
    text = text_with_parts(layer_class)
    for old, new in edits:
        text = text.replace(old, new)
    space = {**vars(inspect.getmodule(layer_class)), **names}
    exec(compile(text, f"<{layer_class.__name__}, edited>", "exec"), space)
    return space[layer_class.__name__]

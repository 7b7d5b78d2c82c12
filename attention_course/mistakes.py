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
    "03#Find-the-leak". leaks: whether a row depends on later tokens. report: the address of a public report.
    """

    name: str
    edits: tuple
    reply: str
    heading: str
    leaks: bool = False
    report: str = ""


SCALED = "scores = queries @ keys.mT / keys.shape[-1] ** 0.5"
MASKED = "scores = scores.masked_fill(future, -torch.inf)"
SOFTMAX = "weights = torch.softmax(scores, dim=-1)"
# with the comment above it, which only MultiHeadAttention has
HEADS_SCALED = f"# (b, num_heads, num_tokens, num_tokens)\n        {SCALED}"

MISTAKES = [
    Mistake(
        name="throws the masked copy away",
        edits=((MASKED, "scores.masked_fill(future, -torch.inf)"),),
        reply="The future leaks: `masked_fill` returns a masked copy. Does anything use it?",
        heading="03#Find-the-leak",
        leaks=True,
        report="https://github.com/TomJourney/build_a_llm_from_scratch/blob/94cf927d83195f2d9bd75aa6ca256b656f6d4036/"
        "src/chapter03/test0305_p72_simple_causal_attention_module.py",
    ),
    Mistake(
        name="masks after softmax",
        edits=((MASKED, "pass"), (SOFTMAX, f"{SOFTMAX}.masked_fill(future, 0.0)")),
        reply="The mask comes after softmax, so a row's weights no longer sum to 1. Where do the hidden weights go?",
        heading="03#How-do-we-hide-the-future-from-softmax?",
        leaks=True,
    ),
    Mistake(
        name="fills with 0",
        edits=((MASKED, "scores = scores.masked_fill(future, 0.0)"),),
        reply="A hidden score of 0 still gets a weight, because exp(0) is 1. Which score gets the weight 0?",
        heading="03#How-do-we-hide-the-future-from-softmax?",
        leaks=True,
    ),
    Mistake(
        name="hides the past",
        edits=((MASKED, "scores = scores.masked_fill(~future, -torch.inf)"),),
        reply="The mask is upside down: it hides the past and shows the future. What does True mean in `masked_fill`?",
        heading="03#How-do-we-hide-the-future-from-softmax?",
        leaks=True,
    ),
    Mistake(
        name="shows the next token",
        edits=((".triu(diagonal=1)", ".triu(diagonal=2)"),),
        reply="Each token sees the next one: the mask begins one diagonal too late. At which does the future begin?",
        heading="03#How-do-we-hide-the-future-from-softmax?",
        leaks=True,
    ),
    Mistake(
        name="doesn't scale",
        edits=((SCALED, "scores = queries @ keys.mT"),),
        reply="The scores aren't scaled. What are they divided by before softmax?",
        heading="02#Why-divide-by-the-square-root-of-d_k?",
    ),
    Mistake(
        name="divides by d_k",
        edits=((SCALED, "scores = queries @ keys.mT / keys.shape[-1]"),),
        reply="The scores are divided by d_k, the width of a key. What of d_k should it be?",
        heading="02#Why-divide-by-the-square-root-of-d_k?",
    ),
    Mistake(
        name="divides by the root of d_in",
        edits=((SCALED, "scores = queries @ keys.mT / x.shape[-1] ** 0.5"),),
        reply="The scores are divided by the root of d_in. How many terms does a query's product with a key have?",
        heading="02#Why-divide-by-the-square-root-of-d_k?",
    ),
    Mistake(
        name="divides by the root of d_out",
        edits=((HEADS_SCALED, HEADS_SCALED.replace("keys.shape[-1]", "self.W_key.out_features")),),
        reply="The scores are divided by the root of d_out. But a dot product has only one head's terms: how many?",
        heading="06#All-heads-at-once",
    ),
    Mistake(
        name="exchanges queries and keys",
        edits=((SCALED, "scores = keys @ queries.mT / keys.shape[-1] ** 0.5"),),
        reply="Queries and keys are exchanged: a row of scores belongs to a key. Which should be on the left?",
        heading="02#One-line-for-all-of-it",
    ),
    Mistake(
        name="takes the softmax over the queries",
        edits=((SOFTMAX, "weights = torch.softmax(scores, dim=-2)"),),
        reply="Columns sum to 1 instead of rows. A query's weights are in one row, so which dimension is softmax's?",
        heading="01#All-tokens-at-once",
        leaks=True,
    ),
    Mistake(
        name="averages keys",
        edits=(("@ values", "@ keys"),),
        reply="The weights average the keys. Which vectors hold what a token passes on?",
        heading="02#Three-vectors-for-each-token",
    ),
    Mistake(
        name="cuts heads by view alone",
        edits=(("return x.transpose(1, 2)", "return x.reshape(b, self.num_heads, num_tokens, self.head_dim)"),),
        reply="A head gets whole tokens instead of a part of every token. Which dimension should be cut first?",
        heading="06#The-cut",
        leaks=True,
    ),
    Mistake(
        name="joins heads without a transpose",
        edits=(("context = context.transpose(1, 2)", "pass"),),
        reply="A row gets the numbers of several tokens. Which two dimensions have to change places before you join?",
        heading="06#Back-to-one-row-per-token",
        leaks=True,
    ),
    Mistake(
        name="doesn't use out_proj",
        edits=(("return self.out_proj(context)", "return context"),),
        reply="The heads are returned side by side. Which step is left, the one that mixes them?",
        heading="06#Back-to-one-row-per-token",
    ),
]


def mistakes_of(layer_class):
    """The rows that a class of the course can have: those that replace something in its text, or in its parts' text."""
    text = text_with_parts(layer_class)
    return [mistake for mistake in MISTAKES if all(old in text for old, _ in mistake.edits)]


@cache
def text_with_parts(layer_class):
    """A class's text, and that of each class of its module that it makes."""
    module = inspect.getmodule(layer_class)
    text = inspect.getsource(layer_class)
    parts = [part for name, part in vars(module).items() if inspect.isclass(part) and f"{name}(" in text]
    parts = [part for part in parts if part is not layer_class and inspect.getmodule(part) is module]
    return text + "".join(map(inspect.getsource, parts))


@cache
def with_mistake(layer_class, mistake):
    """The class with a row's mistake, as are the classes of its module that it makes.

    Errors: ValueError if there's nothing in their text to replace.
    """
    if mistake not in mistakes_of(layer_class):
        raise ValueError(f"{layer_class.__name__} has no text that a layer that {mistake.name} would replace")
    module = inspect.getmodule(layer_class)
    text = inspect.getsource(module)
    for old, new in mistake.edits:
        text = text.replace(old, new)
    names = {"__name__": f"{module.__name__} that {mistake.name}"}
    exec(compile(text, f"<{names['__name__']}>", "exec"), names)
    return names[layer_class.__name__]

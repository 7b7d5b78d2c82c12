"""Exercises of notebook 06: cut into heads, merge again, and write the complete class."""

import torch
from torch import nn

from .base import Exercise, Progress, Seen, exercises_in, normal


def split_heads(x, num_heads):
    """(b, num_tokens, d_out) -> (b, num_heads, num_tokens, head_dim)."""
    b, num_tokens, d_out = x.shape
    if d_out % num_heads:
        raise ValueError(f"num_heads={num_heads} must divide d_out={d_out}")
    by_token = x.view(b, num_tokens, num_heads, d_out // num_heads)
    return by_token.transpose(1, 2)


def to_split(generator):
    sizes = [(2, 3, 6, 2), (1, 5, 4, 4), (3, 1, 10, 2), (2, 4, 12, 3), (1, 2, 5, 1), (1, 3, 6, 4), (2, 2, 2, 4)]
    return [(torch.randn(b, n, d_out, generator=generator), num_heads) for b, n, d_out, num_heads in sizes]


def or_torchs_refusal(answer, x, num_heads):
    """The answer's result, or, if num_heads doesn't divide and it's torch that refuses, what's missing."""
    try:
        return answer(x, num_heads)
    except RuntimeError:
        if x.shape[2] % num_heads == 0:
            raise
        note = f"With d_out={x.shape[2]} and num_heads={num_heads}, torch refuses."
        return Seen(None, f"{note} Check that before, so that a `ValueError` can name the two numbers.")


splitting = Exercise(
    title="Split into heads",
    prompt="Cut `x` into heads. The first head gets the first head_dim numbers of each token, the second head the next "
    "ones, and so on. If num_heads doesn't divide d_out, raise a `ValueError` that says so.",
    solution=split_heads,
    cases=to_split,
    call=or_torchs_refusal,
    mistakes={
        ("by_token.transpose(1, 2)", "x.view(b, num_heads, num_tokens, -1)"): "The shape is right, but the numbers "
        "aren't. `view` keeps their order, so your first head gets all of the first tokens, not a part of every token. "
        "Which dimension should you cut first, before you move the heads to the front?",
        ("num_heads, d_out // num_heads)", "d_out // num_heads, num_heads)"): "You cut each token into head_dim parts "
        "of num_heads numbers. Which of the two should be the number of parts?",
        ("by_token.transpose(1, 2)", "x.unflatten(2, (-1, num_heads)).movedim(3, 1)"): "The shape is right, but your "
        "heads take turns, one number each. Where should the second number of each token go, to the first head or to "
        "the second?",
        (".transpose(1, 2)", ""): "The cut is right: (b, num_tokens, num_heads, head_dim). But each head needs a "
        "matrix of its own in the last two dimensions. Which two dimensions still have to change places?",
        ("x.view", "x.mT.reshape"): "You swap tokens and numbers before you cut, so a head mixes the numbers of "
        "several tokens. What should be cut?",
        ("transpose(1, 2)", "permute(2, 0, 1, 3)"): "Your heads come before the batch. Which dimension stays first?",
    },
    heading="06#The-cut",
    hints={
        "by_token": "`view` cuts one dimension into two. After that, the shape should be (b, num_tokens, num_heads, "
        "head_dim).",
        "result": "`transpose` swaps two dimensions, the tokens and the heads.",
    },
    why="`view` keeps each token's numbers together, and the transpose then swaps tokens and heads.",
    moral="`@` can now treat each head separately. `view` and `transpose` copy nothing for that.",
)


def merge_heads(context):
    """(b, num_heads, num_tokens, head_dim) -> (b, num_tokens, d_out)."""
    b, num_heads, num_tokens, head_dim = context.shape
    by_token = context.transpose(1, 2)
    return by_token.reshape(b, num_tokens, num_heads * head_dim)


def to_merge(generator):
    """In memory order, as a product of weights and values returns it, and in two other orders."""
    shapes = [(2, 2, 3, 4), (1, 3, 5, 1), (3, 1, 2, 4), (1, 4, 1, 3), (2, 3, 4, 2)]
    whole = [(torch.randn(shape, generator=generator),) for shape in shapes]
    turned = torch.randn(2, 5, 3, 2, generator=generator).transpose(1, 2)
    every_other = torch.randn(2, 3, 4, 6, generator=generator)[..., ::2]
    return [*whole, (turned,), (every_other,)]


merging = Exercise(
    title="And back",
    prompt="Put each token's context vectors side by side, head after head.",
    solution=merge_heads,
    cases=to_merge,
    mistakes={
        (".transpose(1, 2)", ""): "The shape is right, but you read all of the first head before the second, so a row "
        "gets the numbers of several tokens. In which order should the dimensions be before you join two of them?",
        ("transpose(1, 2)", "permute(0, 2, 3, 1)"): "Your heads take turns, one number each. Where should the last "
        "number of the first head be, compared with the first number of the second?",
        ("return by_token", "return context.sum(dim=1)  #"): "You add the heads up. How wide is a row with all heads "
        "side by side?",
        ("transpose(1, 2)", "transpose(2, 3)"): "You swap tokens and a head's numbers. Which two should change places?",
        ("return by_token", "return context.mean(dim=1)  #"): "You average the heads. How wide is a row with all heads "
        "side by side?",
        ("context.transpose(1, 2)", "context.flip(1).transpose(1, 2)"): "Your heads are in reverse order. Whose should "
        "come first?",
    },
    heading="06#Back-to-one-row-per-token",
    hints={
        "by_token": "Undo the two steps of *Split into heads*. First make the shape (b, num_tokens, num_heads, "
        "head_dim).",
        "result": "Join the last two dimensions. After a transpose, `view` won't always work. What will?",
    },
    why="After the transpose, the last two dimensions are the heads and the numbers within a head, and `reshape` joins "
    "them in that order.",
    moral="If you split a tensor into heads and merge it again, you get the same tensor back.",
)


class MultiHeadCausalAttention(nn.Module):
    """x: (b, num_tokens, d_in) -> (b, num_tokens, d_out)."""

    def __init__(self, d_in, d_out, context_length, num_heads, qkv_bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        future = torch.ones(context_length, context_length).triu(diagonal=1)
        self.register_buffer("mask", future.bool())

    def split_heads(self, x):
        b, num_tokens, d_out = x.shape
        x = x.view(b, num_tokens, self.num_heads, self.head_dim)
        return x.transpose(1, 2)  # (b, num_heads, num_tokens, head_dim)

    def forward(self, x):
        b, num_tokens, _ = x.shape
        queries = self.split_heads(self.W_query(x))
        keys = self.split_heads(self.W_key(x))
        values = self.split_heads(self.W_value(x))
        # (b, num_heads, num_tokens, num_tokens)
        scores = queries @ keys.mT / keys.shape[-1] ** 0.5
        future = self.mask[:num_tokens, :num_tokens]
        scores = scores.masked_fill(future, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        # (b, num_heads, num_tokens, head_dim)
        context = weights @ values
        context = context.transpose(1, 2)
        context = context.reshape(b, num_tokens, -1)
        return self.out_proj(context)


EMPTY = '''
class MultiHeadCausalAttention(nn.Module):
    """x: (b, num_tokens, d_in) -> (b, num_tokens, d_out).

    Attributes: nn.Linear W_query, W_key, W_value, out_proj; and num_heads.
    """

    def __init__(self, d_in, d_out, context_length, num_heads, qkv_bias=False):
        super().__init__()
        ...  # your code

    def forward(self, x):
        return ...  # your code
'''


def from_nothing(generator):
    """Sizes for the constructor, the layers whose weights are given, and an input."""
    sizes = [(3, 8, 6, 2, False, 5), (6, 12, 5, 3, True, 5), (4, 12, 9, 4, True, 1), (2, 5, 8, 1, False, 7)]
    for d_in, d_out, context_length, num_heads, qkv_bias, num_tokens in sizes:
        given = {name: nn.Linear(d_in, d_out, qkv_bias) for name in ("W_query", "W_key", "W_value")}
        given["out_proj"] = nn.Linear(d_out, d_out)
        for parameter in nn.ModuleDict(given).parameters():
            nn.init.normal_(parameter, std=d_in**-0.5, generator=generator)
        yield (d_in, d_out, context_length, num_heads, qkv_bias), given, 3 * normal(generator, (4, num_tokens, d_in))[0]


def run_with(answer, sizes, given, x):
    """What a layer of these sizes returns for x, once it has the given layers' weights, name by name."""
    layer = answer(*sizes)
    for name, linear in given.items():
        own = getattr(layer, name, None)
        if repr(own) != repr(linear):
            found = own if own is None or isinstance(own, nn.Linear) else type(own).__name__
            return Seen(None, f"After `__init__`, `self.{name}` should be {linear}, and is {found}.")
        own.load_state_dict(linear.state_dict())
    return layer(x)


from_an_empty_cell = Exercise(
    imports="from torch import nn",
    title="Multi-head attention from an empty cell",
    prompt="Write the complete class: causal attention with several heads and `out_proj`, but without dropout and "
    "without checks of the sizes. `qkv_bias` says whether `W_query`, `W_key` and `W_value` have a bias.",
    solution=MultiHeadCausalAttention,
    cases=from_nothing,
    call=run_with,
    stub=EMPTY,
    mistakes={
        (".triu(diagonal=1)", ".triu()"): "Your mask hides each token from itself, too, so the first row has nothing "
        "to look at and becomes NaN. At which diagonal does the future begin?",
    },
    heading="06#The-whole-class",
    hints={
        "queries": "The steps are, in this order: three projections, split, scores, scale, mask, softmax, context "
        "vectors, merge, `out_proj`.",
        "scores": "After the split, the shape is (b, num_heads, num_tokens, head_dim). Scale by the root of head_dim, "
        "then hide the future.",
        "weights": "Take the softmax over the last dimension.",
        "context": "Average the values, and put each token's heads side by side again.",
        "result": "`out_proj` comes last.",
    },
    why="Cutting comes before the scores, so that each head gets a softmax of its own, and `out_proj` comes last, "
    "because only there do the heads' results meet.",
    moral="Starting from an empty cell, you've built the attention layer of GPT-2, apart from its dropout.",
)

EXERCISES = exercises_in(globals())
progress = Progress(EXERCISES)

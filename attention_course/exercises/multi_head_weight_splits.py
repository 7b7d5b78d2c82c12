"""Exercises of notebook 06: cut into heads, merge again, and write the complete class."""
# After a change: make exercises, then make refresh NOTEBOOK="06 help"

import torch
from torch import nn

from .base import Exercise, Progress, normal


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
    """The answer's result, or, if num_heads doesn't divide and it's torch that refuses, a note of that."""
    try:
        return answer(x, num_heads)
    except RuntimeError:
        if x.shape[2] % num_heads == 0:
            raise
        return "torch refuses"


splitting = Exercise(
    name="splitting",
    title="Split into heads",
    prompt="Cut `x` into heads. The first head gets the first head_dim numbers of each token, the second head the next "
    "ones, and so on. If num_heads doesn't divide d_out, raise a `ValueError` that says so.",
    solution=split_heads,
    cases=to_split,
    call=or_torchs_refusal,
    mistakes={
        ("views straight into the last shape", "by_token.transpose(1, 2)", "x.view(b, num_heads, num_tokens, -1)"): """
            The shape is right, but the numbers aren't. `view` keeps their order, so your first head gets all of the
            first tokens, not a part of every token. Which dimension should you cut first, before you move the heads to
            the front?""",
        ("cuts into head_dim parts", "num_heads, d_out // num_heads)", "d_out // num_heads, num_heads)"): """
            You cut each token into head_dim parts of num_heads numbers. Which of the two should be the number of
            parts?""",
        ("lets the heads take turns", "by_token.transpose(1, 2)", "x.unflatten(2, (-1, num_heads)).movedim(3, 1)"): """
            The shape is right, but your heads take turns, one number each. Where should the second number of each token
            go, to the first head or to the second?""",
        ("leaves the tokens before the heads", ".transpose(1, 2)", ""): """
            The cut is right: (b, num_tokens, num_heads, head_dim). But each head needs a matrix of its own in the last
            two dimensions. Which two dimensions still have to change places?""",
        ("accepts any num_heads", "d_out % num_heads:", "False:"): """
            That's right if num_heads divides d_out. If it doesn't, PyTorch complains about a shape, and you're left
            guessing why. What could you check beforehand, so that a `ValueError` can name the two numbers?""",
    },
    hints=[
        "You need two steps. After the first, the shape should be (b, num_tokens, num_heads, head_dim).",
        "`view` cuts one dimension into two, and `transpose` swaps two dimensions. Before that, check whether `d_out % "
        "num_heads` is 0.",
    ],
    why="`view` keeps each token's numbers together, and the transpose then swaps tokens and heads.",
    moral="`view` and `transpose` copy nothing, and `@` now treats each head separately.",
)


def merge_heads(context):
    """(b, num_heads, num_tokens, head_dim) -> (b, num_tokens, d_out)."""
    b, num_heads, num_tokens, head_dim = context.shape
    return context.transpose(1, 2).reshape(b, num_tokens, num_heads * head_dim)


def to_merge(generator):
    """In memory order, as a product of weights and values returns it, and in two other orders."""
    shapes = [(2, 2, 3, 4), (1, 3, 5, 1), (3, 1, 2, 4), (1, 4, 1, 3), (2, 3, 4, 2)]
    whole = [(torch.randn(shape, generator=generator),) for shape in shapes]
    turned = torch.randn(2, 5, 3, 2, generator=generator).transpose(1, 2)
    every_other = torch.randn(2, 3, 4, 6, generator=generator)[..., ::2]
    return [*whole, (turned,), (every_other,)]


merging = Exercise(
    name="merging",
    title="And back",
    prompt="Put each token's context vectors side by side, head after head.",
    solution=merge_heads,
    cases=to_merge,
    mistakes={
        ("reshapes without transposing back", ".transpose(1, 2)", ""): """
            The shape is right, but you read all of the first head before the second, so a row gets the numbers of
            several tokens. In which order should the dimensions be before you join two of them?""",
        ("views without transposing back", "transpose(1, 2).reshape", "view"): """
            `view` reads all of the first head before the second, so a row gets the numbers of several tokens (and if
            they are in another order in memory, `view` refuses). In which order should the dimensions be before you
            join two of them?""",
        ("views what was only transposed", "reshape", "view"): """
            The order is right, but `view` never copies, and after the transpose the numbers of a token aren't next to
            each other in memory. Which method makes a copy if it has to?""",
        ("lets the heads take turns", "transpose(1, 2)", "permute(0, 2, 3, 1)"): """
            Your heads take turns, one number each. Where should the last number of the first head be, compared with the
            first number of the second?""",
        ("adds the heads up", "return context", "return context.sum(dim=1)  # context"): """
            You add the heads up. How wide should a row be if the heads are side by side?""",
    },
    hints=[
        "Undo the two steps of *Split into heads*. Which one comes first now?",
        "First make the shape (b, num_tokens, num_heads, head_dim). After that, `view` won't always work. What will?",
    ],
    why="After the transpose, the last two dimensions are the heads and the numbers within a head, and `reshape` joins "
    "them in that order.",
    moral="If you split a tensor into heads and merge it again, you get the same tensor back.",
)


class MultiHeadCausalAttention(nn.Module):
    """x: (b, num_tokens, d_in) -> (b, num_tokens, d_out)."""

    def __init__(self, d_in, d_out, context_length, num_heads, qkv_bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        future = torch.ones(context_length, context_length).triu(diagonal=1)
        self.register_buffer("mask", future.bool())

    def split_heads(self, x):
        b, num_tokens, d_out = x.shape
        x = x.view(b, num_tokens, self.num_heads, d_out // self.num_heads)
        return x.transpose(1, 2)  # (b, num_heads, num_tokens, head_dim)

    def forward(self, x):
        b, num_tokens, _ = x.shape
        queries = self.split_heads(self.W_query(x))
        keys = self.split_heads(self.W_key(x))
        values = self.split_heads(self.W_value(x))
        scores = queries @ keys.transpose(2, 3) / keys.shape[-1] ** 0.5
        future = self.mask[:num_tokens, :num_tokens]
        scores = scores.masked_fill(future, -torch.inf)
        # (b, num_heads, num_tokens, head_dim)
        context = torch.softmax(scores, dim=-1) @ values
        return self.out_proj(context.transpose(1, 2).reshape(b, num_tokens, -1))


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
    sizes = [(3, 8, 6, 2, False, 4), (6, 6, 5, 3, True, 5), (4, 12, 9, 4, True, 1), (2, 5, 8, 1, False, 7)]
    for d_in, d_out, context_length, num_heads, qkv_bias, num_tokens in sizes:
        given = {name: nn.Linear(d_in, d_out, qkv_bias) for name in ("W_query", "W_key", "W_value")}
        given["out_proj"] = nn.Linear(d_out, d_out)
        for parameter in nn.ModuleDict(given).parameters():
            nn.init.normal_(parameter, std=d_in**-0.5, generator=generator)
        yield (d_in, d_out, context_length, num_heads, qkv_bias), given, 3 * normal(generator, (2, num_tokens, d_in))[0]


def run_with(answer, sizes, given, x):
    """What a layer of these sizes returns for x, once it has the given layers' weights, name by name."""
    layer = answer(*sizes)
    for name, linear in given.items():
        own = getattr(layer, name, None)
        if repr(own) != repr(linear):
            raise TypeError(f"self.{name} must be {linear}, got {own}")
        own.load_state_dict(linear.state_dict())
    return layer(x)


from_an_empty_cell = Exercise(
    name="from_an_empty_cell",
    imports="from torch import nn",
    title="Multi-head attention from an empty cell",
    prompt="Write the complete class: causal attention with several heads and `out_proj`, but without dropout and "
    "without checks of the sizes. `qkv_bias` says whether `W_query`, `W_key` and `W_value` have a bias.",
    solution=MultiHeadCausalAttention,
    cases=from_nothing,
    call=run_with,
    stub=EMPTY,
    mistakes={
        ("scales by the root of d_out", "keys.shape[-1]", "self.out_proj.in_features"): """
            You scale by the root of d_out. But a dot product has only the terms of one head: how many are that?""",
        ("does not scale", " / keys.shape[-1] ** 0.5", ""): """
            Everything is there except the scale. What are the scores divided by before the softmax?""",
        ("lets the future leak", "scores = scores.masked_fill", "scores.masked_fill"): """
            The future leaks: your layer computes what a layer without a mask would. Is there a mask, and does anything
            use the result of `masked_fill`?""",
        ("hides each token from itself", ".triu(diagonal=1)", ".triu()"): """
            Your mask hides each token from itself, too, so the first row has nothing to look at and becomes NaN. At
            which diagonal does the future begin?""",
        ("uses the complete mask", "[:num_tokens, :num_tokens]", ""): """
            Your mask has the size of context_length, but an input can have fewer tokens. Which part of the mask do you
            need then?""",
        ("takes the softmax over the queries", "softmax(scores, dim=-1)", "softmax(scores, dim=-2)"): """
            Your columns sum to 1 instead of your rows. The weights of a query are in one row, so which dimension should
            the softmax go over?""",
        ("cuts heads by view alone", "x.transpose(1, 2)", "x.view(b, self.num_heads, num_tokens, -1)"): """
            You view straight into (b, num_heads, num_tokens, head_dim), so a head gets some tokens completely instead
            of a part of every token. Which dimension should you cut first?""",
        ("does not transpose back", "context.transpose(1, 2)", "context"): """
            Everything is right up to the heads' context vectors. Which dimensions have to change places before you join
            the last two?""",
        ("does not use out_proj", "return self.out_proj(", "return ("): """
            Your layer returns the heads side by side. Which step is left, the one that mixes them?""",
    },
    hints=[
        "The steps are, in this order: three projections, split, scores, scale, mask, softmax, context vectors, merge, "
        "`out_proj`.",
        "Write the shape next to each line. After the split it's (b, num_heads, num_tokens, head_dim). Scale by the "
        "root of head_dim, and take the softmax over the last dimension.",
    ],
    why="Cutting comes before the scores, so that each head gets a softmax of its own, and `out_proj` comes last, "
    "because only there do the heads' results meet.",
    moral="Starting from an empty cell, you've built the attention layer of GPT-2, apart from its dropout.",
)

EXERCISES = [splitting, merging, from_an_empty_cell]
progress = Progress(EXERCISES)

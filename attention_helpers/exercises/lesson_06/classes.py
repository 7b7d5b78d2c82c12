"""Two whole classes: one to repair, and one from an empty cell."""

import torch
from torch import nn

from ..base import Exercise, Misconception
from ..compare import difference
from . import wrong_repairs
from .same_weights import linears, run_with, torchs_own


class SplitAttention(nn.Module):
    """Causal attention of several heads: x (b, num_tokens, d_in) -> (b, num_tokens, d_out)."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out) for _ in range(3))

    def forward(self, x):
        wide = self.W_query(x), self.W_key(x), self.W_value(x)
        q, k, v = (w.view(*w.shape[:2], self.num_heads, -1).transpose(1, 2) for w in wide)
        scores = q @ k.transpose(2, 3) / k.shape[-1] ** 0.5
        hide = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hide, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        return (weights @ v).transpose(1, 2).flatten(2)


BROKEN = """
class SplitAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        assert d_out % num_heads = 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out) for _ in range(3))
    def forward(self, x):
        wide = self.W_query(x), self.W_key(x), self.W_value(x)
        q, k, v = (w.view(*w.shape[:2], self.num_heads, -1).transpose(1, 2) for w in wide)
        scores = q @ k.transpose(2, 3) / d_k**0.5
        hide = torch.ones_like(scores, dtype=torch.bool).triu(1
        scores.masked_fill(mask, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        weights = torch.softmax(weights.masked_fill(mask, -torch.inf), dim=-1)
        return (weights @ v).transpose(1, 2).flatten(2)
"""


def to_repair(generator):
    for d_in, d_out, num_heads in ((3, 6, 2), (4, 4, 4), (5, 12, 3), (6, 2, 1), (4, 6, 4)):  # the last does not divide
        given = linears(generator, d_in, d_out, True)
        del given["out_proj"]
        sizes = {"d_in": d_in, "d_out": d_out, "num_heads": num_heads}
        yield sizes, given, 3 * torch.randn(2, 5, d_in, generator=generator)


repair = Exercise(
    name="repair",
    title="Repair a class",
    prompt="This class does not even run, so it stands here as a text. Mend it, and run the cell after each step. "
    "Five faults: `=` where `==` belongs, a missing parenthesis, names that do not exist, a mask that is thrown away, "
    "and mask and softmax done twice. All else is right.",
    solution=SplitAttention,
    cases=lambda g: list(to_repair(g)),
    call=lambda answer, sizes, given, x: run_with(answer(**sizes), given, x),
    stub=BROKEN,
    as_text=True,
    misconceptions=[
        Misconception(
            "mends only what stops it",
            wrong_repairs.ONLY_WHAT_STOPS_IT,
            "It runs, but the softmax is taken twice, the first time with nothing hidden. That makes the weights "
            "too even. One mask that counts, then one softmax: which lines must change?",
        ),
        Misconception(
            "takes mask and softmax twice",
            wrong_repairs.MASK_AND_SOFTMAX_TWICE,
            "Nothing leaks, but the softmax is taken twice. Its results lie between 0 and 1, so the second one makes "
            "the weights too even. Once is enough.",
        ),
        Misconception(
            "takes the softmax twice, the mask once",
            wrong_repairs.SOFTMAX_TWICE_MASK_ONCE,
            "A second softmax follows, and to it a hidden token's 0 is a score like any other: the future leaks. One "
            "softmax is enough.",
        ),
        Misconception(
            "throws the mask away",
            wrong_repairs.MASK_THROWN_AWAY,
            "The doubled line is gone, and now the future leaks: `masked_fill` returns a new tensor, and yours is used "
            "by nobody. Who should get it?",
        ),
        Misconception(
            "hides after the softmax",
            wrong_repairs.HIDDEN_AFTER_THE_SOFTMAX,
            "You set the future's weights to 0 after the softmax, so the rows no longer sum to 1. Hide the scores "
            "before it, and the softmax shares out the rest.",
        ),
        Misconception(
            "leaves the scale out",
            wrong_repairs.WITHOUT_SCALE,
            "`d_k` has no value here, but it is needed: without the division the softmax is too sharp. It is the "
            "width of a key. Which tensor knows that?",
        ),
        Misconception(
            "scales by the width of the input",
            wrong_repairs.SCALED_BY_THE_WIDTH_OF_THE_INPUT,
            "You scale by the width of `x`. `d_k` is that of one head's key: the number of terms in a dot product.",
        ),
        Misconception(
            "scales by the width of all heads",
            wrong_repairs.SCALED_BY_THE_WIDTH_OF_ALL_HEADS,
            "You scale by d_out, the width of all heads together. Each dot product has the terms of one head only.",
        ),
    ],
    hints=[
        "Run the cell: the answer names the line that Python cannot read, then the next one that stops.",
        "`d_k` is the width of a key: which dimension of `k` is that? The mask has a name already. A result that "
        "nobody uses does nothing; what is done twice, do once.",
        "`== 0`; `triu(1)`; `k.shape[-1]`; `hide` for `mask`; `scores = scores.masked_fill(...)`; and without the "
        "line that masks the weights and takes their softmax again.",
    ],
    why="`=` assigns, `==` compares, and a parenthesis that stays open swallows the next line: Python tells. An "
    "unknown name is noticed only when its line runs. The last two faults nobody reports: `masked_fill` without an "
    "underscore returns a new tensor, and a softmax of weights is a softmax, though an evener one.",
    moral="The last two faults raise no error, so it takes a check like this one, or a trace, to see them.",
)


class MultiHeadCausalAttention(nn.Module):
    """x: (b, num_tokens, d_in) -> (b, num_tokens, d_out); num_tokens up to context_length."""

    def __init__(self, d_in, d_out, context_length, num_heads, qkv_bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        hide = torch.ones(context_length, context_length, dtype=torch.bool).triu(1)
        self.register_buffer("mask", hide)

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
        scores = scores.masked_fill(self.mask[:num_tokens, :num_tokens], -torch.inf)
        context = torch.softmax(scores, dim=-1) @ values  # (b, num_heads, num_tokens, head_dim)
        return self.out_proj(context.transpose(1, 2).reshape(b, num_tokens, -1))


EMPTY = '''
class MultiHeadCausalAttention(nn.Module):
    """x: (b, num_tokens, d_in) -> (b, num_tokens, d_out); num_tokens up to context_length.

    Attributes: W_query, W_key, W_value and out_proj, each an nn.Linear; and num_heads.
    """

    def __init__(self, d_in, d_out, context_length, num_heads, qkv_bias=False):
        super().__init__()
        ...  # your code

    def forward(self, x):
        return ...  # your code
'''


class ScalesByTheRootOfDOut(MultiHeadCausalAttention):
    def forward(self, x):
        b, num_tokens, _ = x.shape
        queries = self.split_heads(self.W_query(x))
        keys = self.split_heads(self.W_key(x))
        values = self.split_heads(self.W_value(x))
        scores = queries @ keys.transpose(2, 3) / self.out_proj.in_features**0.5
        scores = scores.masked_fill(self.mask[:num_tokens, :num_tokens], -torch.inf)
        context = torch.softmax(scores, dim=-1) @ values
        return self.out_proj(context.transpose(1, 2).reshape(b, num_tokens, -1))


class DoesNotScale(MultiHeadCausalAttention):
    def forward(self, x):
        b, num_tokens, _ = x.shape
        queries = self.split_heads(self.W_query(x))
        keys = self.split_heads(self.W_key(x))
        values = self.split_heads(self.W_value(x))
        scores = queries @ keys.transpose(2, 3)
        scores = scores.masked_fill(self.mask[:num_tokens, :num_tokens], -torch.inf)
        context = torch.softmax(scores, dim=-1) @ values
        return self.out_proj(context.transpose(1, 2).reshape(b, num_tokens, -1))


class LetsTheFutureLeak(MultiHeadCausalAttention):
    def forward(self, x):
        b, num_tokens, _ = x.shape
        queries = self.split_heads(self.W_query(x))
        keys = self.split_heads(self.W_key(x))
        values = self.split_heads(self.W_value(x))
        scores = queries @ keys.transpose(2, 3) / keys.shape[-1] ** 0.5
        scores.masked_fill(self.mask[:num_tokens, :num_tokens], -torch.inf)
        context = torch.softmax(scores, dim=-1) @ values
        return self.out_proj(context.transpose(1, 2).reshape(b, num_tokens, -1))


class FillsWith0(MultiHeadCausalAttention):
    def forward(self, x):
        b, num_tokens, _ = x.shape
        queries = self.split_heads(self.W_query(x))
        keys = self.split_heads(self.W_key(x))
        values = self.split_heads(self.W_value(x))
        scores = queries @ keys.transpose(2, 3) / keys.shape[-1] ** 0.5
        scores = scores.masked_fill(self.mask[:num_tokens, :num_tokens], 0)
        context = torch.softmax(scores, dim=-1) @ values
        return self.out_proj(context.transpose(1, 2).reshape(b, num_tokens, -1))


class HidesWhatShouldBeSeen(MultiHeadCausalAttention):
    def __init__(self, d_in, d_out, context_length, num_heads, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, num_heads, qkv_bias)
        self.mask = torch.ones(context_length, context_length, dtype=torch.bool).tril()


class WorksWithOneWideHead(MultiHeadCausalAttention):
    def split_heads(self, x):
        return x[:, None]  # (b, 1, num_tokens, d_out)


class UsesTheWholeMask(MultiHeadCausalAttention):
    def forward(self, x):
        b, num_tokens, _ = x.shape
        queries = self.split_heads(self.W_query(x))
        keys = self.split_heads(self.W_key(x))
        values = self.split_heads(self.W_value(x))
        scores = queries @ keys.transpose(2, 3) / keys.shape[-1] ** 0.5
        scores = scores.masked_fill(self.mask, -torch.inf)
        context = torch.softmax(scores, dim=-1) @ values
        return self.out_proj(context.transpose(1, 2).reshape(b, num_tokens, -1))


class TakesTheSoftmaxOverTheQueries(MultiHeadCausalAttention):
    def forward(self, x):
        b, num_tokens, _ = x.shape
        queries = self.split_heads(self.W_query(x))
        keys = self.split_heads(self.W_key(x))
        values = self.split_heads(self.W_value(x))
        scores = queries @ keys.transpose(2, 3) / keys.shape[-1] ** 0.5
        scores = scores.masked_fill(self.mask[:num_tokens, :num_tokens], -torch.inf)
        context = torch.softmax(scores, dim=-2) @ values
        return self.out_proj(context.transpose(1, 2).reshape(b, num_tokens, -1))


class TakesTheSoftmaxOverTheHeads(MultiHeadCausalAttention):
    def forward(self, x):
        b, num_tokens, _ = x.shape
        queries = self.split_heads(self.W_query(x))
        keys = self.split_heads(self.W_key(x))
        values = self.split_heads(self.W_value(x))
        scores = queries @ keys.transpose(2, 3) / keys.shape[-1] ** 0.5
        scores = scores.masked_fill(self.mask[:num_tokens, :num_tokens], -torch.inf)
        context = torch.softmax(scores, dim=1) @ values
        return self.out_proj(context.transpose(1, 2).reshape(b, num_tokens, -1))


class CutsHeadsByViewAlone(MultiHeadCausalAttention):
    def split_heads(self, x):
        b, num_tokens, d_out = x.shape
        return x.view(b, self.num_heads, num_tokens, d_out // self.num_heads)


class DoesNotTransposeBack(MultiHeadCausalAttention):
    def forward(self, x):
        b, num_tokens, _ = x.shape
        queries = self.split_heads(self.W_query(x))
        keys = self.split_heads(self.W_key(x))
        values = self.split_heads(self.W_value(x))
        scores = queries @ keys.transpose(2, 3) / keys.shape[-1] ** 0.5
        scores = scores.masked_fill(self.mask[:num_tokens, :num_tokens], -torch.inf)
        context = torch.softmax(scores, dim=-1) @ values
        return self.out_proj(context.reshape(b, num_tokens, -1))


class DoesNotUseOutProj(MultiHeadCausalAttention):
    def forward(self, x):
        b, num_tokens, _ = x.shape
        queries = self.split_heads(self.W_query(x))
        keys = self.split_heads(self.W_key(x))
        values = self.split_heads(self.W_value(x))
        scores = queries @ keys.transpose(2, 3) / keys.shape[-1] ** 0.5
        scores = scores.masked_fill(self.mask[:num_tokens, :num_tokens], -torch.inf)
        context = torch.softmax(scores, dim=-1) @ values
        return context.transpose(1, 2).reshape(b, num_tokens, -1)


def beside_torchs(answer, sizes, given, x):
    layer = answer(**sizes)
    output = run_with(layer, given, x)
    theirs = torchs_own(layer.num_heads, given, x)
    return {"output": output, "being equal to torch's": not difference(theirs, output, 1e-5)}


def from_nothing(generator):
    """Sizes for the constructor, the layers whose weights are given, and an input."""
    bias, no_bias = {"qkv_bias": True}, {"qkv_bias": False}
    sizes = [(3, 8, 6, 2, 4, {}), (6, 6, 5, 3, 5, bias), (4, 12, 9, 4, 1, bias), (2, 5, 8, 1, 7, no_bias)]
    for d_in, d_out, context_length, num_heads, num_tokens, more in sizes:
        names = {"d_in": d_in, "d_out": d_out, "context_length": context_length, "num_heads": num_heads}
        given = linears(generator, d_in, d_out, more is bias)
        yield names | more, given, 3 * torch.randn(2, num_tokens, d_in, generator=generator)


from_an_empty_cell = Exercise(
    name="from_an_empty_cell",
    title="Multi-head attention from an empty cell",
    prompt="Write the whole class: causal attention of several heads, with `out_proj` after them, without dropout. "
    "`qkv_bias` says whether `W_query`, `W_key` and `W_value` have a bias. The check gives your layer weights and "
    "compares it with `torch.nn.MultiheadAttention`, on sizes that you have not seen; num_heads divides d_out.",
    solution=MultiHeadCausalAttention,
    cases=lambda g: list(from_nothing(g)),
    call=beside_torchs,
    stub=EMPTY,
    misconceptions=[
        Misconception(
            "scales by the root of d_out",
            ScalesByTheRootOfDOut,
            "You scale by the root of d_out. A dot product has only the terms of one head: how wide is that?",
        ),
        Misconception(
            "does not scale",
            DoesNotScale,
            "Everything is there but the scale. What are the scores divided by before the softmax?",
        ),
        Misconception(
            "lets the future leak",
            LetsTheFutureLeak,
            "Your layer is right for a layer without a mask: the future leaks. Either there is none, or the result of "
            "`masked_fill` is thrown away.",
        ),
        Misconception(
            "fills with 0",
            FillsWith0,
            "You give the future a score of 0: to the softmax a score like any other. Which score gets the weight 0?",
        ),
        Misconception(
            "hides what should be seen",
            HidesWhatShouldBeSeen,
            "Your mask hides the past and the token itself, and the last token has nothing left to look at: NaN. "
            "`masked_fill` hides where the mask is True.",
        ),
        Misconception(
            "works with one wide head",
            WorksWithOneWideHead,
            "You never cut into heads: these are the numbers of one head, d_out wide. Each head has its own softmax.",
        ),
        Misconception(
            "uses the whole mask",
            UsesTheWholeMask,
            "Your mask is as large as context_length, and an input may be shorter: cut it to num_tokens, both ways.",
        ),
        Misconception(
            "takes the softmax over the queries",
            TakesTheSoftmaxOverTheQueries,
            "Your columns sum to 1. The weights of a query stand in a row: softmax goes over the last dimension.",
        ),
        Misconception(
            "takes the softmax over the heads",
            TakesTheSoftmaxOverTheHeads,
            "With several heads, dimension 1 of the scores counts the heads. Softmax goes over the last dimension.",
        ),
        Misconception(
            "cuts heads by view alone",
            CutsHeadsByViewAlone,
            "You view straight into (b, num_heads, num_tokens, head_dim), and the heads get each other's tokens. Cut "
            "the last dimension first, then transpose.",
        ),
        Misconception(
            "does not transpose back",
            DoesNotTransposeBack,
            "All is right up to the heads' context vectors. Before the last two dimensions are joined, the tokens must "
            "come before the heads again.",
        ),
        Misconception(
            "does not use out_proj",
            DoesNotUseOutProj,
            "Your layer returns the heads side by side. One step is left, which mixes them: `out_proj`.",
        ),
    ],
    hints=[
        "In this order: three projections, split, scores, scale, mask, softmax, contexts, merge, `out_proj`. You wrote "
        "split and merge in the first two exercises.",
        "Note the shape after each line. Split: (b, num_heads, num_tokens, head_dim); scores: (b, num_heads, "
        "num_tokens, num_tokens). The scale belongs to head_dim, the softmax to the last dimension.",
        "`scores = queries @ keys.transpose(2, 3) / keys.shape[-1] ** 0.5`, then `masked_fill` with "
        "`torch.ones(n, n, dtype=torch.bool).triu(1)`, `torch.softmax(..., dim=-1) @ values`, and "
        "`self.out_proj(context.transpose(1, 2).reshape(b, num_tokens, -1))`.",
    ],
    why="It is the lesson's class without dropout. The check copies the same weights into "
    "`torch.nn.MultiheadAttention`, which knows only inputs as wide as its output: where d_in is smaller, zeros fill "
    "the rest of input and matrices, and change no product.",
    moral="You have built, from an empty cell, what `torch.nn.MultiheadAttention` computes.",
)

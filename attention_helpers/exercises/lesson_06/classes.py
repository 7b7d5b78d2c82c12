"""Two whole classes: one to repair, and one from an empty cell."""

import inspect

import torch
from torch import nn
from torch.nn.functional import pad

from ...core import causal_mask
from ..base import Exercise, Misconception
from ..compare import difference
from ..running import compiled


def linears(generator, d_in, d_out, qkv_bias):
    """The four layers of attention, by name, with random weights, the smaller the more inputs they add up."""
    layers = nn.ModuleDict({name: nn.Linear(d_in, d_out, qkv_bias) for name in ("W_query", "W_key", "W_value")})
    layers["out_proj"] = nn.Linear(d_out, d_out)
    for layer in layers.values():
        for parameter in layer.parameters():
            nn.init.normal_(parameter, std=layer.in_features**-0.5, generator=generator)
    return layers


def run_with(layer, given, x):
    """layer(x), once the layer has the given layers' weights, name by name."""
    for name, linear in given.items():
        own = getattr(layer, name, None)
        if repr(own) != repr(linear):
            raise TypeError(f"self.{name} must be {linear}, got {own}")
        own.load_state_dict(linear.state_dict())
    return layer(x)


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
THROWN_AWAY = "scores.masked_fill(mask, -torch.inf)"
AGAIN = "weights = torch.softmax(weights.masked_fill(mask, -torch.inf), dim=-1)"


def mended(fill="scores = scores.masked_fill(mask, -torch.inf)", again="", scale="/ k.shape[-1]**0.5"):
    """The broken text, mended in each place but those given: the first masking, the second pair, the scale."""
    text = BROKEN.replace(AGAIN, again).replace(f" {THROWN_AWAY}", f" {fill}").replace("/ d_k**0.5", scale)
    return text.replace(" = 0,", " == 0,").replace("triu(1\n", "triu(1)\n").replace("mask,", "hide,")


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
            mended(THROWN_AWAY, AGAIN),
            "It runs, but the softmax is taken twice, the first time with nothing hidden. That makes the weights "
            "too even. One mask that counts, then one softmax: which lines must change?",
        ),
        Misconception(
            "takes mask and softmax twice",
            mended(again=AGAIN),
            "Nothing leaks, but the softmax is taken twice. Its results lie between 0 and 1, so the second one makes "
            "the weights too even. Once is enough.",
        ),
        Misconception(
            "takes the softmax twice, the mask once",
            mended(again="weights = torch.softmax(weights, dim=-1)"),
            "A second softmax follows, and to it a hidden token's 0 is a score like any other: the future leaks. One "
            "softmax is enough.",
        ),
        Misconception(
            "throws the mask away",
            mended(THROWN_AWAY),
            "The doubled line is gone, and now the future leaks: `masked_fill` returns a new tensor, and yours is used "
            "by nobody. Who should get it?",
        ),
        Misconception(
            "hides after the softmax",
            mended(THROWN_AWAY, "weights = weights.masked_fill(hide, 0)"),
            "You set the future's weights to 0 after the softmax, so the rows no longer sum to 1. Hide the scores "
            "before it, and the softmax shares out the rest.",
        ),
        Misconception(
            "leaves the scale out",
            mended(scale=""),
            "`d_k` has no value here, but it is needed: without the division the softmax is too sharp. It is the "
            "width of a key. Which tensor knows that?",
        ),
        Misconception(
            "scales by the width of the input",
            mended(scale="/ x.shape[-1]**0.5"),
            "You scale by the width of `x`. `d_k` is that of one head's key: the number of terms in a dot product.",
        ),
        Misconception(
            "scales by the width of all heads",
            mended(scale="/ wide[1].shape[-1]**0.5"),
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


def with_mistake(right, wrong):
    """The class with one piece of its text exchanged."""
    text = inspect.getsource(MultiHeadCausalAttention).replace(right, wrong)
    return compiled(text, "MultiHeadCausalAttention")


def torchs_own(num_heads, given, x):
    """What torch.nn.MultiheadAttention makes of the same weights. It knows no d_in but d_out: zeros widen the input."""
    d_in, d_out = given["W_query"].in_features, given["W_query"].out_features
    own, wide = nn.MultiheadAttention(d_out, num_heads, batch_first=True), pad(x, (0, d_out - d_in))
    three = [given[name] for name in ("W_query", "W_key", "W_value")]
    with torch.no_grad():
        own.in_proj_weight.copy_(pad(torch.cat([linear.weight for linear in three]), (0, d_out - d_in)))
        if three[0].bias is not None:
            own.in_proj_bias.copy_(torch.cat([linear.bias for linear in three]))  # zeros otherwise
        own.out_proj.load_state_dict(given["out_proj"].state_dict())
    return own(wide, wide, wide, attn_mask=causal_mask(x.shape[1]), need_weights=False)[0]


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
            with_mistake("keys.shape[-1] ** 0.5", "self.out_proj.in_features ** 0.5"),
            "You scale by the root of d_out. A dot product has only the terms of one head: how wide is that?",
        ),
        Misconception(
            "does not scale",
            with_mistake(" / keys.shape[-1] ** 0.5", ""),
            "Everything is there but the scale. What are the scores divided by before the softmax?",
        ),
        Misconception(
            "lets the future leak",
            with_mistake("scores = scores.masked_fill(", "scores.masked_fill("),
            "Your layer is right for a layer without a mask: the future leaks. Either there is none, or the result of "
            "`masked_fill` is thrown away.",
        ),
        Misconception(
            "fills with 0",
            with_mistake("-torch.inf", "0"),
            "You give the future a score of 0: to the softmax a score like any other. Which score gets the weight 0?",
        ),
        Misconception(
            "hides what should be seen",
            with_mistake(".triu(1)", ".tril()"),
            "Your mask hides the past and the token itself, and the last token has nothing left to look at: NaN. "
            "`masked_fill` hides where the mask is True.",
        ),
        Misconception(
            "works with one wide head",
            with_mistake("x.view(b, num_tokens, self.num_heads, d_out // self.num_heads)", "x[:, :, None]"),
            "You never cut into heads: these are the numbers of one head, d_out wide. Each head has its own softmax.",
        ),
        Misconception(
            "uses the whole mask",
            with_mistake("self.mask[:num_tokens, :num_tokens]", "self.mask"),
            "Your mask is as large as context_length, and an input may be shorter: cut it to num_tokens, both ways.",
        ),
        Misconception(
            "takes the softmax over the queries",
            with_mistake("dim=-1) @ values", "dim=-2) @ values"),
            "Your columns sum to 1. The weights of a query stand in a row: softmax goes over the last dimension.",
        ),
        Misconception(
            "takes the softmax over the heads",
            with_mistake("dim=-1) @ values", "dim=1) @ values"),
            "With several heads, dimension 1 of the scores counts the heads. Softmax goes over the last dimension.",
        ),
        Misconception(
            "cuts heads by view alone",
            with_mistake(
                "b, num_tokens, self.num_heads, d_out // self.num_heads)\n        return x.transpose(1, 2)",
                "b, self.num_heads, num_tokens, d_out // self.num_heads)\n        return x",
            ),
            "You view straight into (b, num_heads, num_tokens, head_dim), and the heads get each other's tokens. Cut "
            "the last dimension first, then transpose.",
        ),
        Misconception(
            "does not transpose back",
            with_mistake("context.transpose(1, 2).reshape", "context.reshape"),
            "All is right up to the heads' context vectors. Before the last two dimensions are joined, the tokens must "
            "come before the heads again.",
        ),
        Misconception(
            "does not use out_proj",
            with_mistake("self.out_proj(context", "(context"),
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

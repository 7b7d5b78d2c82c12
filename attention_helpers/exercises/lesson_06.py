"""Exercises of notebook 06: cut into heads, merge again, copy weights over, count them, and write the whole class."""

import torch
from torch import nn
from torch.nn.functional import pad

from ..core import causal_mask
from ..layers import MultiHeadAttention, MultiHeadAttentionWrapper
from .base import Exercise, Progress
from .compare import difference


def split_heads(x, num_heads):
    """(b, num_tokens, d_out) -> (b, num_heads, num_tokens, head_dim), or a ValueError."""
    b, num_tokens, d_out = x.shape
    if d_out % num_heads:
        raise ValueError(f"num_heads must divide d_out = {d_out}, got {num_heads}")
    by_token = x.view(b, num_tokens, num_heads, d_out // num_heads)
    return by_token.transpose(1, 2)


def to_split(generator):
    sizes = [(2, 3, 6, 2), (1, 5, 4, 4), (3, 1, 10, 2), (2, 4, 12, 3), (1, 2, 5, 1), (1, 3, 6, 4), (2, 2, 2, 4)]
    return [(torch.randn(b, n, d_out, generator=generator), num_heads) for b, n, d_out, num_heads in sizes]


def or_torchs_refusal(answer, x, num_heads):
    """The answer's result; where num_heads does not divide and torch is what refuses, that, in whichever words."""
    try:
        return answer(x, num_heads)
    except RuntimeError:
        if x.shape[2] % num_heads == 0:
            raise
        return "torch refuses"


STRAIGHT = (
    "The shape is right, and the numbers are not: `view` deals them out token by token, so a head does not get its "
    "part of every token. First cut the last dimension alone, then bring the heads forward."
)

splitting = Exercise(
    name="splitting",
    title="Split into heads",
    prompt="Cut `x`, (b, num_tokens, d_out), into heads: (b, num_heads, num_tokens, head_dim). The first head "
    "gets the first head_dim numbers of each token, the second head the next, and so on. Where num_heads does not "
    "divide d_out, raise a `ValueError` that says so.",
    solution=split_heads,
    cases=to_split,
    call=or_torchs_refusal,
    mistakes=[
        (
            "views straight into the last shape",
            "by_token.transpose(1, 2)",
            "x.view(b, num_heads, num_tokens, d_out // num_heads)",
            STRAIGHT,
        ),
        (
            "does so, and takes any num_heads",
            "if d_out % num_heads:",
            "return x.view(b, num_heads, num_tokens, d_out // num_heads)\n    if d_out % num_heads:",
            f"{STRAIGHT} And a num_heads that does not divide is still to be refused.",
        ),
        (
            "cuts into head_dim parts",
            "num_heads, d_out // num_heads)",
            "d_out // num_heads, num_heads)",
            "You cut into head_dim parts of num_heads numbers each. It is to be num_heads parts, head_dim wide.",
        ),
        (
            "leaves the tokens before the heads",
            ".transpose(1, 2)",
            "",
            "The cut is right: (b, num_tokens, num_heads, head_dim). Now each head needs a table of its own, so two "
            "dimensions still have to change places.",
        ),
        (
            "takes any num_heads",
            "d_out % num_heads:",
            "False:",
            "Right where num_heads divides d_out. Where it does not, torch complains about a shape, and one must guess "
            "why: check first, and raise a `ValueError` that names the two numbers.",
        ),
    ],
    hints=[
        "Two steps, and between them the shape is (b, num_tokens, num_heads, head_dim).",
        "`view` cuts a dimension in two, `transpose` swaps two. Where num_heads divides, `d_out % num_heads` is 0.",
        "After the check: `x.view(b, num_tokens, num_heads, d_out // num_heads).transpose(1, 2)`.",
    ],
    why="`view` keeps the order of the numbers, so cutting only the last dimension leaves each token's numbers "
    "together: the first head_dim are head 0's. The transpose then swaps tokens and heads, and moves nothing.",
    moral="`@` now treats the heads one by one, and `view` and `transpose` have copied no number for it.",
)


def merge_heads(context):
    """(b, num_heads, num_tokens, head_dim) -> (b, num_tokens, num_heads * head_dim)."""
    b, num_heads, num_tokens, head_dim = context.shape
    return context.transpose(1, 2).reshape(b, num_tokens, num_heads * head_dim)


def to_merge(generator):
    """In memory order, as a product of weights and values leaves it, and in two other orders."""
    shapes = [(2, 2, 3, 4), (1, 3, 5, 1), (3, 1, 2, 4), (1, 4, 1, 3), (2, 3, 4, 2)]
    whole = [(torch.randn(shape, generator=generator),) for shape in shapes]
    turned = torch.randn(2, 5, 3, 2, generator=generator).transpose(1, 2)
    every_other = torch.randn(2, 3, 4, 6, generator=generator)[..., ::2]
    return [*whole, (turned,), (every_other,)]


merging = Exercise(
    name="merging",
    title="And back",
    prompt="Put the heads' context vectors, (b, num_heads, num_tokens, head_dim), side by side again, head after head: "
    "(b, num_tokens, d_out). `context` may lie in memory in any order. Leave it as it is.",
    solution=merge_heads,
    cases=to_merge,
    mistakes=[
        (
            "reshapes without transposing back",
            ".transpose(1, 2)",
            "",
            "The shape is right, but all of head 0 is read before head 1, so a row gets numbers of several tokens. "
            "Bring the dimensions back into the order of the result first.",
        ),
        (
            "views without transposing back",
            "transpose(1, 2).reshape",
            "view",
            "`view` reads all of head 0 before head 1, so a row gets numbers of several tokens; and what does not lie "
            "in memory in that order it refuses. Bring the dimensions back into the order of the result first.",
        ),
        (
            "views what was only transposed",
            "reshape",
            "view",
            "The order is right, but `view` never copies, and after the transpose a token's numbers lie apart. Which "
            "word copies into reading order? Which one copies if it must?",
        ),
        (
            "takes the heads in turn",
            "transpose(1, 2)",
            "permute(0, 2, 3, 1)",
            "Your rows take one number of each head in turn. Put all head_dim numbers of head 0 first, then those of "
            "head 1: heads before head_dim.",
        ),
        (
            "adds the heads up",
            "context.transpose(1, 2).reshape(b, num_tokens, num_heads * head_dim)",
            "context.sum(dim=1)",
            "You add the heads up. They are to stand side by side, so that a row is num_heads * head_dim wide.",
        ),
    ],
    hints=[
        "It is the way of the last exercise, reversed: which of its two steps comes first now?",
        "First the shape (b, num_tokens, num_heads, head_dim). After that a plain `view` will not always do.",
        "`context.transpose(1, 2)`, then `.reshape(b, num_tokens, num_heads * head_dim)`.",
    ],
    why="After the transpose a token's heads are neighbours in the shape, and `reshape` joins the last two dimensions "
    "in that order. It copies where the numbers do not lie so in memory, as `contiguous` and `view` would.",
    moral="Splitting and then merging gives back the tensor that you started with.",
)


def transplant(wrapper, split):
    """Gives the wrapper's weights to split, in place, so that both compute the same."""
    with torch.no_grad():
        for name in ("W_query", "W_key", "W_value"):
            parts = [head.get_submodule(name) for head in wrapper.heads]
            target = split.get_submodule(name)
            target.weight.copy_(torch.cat([part.weight for part in parts]))  # (d_out, d_in)
            if target.bias is not None:
                target.bias.copy_(torch.cat([part.bias for part in parts]))  # (d_out,)
        split.out_proj.weight.copy_(torch.eye(split.d_out))
        split.out_proj.bias.zero_()


def pairs_of_layers(generator):
    """Pairs of a wrapper and a split class, with an input; in the second every head is square."""
    for d_in, head_dim, num_heads, qkv_bias in ((3, 2, 2, False), (4, 4, 3, True), (5, 1, 4, True), (2, 3, 1, False)):
        sizes = {"context_length": 6, "dropout": 0.5, "num_heads": num_heads, "qkv_bias": qkv_bias}
        wrapper = MultiHeadAttentionWrapper(d_in, head_dim, **sizes).eval()
        split = MultiHeadAttention(d_in, num_heads * head_dim, **sizes).eval()
        for parameter in [*wrapper.parameters(), *split.parameters()]:
            nn.init.normal_(parameter, generator=generator)
        yield wrapper, split, torch.randn(2, 5, d_in, generator=generator)


def after_transplant(answer, wrapper, split, x):
    answer(wrapper, split)
    return split(x)


transplanting = Exercise(
    name="transplanting",
    title="A wrapper's weights in the split class",
    prompt="Give the weights of `wrapper`, a `MultiHeadAttentionWrapper`, to `split`, a `MultiHeadAttention` of the "
    "same width in all, in place, so that in eval mode both compute the same. Both have biases for queries, keys and "
    "values, or neither has (then `bias` is None). There is nothing to return.",
    solution=transplant,
    cases=lambda g: list(pairs_of_layers(g)),
    call=after_transplant,
    mistakes=[
        (
            "joins the matrices along dimension 1",
            "part.weight for part in parts]",
            "part.weight for part in parts], dim=1",
            "You join along dimension 1, that of the inputs. `nn.Linear` stores (d_out, d_in): where do the next "
            "head's rows go?",
        ),
        (
            "joins along dimension 1, then transposes",
            "part.weight for part in parts])",
            "part.weight for part in parts], dim=1).T",
            "Joining along dimension 1 and then transposing turns every head's matrix over, and it fits in shape only "
            "where heads are square. `nn.Linear` stores (d_out, d_in) in both classes: nothing is to be turned.",
        ),
        "copies three matrices and nothing else",
        (
            "leaves out_proj as it is",
            "split.out_proj.",
            "# split.out_proj.",
            "The heads are right, but `out_proj` still mixes them at random. Make it a layer that changes nothing.",
        ),
        (
            "leaves the bias of out_proj",
            "split.out_proj.bias",
            "# split.out_proj.bias",
            "Nearly: `out_proj` still adds its bias to every row. With what bias does a layer change nothing?",
        ),
        (
            "leaves the biases of queries, keys and values",
            "target.bias is not None",
            "False",
            "Right without `qkv_bias`. With it, the heads' biases are to be copied, too, joined as the rows are.",
        ),
        (
            "mixes up queries and keys",
            "split.get_submodule(name)",
            'split.get_submodule({"W_query": "W_key", "W_key": "W_query"}.get(name, name))',
            "You put the queries' weights where the keys' belong. The scores are the same numbers, but transposed: "
            "row i must hold the scores of query i.",
        ),
        (
            "takes the heads from last to first",
            "wrapper.heads",
            "reversed(wrapper.heads)",
            "Every head is right, but they stand in reverse. The wrapper puts its first head in the first columns.",
        ),
    ],
    hints=[
        "The lesson did it without biases. Which four layers does `split` have, and which of them has the wrapper?",
        "`nn.Linear` stores (d_out, d_in), so each head owns rows. The identity matrix is `torch.eye(n)`.",
        "Under `torch.no_grad()`, for each of the three names: `weight.copy_(torch.cat(...))`, and the same for "
        "`bias` if it is not None. Then `out_proj.weight.copy_(torch.eye(...))` and `out_proj.bias.zero_()`.",
    ],
    why="Each entry of a query comes from one row of the stored matrix, and `split` gives the first head_dim entries "
    "to head 0, so its rows and biases come first. With the identity and a bias of 0 `out_proj` changes nothing.",
    moral="So the split class is the loop of heads, in one product, with `out_proj` added.",
)


@transplanting.mistake
def copies_three_matrices_and_nothing_else(wrapper, split):
    """The three matrices are right. `split` has one layer more, `out_proj`, which is to change nothing; and where
    the heads have biases, those are to be copied, too."""
    with torch.no_grad():
        for name in ("W_query", "W_key", "W_value"):
            parts = [head.get_submodule(name).weight for head in wrapper.heads]
            split.get_submodule(name).weight.copy_(torch.cat(parts))


def attention_parameters(d_model, num_heads, context_length, qkv_bias):
    """How many numbers a layer trains whose d_in and d_out are d_model."""
    biases = 4 if qkv_bias else 1  # out_proj always has one
    return 4 * d_model**2 + biases * d_model


gpt2_size = Exercise(
    name="gpt2_size",
    title="The size of a layer",
    prompt="How many numbers does a `MultiHeadAttention` train whose d_in and d_out are both `d_model`? Find it by "
    "arithmetic, without making the layer; not every argument matters. With `qkv_bias` the queries, keys and values "
    "have biases; `out_proj` always has one.",
    solution=attention_parameters,
    cases=lambda g: [(768, 12, 1024, True), (768, 12, 1024, False), (1600, 25, 1024, True), (6, 2, 3, False)],
    mistakes=[
        (
            "multiplies by the heads",
            "4 * d_model**2 + biases * d_model",
            "num_heads * (4 * d_model**2 + biases * d_model)",
            "You multiply by num_heads. Heads only cut the width into parts: the matrices stay as large as they are.",
        ),
        (
            "forgets out_proj",
            "4 * d_model**2 + biases * d_model",
            "3 * d_model**2 + (biases - 1) * d_model",
            "These are the queries', keys' and values' layers. There is a fourth one, after the heads.",
        ),
        (
            "forgets every bias",
            " + biases * d_model",
            "",
            "These are the four matrices. Biases are trained, too: which layers have one?",
        ),
        (
            "forgets the bias of out_proj without qkv_bias",
            "else 1",
            "else 0",
            "Right with `qkv_bias`. Without it one bias is left, for `qkv_bias` says nothing about `out_proj`.",
        ),
        (
            "counts four biases whatever qkv_bias is",
            "4 if qkv_bias else 1",
            "4",
            "That is GPT-2's number, right with `qkv_bias`. Without it three of the four layers have no bias.",
        ),
        (
            "counts the mask",
            "biases * d_model",
            "biases * d_model + context_length**2",
            "You count the mask. It is a buffer: it goes where the layer goes, but nothing trains it.",
        ),
    ],
    hints=[
        "Count the `nn.Linear` layers in the class. How large is the matrix of each? Which of them has a bias?",
        "Four matrices of d_model x d_model. A bias has d_model numbers; there are four of them, or one.",
        "`4 * d_model**2`, and to that `4 * d_model` with `qkv_bias`, otherwise `d_model`.",
    ],
    why="Three layers make queries, keys and values for all heads together, and `out_proj` is the fourth: each has a "
    "square matrix. Neither the number of heads nor that of tokens appears. "
    "`sum(p.numel() for p in layer.parameters())` gives the same.",
    moral="At the sizes of the small GPT-2 that makes 2,362,368.",
)


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


def to_repair(generator):
    for d_in, d_out, num_heads in ((3, 6, 2), (4, 4, 4), (5, 12, 3), (6, 2, 1), (4, 6, 4)):  # the last does not divide
        given = linears(generator, d_in, d_out, True)
        del given["out_proj"]
        sizes = {"d_in": d_in, "d_out": d_out, "num_heads": num_heads}
        yield sizes, given, 3 * torch.randn(2, 5, d_in, generator=generator)


repair = Exercise(
    name="repair",
    imports="from torch import nn",
    title="Repair a class",
    prompt="This class does not even run, so it stands here as a text. Mend it, and run the cell after each step. "
    "Five faults: `=` where `==` belongs, a missing parenthesis, names that do not exist, a mask that is thrown away, "
    "and mask and softmax done twice. All else is right.",
    solution=SplitAttention,
    cases=lambda g: list(to_repair(g)),
    call=lambda answer, sizes, given, x: run_with(answer(**sizes), given, x),
    stub=BROKEN,
    as_text=True,
    mistakes=[
        (
            "mends only what stops it",
            "scores = scores.masked_fill(hide, -torch.inf)",
            "scores = torch.softmax(scores, dim=-1).masked_fill(hide, -torch.inf)",
            "It runs, but the softmax is taken twice, the first time with nothing hidden. That makes the weights "
            "too even. One mask that counts, then one softmax: which lines must change?",
        ),
        (
            "takes mask and softmax twice",
            "torch.softmax(scores, dim=-1)",
            "torch.softmax(torch.softmax(scores, dim=-1).masked_fill(hide, -torch.inf), dim=-1)",
            "Nothing leaks, but the softmax is taken twice. Its results lie between 0 and 1, so the second one makes "
            "the weights too even. Once is enough.",
        ),
        (
            "takes the softmax twice, the mask once",
            "torch.softmax(scores, dim=-1)",
            "torch.softmax(torch.softmax(scores, dim=-1), dim=-1)",
            "A second softmax follows, and to it a hidden token's 0 is a score like any other: the future leaks. One "
            "softmax is enough.",
        ),
        (
            "throws the mask away",
            "scores = scores.masked_fill",
            "scores.masked_fill",
            "The doubled line is gone, and now the future leaks: `masked_fill` returns a new tensor, and yours is used "
            "by nobody. Who should get it?",
        ),
        (
            "hides after the softmax",
            "scores = scores.masked_fill(hide, -torch.inf)\n        weights = torch.softmax(scores, dim=-1)",
            "weights = torch.softmax(scores, dim=-1).masked_fill(hide, 0)",
            "You set the future's weights to 0 after the softmax, so the rows no longer sum to 1. Hide the scores "
            "before it, and the softmax shares out the rest.",
        ),
        (
            "leaves the scale out",
            " / k.shape[-1] ** 0.5",
            "",
            "`d_k` has no value here, but it is needed: without the division the softmax is too sharp. It is the "
            "width of a key. Which tensor knows that?",
        ),
        (
            "scales by the width of the input",
            "k.shape[-1]",
            "x.shape[-1]",
            "You scale by the width of `x`. `d_k` is that of one head's key: the number of terms in a dot product.",
        ),
        (
            "scales by the width of all heads",
            "k.shape[-1]",
            "wide[1].shape[-1]",
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
    imports="from torch import nn",
    title="Multi-head attention from an empty cell",
    prompt="Write the whole class: causal attention of several heads, with `out_proj` after them, without dropout. "
    "`qkv_bias` says whether `W_query`, `W_key` and `W_value` have a bias. The check gives your layer weights and "
    "compares it with `torch.nn.MultiheadAttention`, on sizes that you have not seen; num_heads divides d_out.",
    solution=MultiHeadCausalAttention,
    cases=lambda g: list(from_nothing(g)),
    call=beside_torchs,
    stub=EMPTY,
    mistakes=[
        (
            "scales by the root of d_out",
            "keys.shape[-1]",
            "self.out_proj.in_features",
            "You scale by the root of d_out. A dot product has only the terms of one head: how wide is that?",
        ),
        (
            "does not scale",
            " / keys.shape[-1] ** 0.5",
            "",
            "Everything is there but the scale. What are the scores divided by before the softmax?",
        ),
        (
            "lets the future leak",
            "scores = scores.masked_fill",
            "scores.masked_fill",
            "Your layer is right for a layer without a mask: the future leaks. Either there is none, or the result of "
            "`masked_fill` is thrown away.",
        ),
        (
            "fills with 0",
            "-torch.inf",
            "0",
            "You give the future a score of 0: to the softmax a score like any other. Which score gets the weight 0?",
        ),
        (
            "hides what should be seen",
            "triu(1)",
            "tril()",
            "Your mask hides the past and the token itself, and the last token has nothing left to look at: NaN. "
            "`masked_fill` hides where the mask is True.",
        ),
        (
            "works with one wide head",
            "x.view(b, num_tokens, self.num_heads, d_out // self.num_heads)",
            "x[:, :, None]",
            "You never cut into heads: these are the numbers of one head, d_out wide. Each head has its own softmax.",
        ),
        (
            "uses the whole mask",
            "[:num_tokens, :num_tokens]",
            "",
            "Your mask is as large as context_length, and an input may be shorter: cut it to num_tokens, both ways.",
        ),
        (
            "takes the softmax over the queries",
            "softmax(scores, dim=-1)",
            "softmax(scores, dim=-2)",
            "Your columns sum to 1. The weights of a query stand in a row: softmax goes over the last dimension.",
        ),
        (
            "takes the softmax over the heads",
            "softmax(scores, dim=-1)",
            "softmax(scores, dim=1)",
            "With several heads, dimension 1 of the scores counts the heads. Softmax goes over the last dimension.",
        ),
        (
            "cuts heads by view alone",
            "return x.transpose(1, 2)",
            "return x.view(b, self.num_heads, num_tokens, -1)",
            "You view straight into (b, num_heads, num_tokens, head_dim), and the heads get each other's tokens. Cut "
            "the last dimension first, then transpose.",
        ),
        (
            "does not transpose back",
            "context.transpose(1, 2)",
            "context",
            "All is right up to the heads' context vectors. Before the last two dimensions are joined, the tokens must "
            "come before the heads again.",
        ),
        (
            "does not use out_proj",
            "return self.out_proj(",
            "return (",
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

EXERCISES = [splitting, merging, transplanting, gpt2_size, repair, from_an_empty_cell]
progress = Progress(EXERCISES)

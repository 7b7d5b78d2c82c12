"""Exercises of notebook 06: cut into heads, merge again, copy weights over, and write the complete class."""
# After a change: make exercises, then make refresh NOTEBOOK=06

import torch
from torch import nn
from torch.nn.functional import pad

from attention_helpers.core import causal_mask
from attention_helpers.layers import MultiHeadAttention, MultiHeadAttentionWrapper

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
    prompt="Cut `x`, (b, num_tokens, d_out), into heads: (b, num_heads, num_tokens, head_dim). The first head gets the "
    "first head_dim numbers of each token, the second head the next ones, and so on. If num_heads doesn't divide "
    "d_out, raise a `ValueError` that says so.",
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
        ("puts the tokens last", "transpose(1, 2)", "permute(0, 2, 3, 1)"): """
            The heads are right, but your matrices are transposed. Should a token be one of their rows or columns?""",
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
        "After the check: `x.view(b, num_tokens, num_heads, d_out // num_heads).transpose(1, 2)`.",
    ],
    why="`view` keeps the order of the numbers. So if you cut only the last dimension, the numbers of a token stay "
    "together, and the first head_dim of them belong to the first head. The transpose then swaps tokens and heads "
    "without moving a number.",
    moral="`@` can now treat each head separately, and you didn't copy a single number for that.",
)


def merge_heads(context):
    """(b, num_heads, num_tokens, head_dim) -> (b, num_tokens, num_heads * head_dim)."""
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
    prompt="Put the heads' context vectors, (b, num_heads, num_tokens, head_dim), side by side again, head after head: "
    "(b, num_tokens, d_out). The numbers of `context` can be in any order in memory. Don't change `context` itself.",
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
        ("exchanges tokens and entries", "transpose(1, 2)", "transpose(2, 3)"): """
            You exchange a head's tokens with its entries. Which two dimensions did the split exchange?""",
        ("views what was only transposed", "reshape", "view"): """
            The order is right, but `view` never copies, and after the transpose the numbers of a token aren't next to
            each other in memory. Which method makes a copy if it has to?""",
        ("lets the heads take turns", "transpose(1, 2)", "permute(0, 2, 3, 1)"): """
            Your heads take turns, one number each. Where should the last number of the first head be, compared with the
            first number of the second?""",
        ("adds the heads up", "return context", "return context.sum(dim=1)  # context"): """
            You add the heads up. How wide should a row be if the heads are side by side?""",
        ("averages the heads", "return context", "return context.mean(dim=1)  # context"): """
            You average the heads, and then nobody can tell them apart. How can each head keep its own columns?""",
    },
    hints=[
        "Undo the two steps of *Split into heads*. Which one comes first now?",
        "First make the shape (b, num_tokens, num_heads, head_dim). After that, `view` won't always work. What will?",
        "`context.transpose(1, 2)`, then `.reshape(b, num_tokens, num_heads * head_dim)`.",
    ],
    why="After the transpose, the last two dimensions are the heads and the numbers within a head, and `reshape` joins "
    "them in that order. Because the numbers usually aren't in this order in memory, it makes a copy, as `contiguous` "
    "followed by `view` would.",
    moral="If you split a tensor into heads and merge it again, you get the same tensor back.",
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


def copies_three_matrices_and_nothing_else(wrapper, split):
    with torch.no_grad():
        for name in ("W_query", "W_key", "W_value"):
            parts = [head.get_submodule(name).weight for head in wrapper.heads]
            split.get_submodule(name).weight.copy_(torch.cat(parts))


transplanting = Exercise(
    name="transplanting",
    title="A wrapper's weights in the split class",
    prompt="`wrapper` is a `MultiHeadAttentionWrapper`, and `split` is a `MultiHeadAttention` whose output is just as "
    "wide. Copy the wrapper's weights into `split`, in place, so that both compute the same if dropout is off. If the "
    "layers have no biases for queries, keys and values, each `bias` is None. Don't return anything.",
    solution=transplant,
    cases=pairs_of_layers,
    call=after_transplant,
    mistakes={
        ("joins the matrices along dimension 1", "weight for part in parts]", "weight for part in parts], dim=1"): """
            You join along dimension 1, which counts the inputs. Since `nn.Linear` stores (d_out, d_in), where should
            the next head's rows go?""",
        ("joins, then transposes", "weight for part in parts])", "weight for part in parts], dim=1).T"): """
            You join along dimension 1 and then transpose, which also transposes the matrix of each head. (The shape
            fits only if heads are square.) Both classes store (d_out, d_in), so what is the transpose for?""",
        ("copies three matrices and nothing else", copies_three_matrices_and_nothing_else): """
            The three matrices are right. But `split` has another layer, `out_proj`: with which weights does it
            change nothing? And what about the biases, if the heads have some?""",
        ("leaves out_proj as it is", "split.out_proj.", "# split.out_proj."): """
            The heads are right, but `out_proj` still mixes them at random. Which matrix and which bias change
            nothing?""",
        ("fills out_proj with ones", "copy_(torch.eye(split.d_out))", "fill_(1.0)"): """
            A matrix of ones adds all the numbers up. Which matrix leaves a vector as it is?""",
        ("leaves the bias of out_proj", "split.out_proj.bias", "# split.out_proj.bias"): """
            Nearly. `out_proj` still adds its bias to every row. With which bias does a layer change nothing?""",
        ("leaves the biases of queries, keys and values", "target.bias is not None", "False"): """
            That's right without `qkv_bias`. With it, each head also has biases for its queries, keys and values. Where
            should they go?""",
        (
            "mixes up queries and keys",
            "split.get_submodule(name)",
            'split.get_submodule({"W_query": "W_key", "W_key": "W_query"}.get(name, name))',
        ): """
            You put the weights of the queries where those of the keys belong. That transposes the scores. Whose scores
            should be in row i?""",
        ("takes the heads from last to first", "wrapper.heads", "reversed(wrapper.heads)"): """
            Every head is right, but their order is reversed. Where does the wrapper put the columns of its first
            head?""",
    },
    hints=[
        "The notebook did this without biases. Which four layers does `split` have, and which of them do the wrapper's "
        "heads have?",
        "`nn.Linear` stores (d_out, d_in), so each head owns some of the rows. With `torch.eye(n)`, the identity "
        "matrix, a layer changes nothing.",
        "Under `torch.no_grad()`, for each of the three names: `weight.copy_(torch.cat(...))`, and the same for `bias` "
        "if it isn't None. Then `out_proj.weight.copy_(torch.eye(...))` and `out_proj.bias.zero_()`.",
    ],
    why="Each entry of a query comes from one row of the stored matrix. Since `split` gives the first head_dim entries "
    "to the first head, that head's rows and biases come first. With the identity and a bias of 0, `out_proj` changes "
    "nothing.",
    moral="So the split class is the loop of heads in one product, plus `out_proj`.",
)


class SplitAttention(nn.Module):
    """Causal attention with several heads: x (b, num_tokens, d_in) -> (b, num_tokens, d_out)."""

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
        return (weights @ v).transpose(1, 2).flatten(2)  # joins the last two dimensions


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
        return (weights @ v).transpose(1, 2).flatten(2)  # joins the last two dimensions
"""


def linears(generator, d_in, d_out, qkv_bias):
    """The four layers of attention by name, with random weights that are smaller the more inputs they add up."""
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
    """What torch.nn.MultiheadAttention returns with the same weights. Its d_in is d_out, so zeros widen the input."""
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
    prompt="This class doesn't even run, so we give it to you as a string. Fix it, and run the cell after each step. "
    "It has five faults: `=` instead of `==`, a missing parenthesis, names that don't exist, a masked result that "
    "nobody uses, and mask and softmax done twice. Everything else is right.",
    solution=SplitAttention,
    cases=to_repair,
    call=lambda answer, sizes, given, x: run_with(answer(**sizes), given, x),
    stub=BROKEN,
    as_text=True,
    mistakes={
        ("fixes only what stops it", "= scores.masked_fill", "= torch.softmax(scores, dim=-1).masked_fill"): """
            It runs, but it takes the softmax twice, the first time with nothing hidden, so the weights are too even.
            You want one mask that counts and then one softmax. Which lines have to change?""",
        (
            "takes mask and softmax twice",
            "softmax(scores",
            "softmax(torch.softmax(scores, dim=-1).masked_fill(hide, -torch.inf)",
        ): """
            Nothing leaks, but you take the softmax twice. The results of the first are between 0 and 1, so the second
            makes the weights too even. Which one can go?""",
        ("takes the softmax twice, the mask once", "softmax(scores", "softmax(torch.softmax(scores, dim=-1)"): """
            The future leaks, because you take a second softmax, and to it the 0 of a hidden token is a score like any
            other. Which of the two can go?""",
        ("throws the masked scores away", "scores = scores.masked_fill", "scores.masked_fill"): """
            The second softmax is gone, but now the future leaks. `masked_fill` returns a new tensor, and nobody uses
            it. What should happen to it?""",
        (
            "hides after the softmax",
            "scores = scores.masked_fill(hide, -torch.inf)\n        weights = torch.softmax(scores, dim=-1)",
            "weights = torch.softmax(scores, dim=-1).masked_fill(hide, 0)",
        ): """
            You set the future's weights to 0 after the softmax, so the rows no longer sum to 1. What happens if you
            hide the scores before it instead?""",
        ("leaves the scale out", " / k.shape[-1] ** 0.5", ""): """
            You removed the division because `d_k` has no value here. But without it the softmax is too sharp. `d_k` is
            the width of a key: which tensor knows it?""",
        ("scales by the width of the input", "k.shape[-1]", "x.shape[-1]"): """
            You scale by the width of `x`. But `d_k` is the number of terms in a dot product: which tensor has that
            width?""",
        ("scales by the width of all heads", "k.shape[-1]", "wide[1].shape[-1]"): """
            You scale by d_out, the width of all heads together. How many terms does the dot product of one head
            have?""",
    },
    hints=[
        "Run the cell. The reply names the line that Python can't read, and once that's fixed, the next one that "
        "fails.",
        "`d_k` is the width of a key: which dimension of `k` is that? The mask already has a name, but another one. "
        "Then look for a result that nobody uses, and for something that's done twice.",
        "`== 0`; `triu(1)`; `k.shape[-1]`; `hide` instead of `mask`; `scores = scores.masked_fill(...)`; and delete "
        "the line that masks the weights and takes their softmax again.",
    ],
    why="Python reports the first two faults before anything runs: `=` assigns where `==` should compare, and a "
    "parenthesis that stays open swallows the next line. It reports an unknown name only when its line runs. But "
    "nothing reports the last two. `masked_fill` without an underscore returns a new tensor, and a softmax of weights "
    "is still a softmax, only a more even one.",
    moral="The last two faults raise no error, so you only find them with a check like this one, or with a trace.",
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
    prompt="Write the complete class: causal attention with several heads and `out_proj`, but without dropout. "
    "`qkv_bias` says whether `W_query`, `W_key` and `W_value` have a bias, and num_heads always divides d_out. The "
    "check gives your layer weights and compares it with `torch.nn.MultiheadAttention`, at sizes that you haven't "
    "seen.",
    solution=MultiHeadCausalAttention,
    cases=from_nothing,
    call=beside_torchs,
    stub=EMPTY,
    mistakes={
        ("scales by the root of d_out", "keys.shape[-1]", "self.out_proj.in_features"): """
            You scale by the root of d_out. But a dot product has only the terms of one head: how many are that?""",
        ("does not scale", " / keys.shape[-1] ** 0.5", ""): """
            Everything is there except the scale. What are the scores divided by before the softmax?""",
        ("lets the future leak", "scores = scores.masked_fill", "scores.masked_fill"): """
            The future leaks: your layer computes what a layer without a mask would. Is there a mask, and does anything
            use the result of `masked_fill`?""",
        ("fills with 0", "-torch.inf", "0"): """
            You give the future a score of 0, which is a score like any other to the softmax. Which score gets the
            weight 0?""",
        ("hides what should be seen", "triu(1)", "tril()"): """
            Your mask hides the past and the token itself, so the last token has nothing left to look at, which gives
            NaN. Where does `masked_fill` hide, where the mask is True or where it's False?""",
        ("computes one wide head", ".view(b, num_tokens, self.num_heads, d_out // self.num_heads)", "[:, :, None]"): """
            You never cut into heads, so this is one head that is d_out wide. Where does each head get its own
            softmax?""",
        ("uses the complete mask", "[:num_tokens, :num_tokens]", ""): """
            Your mask has the size of context_length, but an input can have fewer tokens. Which part of the mask do you
            need then?""",
        ("takes the softmax over the queries", "softmax(scores, dim=-1)", "softmax(scores, dim=-2)"): """
            Your columns sum to 1 instead of your rows. The weights of a query are in one row, so which dimension should
            the softmax go over?""",
        ("takes the softmax over the heads", "softmax(scores, dim=-1)", "softmax(scores, dim=1)"): """
            Your softmax goes over dimension 1, and with several heads that counts the heads. Which dimension counts the
            keys?""",
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
        "`out_proj`. You wrote split and merge in *Split into heads* and *And back*.",
        "Write the shape next to each line. After the split it's (b, num_heads, num_tokens, head_dim), and the scores "
        "are (b, num_heads, num_tokens, num_tokens). Scale by head_dim, and take the softmax over the last dimension.",
        "`scores = queries @ keys.transpose(2, 3) / keys.shape[-1] ** 0.5`, then `masked_fill` with `torch.ones(n, n, "
        "dtype=torch.bool).triu(1)`, `torch.softmax(..., dim=-1) @ values`, and `self.out_proj(context.transpose(1, "
        "2).reshape(b, num_tokens, -1))`.",
    ],
    why="It's the notebook's class without dropout. The check copies the same weights into "
    "`torch.nn.MultiheadAttention`, whose inputs must be as wide as its output. If d_in is smaller, the check fills up "
    "the input and the matrices with zeros, which change no product.",
    moral="Starting from an empty cell, you've built what `torch.nn.MultiheadAttention` computes.",
)

EXERCISES = [splitting, merging, transplanting, repair, from_an_empty_cell]
progress = Progress(EXERCISES)

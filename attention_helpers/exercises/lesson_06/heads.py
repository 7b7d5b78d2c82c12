"""Cut into heads and merge again, copy weights over, count them."""

import torch
from torch import nn

from ...layers import MultiHeadAttention, MultiHeadAttentionWrapper
from ..base import Exercise, Misconception
from . import wrong_transplants


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


def viewed_straight(x, num_heads):
    b, num_tokens, d_out = x.shape
    if d_out % num_heads:
        raise ValueError(f"num_heads must divide d_out = {d_out}, got {num_heads}")
    return x.view(b, num_heads, num_tokens, d_out // num_heads)


def viewed_straight_with_any_num_heads(x, num_heads):
    b, num_tokens, d_out = x.shape
    return x.view(b, num_heads, num_tokens, d_out // num_heads)


def cut_into_head_dim_parts(x, num_heads):
    b, num_tokens, d_out = x.shape
    if d_out % num_heads:
        raise ValueError(f"num_heads must divide d_out = {d_out}, got {num_heads}")
    return x.view(b, num_tokens, d_out // num_heads, num_heads).transpose(1, 2)


def not_transposed(x, num_heads):
    b, num_tokens, d_out = x.shape
    if d_out % num_heads:
        raise ValueError(f"num_heads must divide d_out = {d_out}, got {num_heads}")
    return x.view(b, num_tokens, num_heads, d_out // num_heads)


def split_by_any_num_heads(x, num_heads):
    b, num_tokens, d_out = x.shape
    return x.view(b, num_tokens, num_heads, d_out // num_heads).transpose(1, 2)


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
    misconceptions=[
        Misconception("views straight into the last shape", viewed_straight, STRAIGHT),
        Misconception(
            "does so, and takes any num_heads",
            viewed_straight_with_any_num_heads,
            f"{STRAIGHT} And a num_heads that does not divide is still to be refused.",
        ),
        Misconception(
            "cuts into head_dim parts",
            cut_into_head_dim_parts,
            "You cut into head_dim parts of num_heads numbers each. It is to be num_heads parts, head_dim wide.",
        ),
        Misconception(
            "leaves the tokens before the heads",
            not_transposed,
            "The cut is right: (b, num_tokens, num_heads, head_dim). Now each head needs a table of its own, so two "
            "dimensions still have to change places.",
        ),
        Misconception(
            "takes any num_heads",
            split_by_any_num_heads,
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
    misconceptions=[
        Misconception(
            "reshapes without transposing back",
            lambda context: context.reshape(context.shape[0], context.shape[2], -1),
            "The shape is right, but all of head 0 is read before head 1, so a row gets numbers of several tokens. "
            "Bring the dimensions back into the order of the result first.",
        ),
        Misconception(
            "views without transposing back",
            lambda context: context.view(context.shape[0], context.shape[2], -1),
            "`view` reads all of head 0 before head 1, so a row gets numbers of several tokens; and what does not lie "
            "in memory in that order it refuses. Bring the dimensions back into the order of the result first.",
        ),
        Misconception(
            "views what was only transposed",
            lambda context: context.transpose(1, 2).view(context.shape[0], context.shape[2], -1),
            "The order is right, but `view` never copies, and after the transpose a token's numbers lie apart. Which "
            "word copies into reading order? Which one copies if it must?",
        ),
        Misconception(
            "takes the heads in turn",
            lambda context: context.permute(0, 2, 3, 1).reshape(context.shape[0], context.shape[2], -1),
            "Your rows take one number of each head in turn. Put all head_dim numbers of head 0 first, then those of "
            "head 1: heads before head_dim.",
        ),
        Misconception(
            "adds the heads up",
            lambda context: context.sum(dim=1),
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


def layers(generator):
    """Pairs of a wrapper and a split class, with an input; in the second every head is square."""
    for d_in, head_dim, num_heads, qkv_bias in ((3, 2, 2, False), (4, 4, 3, True), (5, 1, 4, True), (2, 3, 1, False)):
        sizes = {"context_length": 6, "dropout": 0.5, "num_heads": num_heads, "qkv_bias": qkv_bias}
        wrapper = MultiHeadAttentionWrapper(d_in, head_dim, **sizes).eval()
        split = MultiHeadAttention(d_in, num_heads * head_dim, **sizes).eval()
        for parameter in [*wrapper.parameters(), *split.parameters()]:
            nn.init.normal_(parameter, generator=generator)
        yield wrapper, split, torch.randn(2, 5, d_in, generator=generator)


def after(answer, wrapper, split, x):
    answer(wrapper, split)
    return split(x)


transplanting = Exercise(
    name="transplanting",
    title="A wrapper's weights in the split class",
    prompt="Give the weights of `wrapper`, a `MultiHeadAttentionWrapper`, to `split`, a `MultiHeadAttention` of the "
    "same width in all, in place, so that in eval mode both compute the same. Both have biases for queries, keys and "
    "values, or neither has (then `bias` is None). There is nothing to return.",
    solution=transplant,
    cases=lambda g: list(layers(g)),
    call=after,
    misconceptions=[
        Misconception(
            "joins the matrices along dimension 1",
            wrong_transplants.joined_along_dimension_1,
            "You join along dimension 1, that of the inputs. `nn.Linear` stores (d_out, d_in): where do the next "
            "head's rows go?",
        ),
        Misconception(
            "joins along dimension 1, then transposes",
            wrong_transplants.joined_along_dimension_1_and_transposed,
            "Joining along dimension 1 and then transposing turns every head's matrix over, and it fits in shape only "
            "where heads are square. `nn.Linear` stores (d_out, d_in) in both classes: nothing is to be turned.",
        ),
        Misconception(
            "copies three matrices and nothing else",
            wrong_transplants.three_matrices_alone,
            "The three matrices are right. `split` has one layer more, `out_proj`, which is to change nothing; and "
            "where the heads have biases, those are to be copied, too.",
        ),
        Misconception(
            "leaves out_proj as it is",
            wrong_transplants.without_out_proj,
            "The heads are right, but `out_proj` still mixes them at random. Make it a layer that changes nothing.",
        ),
        Misconception(
            "leaves the bias of out_proj",
            wrong_transplants.without_the_bias_of_out_proj,
            "Nearly: `out_proj` still adds its bias to every row. With what bias does a layer change nothing?",
        ),
        Misconception(
            "leaves the biases of queries, keys and values",
            wrong_transplants.without_the_biases_of_queries_keys_and_values,
            "Right without `qkv_bias`. With it, the heads' biases are to be copied, too, joined as the rows are.",
        ),
        Misconception(
            "mixes up queries and keys",
            wrong_transplants.with_queries_and_keys_mixed_up,
            "You put the queries' weights where the keys' belong. The scores are the same numbers, but transposed: "
            "row i must hold the scores of query i.",
        ),
        Misconception(
            "takes the heads from last to first",
            wrong_transplants.from_last_head_to_first,
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
    misconceptions=[
        Misconception(
            "multiplies by the heads",
            lambda d, n, length, b: n * (4 * d**2 + (4 if b else 1) * d),
            "You multiply by num_heads. Heads only cut the width into parts: the matrices stay as large as they are.",
        ),
        Misconception(
            "forgets out_proj",
            lambda d, n, length, b: 3 * d**2 + (3 * d if b else 0),
            "These are the queries', keys' and values' layers. There is a fourth one, after the heads.",
        ),
        Misconception(
            "forgets every bias",
            lambda d, n, length, b: 4 * d**2,
            "These are the four matrices. Biases are trained, too: which layers have one?",
        ),
        Misconception(
            "forgets the bias of out_proj without qkv_bias",
            lambda d, n, length, b: 4 * d**2 + (4 * d if b else 0),
            "Right with `qkv_bias`. Without it one bias is left, for `qkv_bias` says nothing about `out_proj`.",
        ),
        Misconception(
            "counts four biases whatever qkv_bias is",
            lambda d, n, length, b: 4 * d**2 + 4 * d,
            "That is GPT-2's number, right with `qkv_bias`. Without it three of the four layers have no bias.",
        ),
        Misconception(
            "counts the mask",
            lambda d, n, length, b: 4 * d**2 + (4 if b else 1) * d + length**2,
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

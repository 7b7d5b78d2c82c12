"""Three matrices in one, and what a layer costs."""

import torch
from torch import nn

from ..base import Exercise, Misconception
from ..running import kept_random_state


def fuse(W_query, W_key, W_value):
    """One new nn.Linear for three of the same sizes: it makes queries, keys and values at once."""
    d_out, d_in = W_query.weight.shape
    fused = nn.Linear(d_in, 3 * d_out, bias=W_query.bias is not None)
    with torch.no_grad():
        fused.weight.copy_(torch.cat([W_query.weight, W_key.weight, W_value.weight]))
        if fused.bias is not None:
            fused.bias.copy_(torch.cat([W_query.bias, W_key.bias, W_value.bias]))
    return fused


def joined_along_dimension_1(W_query, W_key, W_value):
    d_out, d_in = W_query.weight.shape
    fused = nn.Linear(d_in, 3 * d_out, bias=W_query.bias is not None)
    with torch.no_grad():
        fused.weight.copy_(torch.cat([W_query.weight, W_key.weight, W_value.weight], dim=1))
        if fused.bias is not None:
            fused.bias.copy_(torch.cat([W_query.bias, W_key.bias, W_value.bias]))
    return fused


def joined_along_dimension_1_and_put_in(W_query, W_key, W_value):
    fused = fuse(W_query, W_key, W_value)
    fused.weight = nn.Parameter(torch.cat([W_query.weight, W_key.weight, W_value.weight], dim=1))
    return fused


def in_another_order(W_query, W_key, W_value):
    d_out, d_in = W_query.weight.shape
    fused = nn.Linear(d_in, 3 * d_out, bias=W_query.bias is not None)
    with torch.no_grad():
        fused.weight.copy_(torch.cat([W_key.weight, W_query.weight, W_value.weight]))
        if fused.bias is not None:
            fused.bias.copy_(torch.cat([W_key.bias, W_query.bias, W_value.bias]))
    return fused


def rows_taking_turns(W_query, W_key, W_value):
    d_out, d_in = W_query.weight.shape
    fused = nn.Linear(d_in, 3 * d_out, bias=W_query.bias is not None)
    with torch.no_grad():
        fused.weight.copy_(torch.stack([W_query.weight, W_key.weight, W_value.weight], dim=1).flatten(0, 1))
        if fused.bias is not None:
            fused.bias.copy_(torch.stack([W_query.bias, W_key.bias, W_value.bias], dim=1).flatten())
    return fused


def added_up(W_query, W_key, W_value):
    d_out, d_in = W_query.weight.shape
    fused = nn.Linear(d_in, d_out, bias=W_query.bias is not None)
    with torch.no_grad():
        fused.weight.copy_(W_query.weight + W_key.weight + W_value.weight)
        if fused.bias is not None:
            fused.bias.copy_(W_query.bias + W_key.bias + W_value.bias)
    return fused


def without_bias(W_query, W_key, W_value):
    d_out, d_in = W_query.weight.shape
    fused = nn.Linear(d_in, 3 * d_out, bias=False)
    with torch.no_grad():
        fused.weight.copy_(torch.cat([W_query.weight, W_key.weight, W_value.weight]))
    return fused


def with_a_bias_at_random(W_query, W_key, W_value):
    d_out, d_in = W_query.weight.shape
    fused = nn.Linear(d_in, 3 * d_out, bias=W_query.bias is not None)
    with torch.no_grad():
        fused.weight.copy_(torch.cat([W_query.weight, W_key.weight, W_value.weight]))
    return fused


def always_with_a_bias(W_query, W_key, W_value):
    d_out, d_in = W_query.weight.shape
    fused = nn.Linear(d_in, 3 * d_out)
    with torch.no_grad():
        fused.weight.copy_(torch.cat([W_query.weight, W_key.weight, W_value.weight]))
    return fused


def copied_where_gradients_are_recorded(W_query, W_key, W_value):
    d_out, d_in = W_query.weight.shape
    fused = nn.Linear(d_in, 3 * d_out, bias=W_query.bias is not None)
    fused.weight.copy_(torch.cat([W_query.weight, W_key.weight, W_value.weight]))
    if fused.bias is not None:
        fused.bias.copy_(torch.cat([W_query.bias, W_key.bias, W_value.bias]))
    return fused


def all_into_the_first(W_query, W_key, W_value):
    fused = fuse(W_query, W_key, W_value)
    W_query.weight, W_query.bias = fused.weight, fused.bias
    return W_query


def three_layers(generator):
    cases = []
    for d_in, d_out, bias in ((3, 2, False), (2, 4, True), (4, 4, True), (5, 1, True), (1, 3, False)):
        cases.append(tuple(nn.Linear(d_in, d_out, bias=bias) for _ in range(3)))
        for parameter in nn.ModuleList(cases[-1]).parameters():
            nn.init.normal_(parameter, generator=generator)
    return cases


@kept_random_state()
def fused_facts(answer, W_query, W_key, W_value):
    """What the layer is and holds, and the old layers afterwards."""
    torch.default_generator.manual_seed(0)  # for numbers that were not set; torch.manual_seed is much slower
    fused = answer(W_query, W_key, W_value)
    facts = {"type": fused, "weight": getattr(fused, "weight", None), "bias": getattr(fused, "bias", None)}
    return facts | {"old W_query": W_query.weight, "old W_key": W_key.weight, "old W_value": W_value.weight}


three_in_one = Exercise(
    name="three_in_one",
    title="Three matrices in one",
    prompt="Three `nn.Linear` make queries, keys and values of the same width. Return one new `nn.Linear` in "
    "their place: its output, cut by `.chunk(3, dim=-1)`, is queries, keys, values, in this order. The three "
    "have biases, or none has (then `bias` is None, and so is the new one). Leave the three as they are.",
    solution=fuse,
    cases=three_layers,
    call=fused_facts,
    misconceptions=[
        Misconception(
            "joins along dimension 1",
            joined_along_dimension_1,
            "You join along dimension 1, that of the inputs, and the result does not fit. `nn.Linear` stores "
            "(d_out, d_in): which dimension should become three times as long?",
        ),
        Misconception(
            "joins along dimension 1 and puts that in",
            joined_along_dimension_1_and_put_in,
            "Your matrix is (d_out, 3 * d_in): it asks for wider inputs. `nn.Linear` stores (d_out, d_in), "
            "and it is the output that should become wider.",
        ),
        Misconception(
            "mixes up the order",
            in_another_order,
            "All numbers are there, but the keys come first. Whoever cuts the output expects queries, keys, values.",
        ),
        Misconception(
            "lets the three take turns",
            rows_taking_turns,
            "Your rows take turns: one of the queries, one of the keys, one of the values. `chunk` cuts the "
            "output into three whole pieces, so all rows of the queries come first.",
        ),
        Misconception(
            "adds the three up",
            added_up,
            "You add the matrices up: that gives queries + keys + values, and no cut takes a sum apart.",
        ),
        Misconception(
            "makes a layer without bias",
            without_bias,
            "Right without biases. Where the three have biases, the new layer needs theirs, joined as the rows are.",
        ),
        Misconception(
            "leaves the new bias at random",
            with_a_bias_at_random,
            "The matrix is right. The new layer has a bias of its own, still at random: copy the three into it.",
        ),
        Misconception(
            "has a bias where there was none",
            always_with_a_bias,
            "The matrix is right, but `nn.Linear` makes a bias unless told not to, and fills it at random. "
            "Where the three have none, ask for none; where they have some, copy them.",
        ),
        Misconception(
            "copies where gradients are recorded",
            copied_where_gradients_are_recorded,
            "What you copy is right, but torch records gradients and lets nobody write into a parameter "
            "meanwhile. Which `with` line stops the recording?",
        ),
        Misconception(
            "puts all into W_query",
            all_into_the_first,
            "The numbers are right, but you changed `W_query` itself, and it no longer makes queries. Make a "
            "new layer.",
        ),
    ],
    hints=[
        "Row i of a stored matrix makes entry i of the output. Whose rows should come first?",
        "The new layer is `nn.Linear(d_in, 3 * d_out, bias=W_query.bias is not None)`. Copy under `torch.no_grad()`.",
        "`fused.weight.copy_(torch.cat([W_query.weight, W_key.weight, W_value.weight]))`, and the same for "
        "`bias` if it is not None.",
    ],
    why="`nn.Linear` stores (d_out, d_in), and each row makes one entry of the output from the whole input. "
    "So matrices stacked row below row make the three outputs side by side, and biases follow the rows.",
    moral="One product of this kind stands where the split class has three: the same operations in fewer steps.",
)


def layer_costs(b, num_tokens, d_in, d_out, num_heads):
    """Two whole numbers: operations of one forward pass, and parameters."""
    matrices = 3 * d_in * d_out + d_out**2
    tables = 2 * num_tokens**2 * d_out
    return 2 * b * (num_tokens * matrices + tables), matrices + d_out


def without_the_factor_2(b, num_tokens, d_in, d_out, num_heads):
    matrices = 3 * d_in * d_out + d_out**2
    tables = 2 * num_tokens**2 * d_out
    return b * (num_tokens * matrices + tables), matrices + d_out


def tables_times_heads(b, num_tokens, d_in, d_out, num_heads):
    matrices = 3 * d_in * d_out + d_out**2
    tables = num_heads * 2 * num_tokens**2 * d_out
    return 2 * b * (num_tokens * matrices + tables), matrices + d_out


def tables_of_one_head(b, num_tokens, d_in, d_out, num_heads):
    matrices = 3 * d_in * d_out + d_out**2
    tables = 2 * num_tokens**2 * d_out // num_heads
    return 2 * b * (num_tokens * matrices + tables), matrices + d_out


def everything_times_heads(b, num_tokens, d_in, d_out, num_heads):
    matrices = 3 * d_in * d_out + d_out**2
    tables = 2 * num_tokens**2 * d_out
    return num_heads * 2 * b * (num_tokens * matrices + tables), matrices + d_out


def without_the_operations_of_out_proj(b, num_tokens, d_in, d_out, num_heads):
    matrices = 3 * d_in * d_out + d_out**2
    tables = 2 * num_tokens**2 * d_out
    return 2 * b * (num_tokens * 3 * d_in * d_out + tables), matrices + d_out


def without_out_proj(b, num_tokens, d_in, d_out, num_heads):
    matrices = 3 * d_in * d_out
    tables = 2 * num_tokens**2 * d_out
    return 2 * b * (num_tokens * matrices + tables), matrices


def one_product_of_two(b, num_tokens, d_in, d_out, num_heads):
    matrices = 3 * d_in * d_out + d_out**2
    tables = num_tokens**2 * d_out
    return 2 * b * (num_tokens * matrices + tables), matrices + d_out


def without_tables(b, num_tokens, d_in, d_out, num_heads):
    matrices = 3 * d_in * d_out + d_out**2
    return 2 * b * num_tokens * matrices, matrices + d_out


def num_tokens_for_its_square(b, num_tokens, d_in, d_out, num_heads):
    matrices = 3 * d_in * d_out + d_out**2
    tables = 2 * num_tokens * d_out
    return 2 * b * (num_tokens * matrices + tables), matrices + d_out


def one_sentence(b, num_tokens, d_in, d_out, num_heads):
    matrices = 3 * d_in * d_out + d_out**2
    tables = 2 * num_tokens**2 * d_out
    return 2 * (num_tokens * matrices + tables), matrices + d_out


def out_proj_reading_d_in(b, num_tokens, d_in, d_out, num_heads):
    matrices = 3 * d_in * d_out + d_in * d_out
    tables = 2 * num_tokens**2 * d_out
    return 2 * b * (num_tokens * matrices + tables), matrices + d_out


def without_the_bias_of_out_proj(b, num_tokens, d_in, d_out, num_heads):
    matrices = 3 * d_in * d_out + d_out**2
    tables = 2 * num_tokens**2 * d_out
    return 2 * b * (num_tokens * matrices + tables), matrices


counting = Exercise(
    name="counting",
    title="What a layer costs",
    prompt="A `MultiHeadAttention` without `qkv_bias` reads `x`, (b, num_tokens, d_in). Count by arithmetic, "
    "and return, two numbers: its operations, then its parameters. Each term of a matrix product is 2 "
    "operations; nothing else counts, and all scores are computed, hidden ones too. `out_proj` has a bias. "
    "Not every argument matters.",
    solution=layer_costs,
    cases=lambda g: [(2, 6, 3, 4, 2), (1, 1, 5, 2, 1), (3, 7, 4, 6, 3), (8, 1024, 768, 768, 12)],
    misconceptions=[
        Misconception(
            "forgets the factor 2",
            without_the_factor_2,
            "The parameters are right. You count each term of a product once: it is a multiplication and an addition.",
        ),
        Misconception(
            "multiplies the tables by the heads",
            tables_times_heads,
            "You count num_heads tables of full width. There are that many, but each head is only d_out / "
            "num_heads wide: what do they make together?",
        ),
        Misconception(
            "counts one head's tables",
            tables_of_one_head,
            "These are the scores and contexts of one head. How many heads are there?",
        ),
        Misconception(
            "multiplies everything by the heads",
            everything_times_heads,
            "You multiply all operations by num_heads. Heads cut the width into parts: each does only its share.",
        ),
        Misconception(
            "forgets the operations of out_proj",
            without_the_operations_of_out_proj,
            "The parameters are right, but after the heads one more product is computed: which layer is last?",
        ),
        Misconception(
            "forgets out_proj altogether",
            without_out_proj,
            "You stop at the heads. `out_proj` comes after them: it costs operations and has parameters, too.",
        ),
        Misconception(
            "forgets one of the two products",
            one_product_of_two,
            "You count one product over pairs of tokens. The scores are one; what are the weights multiplied by?",
        ),
        Misconception(
            "forgets both of them",
            without_tables,
            "These are the four layers. Between them, every query is multiplied by every key, and the "
            "weights by the values: these products have no parameters, but operations.",
        ),
        Misconception(
            "takes num_tokens for its square",
            num_tokens_for_its_square,
            "The four layers are right. But the scores are a table: each of num_tokens queries meets how many keys?",
        ),
        Misconception(
            "counts one sentence",
            one_sentence,
            "These are the operations of one sentence, and `x` holds b of them.",
        ),
        Misconception(
            "lets out_proj read d_in",
            out_proj_reading_d_in,
            "Right where d_in is d_out. How wide is what the heads give to `out_proj`?",
        ),
        Misconception(
            "forgets the bias of out_proj",
            without_the_bias_of_out_proj,
            "The operations are right. A bias is trained, too, and `out_proj` has one.",
        ),
    ],
    hints=[
        "A product of (n, k) and (k, m) has n * m entries, each a sum of k terms: 2 * n * m * k operations.",
        "Six products a sentence: queries, keys, values, scores, context, out_proj. Which shapes meet in each? "
        "Take all heads together: num_heads times head_dim is d_out.",
        "Each matrix of m parameters costs `2 * b * num_tokens * m`; scores and context cost `2 * b * "
        "num_tokens**2 * d_out` each. The parameters are the four matrices and d_out biases.",
    ],
    why="Each token meets each entry of the four matrices once, a multiplication and an addition. Scores and "
    "context have num_tokens**2 pairs, and all heads together are d_out wide, so num_heads drops out. "
    "`attention_helpers.fast.costs.flops` and `parameters` give the same.",
    moral="With d_in = d_out, scores and context cost as much as all four matrices once num_tokens is 2 * d_out.",
)

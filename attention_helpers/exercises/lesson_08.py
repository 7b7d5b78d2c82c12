"""Exercises of notebook 08: three matrices in one, what a layer costs, a step with a cache, a softmax in blocks."""

import torch
from torch import nn
from torch.nn import functional as F

from .base import Exercise, Progress


def fuse(W_query, W_key, W_value):
    """One new nn.Linear for three of the same sizes: it makes queries, keys and values at once."""
    d_out, d_in = W_query.weight.shape
    fused = nn.Linear(d_in, 3 * d_out, bias=W_query.bias is not None)
    with torch.no_grad():
        fused.weight.copy_(torch.cat([W_query.weight, W_key.weight, W_value.weight]))
        if fused.bias is not None:
            fused.bias.copy_(torch.cat([W_query.bias, W_key.bias, W_value.bias]))
    return fused


def three_layers(generator):
    cases = []
    for d_in, d_out, bias in ((3, 2, False), (2, 4, True), (4, 4, True), (5, 1, True), (1, 3, False)):
        cases.append(tuple(nn.Linear(d_in, d_out, bias=bias) for _ in range(3)))
        for parameter in nn.ModuleList(cases[-1]).parameters():
            nn.init.normal_(parameter, generator=generator)
    return cases


def fused_facts(answer, W_query, W_key, W_value):
    """What the layer is and holds, and the old layers afterwards."""
    torch.default_generator.manual_seed(0)  # for numbers that were not set; torch.manual_seed is much slower
    fused = answer(W_query, W_key, W_value)
    facts = {"type": fused, "weight": getattr(fused, "weight", None), "bias": getattr(fused, "bias", None)}
    return facts | {"old W_query": W_query.weight, "old W_key": W_key.weight, "old W_value": W_value.weight}


three_in_one = Exercise(
    name="three_in_one",
    imports="from torch import nn",
    title="Three matrices in one",
    prompt="Three `nn.Linear` make queries, keys and values of the same width. Return one new `nn.Linear` in "
    "their place: its output, cut by `.chunk(3, dim=-1)`, is queries, keys, values, in this order. The three "
    "have biases, or none has (then `bias` is None, and so is the new one). Leave the three as they are.",
    solution=fuse,
    cases=three_layers,
    call=fused_facts,
    mistakes=[
        (
            "joins along dimension 1",
            "W_value.weight]",
            "W_value.weight], dim=1",
            "You join along dimension 1, that of the inputs, and the result does not fit. `nn.Linear` stores "
            "(d_out, d_in): which dimension should become three times as long?",
        ),
        (
            "joins along dimension 1 and puts that in",
            "fused.weight.copy_(torch.cat([W_query.weight, W_key.weight, W_value.weight]))",
            "fused.weight = nn.Parameter(torch.cat([W_query.weight, W_key.weight, W_value.weight], dim=1))",
            "Your matrix is (d_out, 3 * d_in): it asks for wider inputs. `nn.Linear` stores (d_out, d_in), "
            "and it is the output that should become wider.",
        ),
        (
            "mixes up the order",
            "d_out, d_in",
            "W_query, W_key = W_key, W_query\n    d_out, d_in",
            "All numbers are there, but the keys come first. Whoever cuts the output expects queries, keys, values.",
        ),
        (
            "lets the three take turns",
            "]))",  # of the weights and of the biases
            "]).unflatten(0, (3, -1)).transpose(0, 1).flatten(0, 1))",
            "Your rows take turns: one of the queries, one of the keys, one of the values. `chunk` cuts the "
            "output into three whole pieces, so all rows of the queries come first.",
        ),
        "adds the three up",
        (
            "makes a layer without bias",
            "bias=W_query.bias is not None",
            "bias=False",
            "Right without biases. Where the three have biases, the new layer needs theirs, joined as the rows are.",
        ),
        (
            "leaves the new bias at random",
            "if fused.bias is not None",
            "if False",
            "The matrix is right. The new layer has a bias of its own, still at random: copy the three into it.",
        ),
        "has a bias where there was none",
        (
            "copies where gradients are recorded",
            "with torch.no_grad()",
            "if True",
            "What you copy is right, but torch records gradients and lets nobody write into a parameter "
            "meanwhile. Which `with` line stops the recording?",
        ),
        (
            "puts all into W_query",
            "return fused",
            "W_query.weight, W_query.bias = fused.weight, fused.bias\n    return W_query",
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


@three_in_one.mistake
def adds_the_three_up(W_query, W_key, W_value):
    """You add the matrices up: that gives queries + keys + values, and no cut takes a sum apart."""
    fused = fuse(W_query, W_key, W_value)
    for parameter in fused.parameters():
        parameter.data = sum(parameter.data.chunk(3))
    return fused


@three_in_one.mistake
def has_a_bias_where_there_was_none(W_query, W_key, W_value):
    """The matrix is right, but `nn.Linear` makes a bias unless told not to, and fills it at random. Where the three
    have none, ask for none; where they have some, copy them."""
    d_out, d_in = W_query.weight.shape
    fused = nn.Linear(d_in, 3 * d_out)
    fused.weight.data = torch.cat([W_query.weight, W_key.weight, W_value.weight])
    return fused


def layer_costs(b, num_tokens, d_in, d_out, num_heads):
    """Two whole numbers: operations of one forward pass, and parameters."""
    matrices = 3 * d_in * d_out + d_out**2
    tables = 2 * num_tokens**2 * d_out
    return 2 * b * (num_tokens * matrices + tables), matrices + d_out


counting = Exercise(
    name="counting",
    title="What a layer costs",
    prompt="A `MultiHeadAttention` without `qkv_bias` reads `x`, (b, num_tokens, d_in). Count by arithmetic, "
    "and return, two numbers: its operations, then its parameters. Each term of a matrix product is 2 "
    "operations; nothing else counts, and all scores are computed, hidden ones too. `out_proj` has a bias. "
    "Not every argument matters.",
    solution=layer_costs,
    cases=lambda g: [(2, 6, 3, 4, 2), (1, 1, 5, 2, 1), (3, 7, 4, 6, 3), (8, 1024, 768, 768, 12)],
    mistakes=[
        (
            "forgets the factor 2",
            "return 2 * b",
            "return b",
            "The parameters are right. You count each term of a product once: it is a multiplication and an addition.",
        ),
        (
            "multiplies the tables by the heads",
            "tables = 2",
            "tables = num_heads * 2",
            "You count num_heads tables of full width. There are that many, but each head is only d_out / "
            "num_heads wide: what do they make together?",
        ),
        (
            "counts one head's tables",
            "num_tokens**2 * d_out",
            "num_tokens**2 * d_out // num_heads",
            "These are the scores and contexts of one head. How many heads are there?",
        ),
        (
            "multiplies everything by the heads",
            "return 2",
            "return num_heads * 2",
            "You multiply all operations by num_heads. Heads cut the width into parts: each does only its share.",
        ),
        (
            "forgets the operations of out_proj",
            "num_tokens * matrices",
            "num_tokens * 3 * d_in * d_out",
            "The parameters are right, but after the heads one more product is computed: which layer is last?",
        ),
        (
            "forgets out_proj altogether",
            " + d_out",  # in the matrices and in the parameters
            " + 0 * d_out",
            "You stop at the heads. `out_proj` comes after them: it costs operations and has parameters, too.",
        ),
        (
            "forgets one of the two products",
            "tables = 2 * ",
            "tables = ",
            "You count one product over pairs of tokens. The scores are one; what are the weights multiplied by?",
        ),
        (
            "forgets both of them",
            "matrices + tables",
            "matrices",
            "These are the four layers. Between them, every query is multiplied by every key, and the "
            "weights by the values: these products have no parameters, but operations.",
        ),
        (
            "takes num_tokens for its square",
            "num_tokens**2",
            "num_tokens",
            "The four layers are right. But the scores are a table: each of num_tokens queries meets how many keys?",
        ),
        (
            "counts one sentence",
            "2 * b",
            "2",
            "These are the operations of one sentence, and `x` holds b of them.",
        ),
        (
            "lets out_proj read d_in",
            "d_out**2",
            "d_in * d_out",
            "Right where d_in is d_out. How wide is what the heads give to `out_proj`?",
        ),
        (
            "forgets the bias of out_proj",
            "matrices + d_out",
            "matrices",
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


def cached_step(queries, keys, values, cached_keys, cached_values):
    """Context of the new token, (b, num_heads, 1, head_dim); all keys so far; all values so far."""
    keys = torch.cat((cached_keys, keys), dim=2)
    values = torch.cat((cached_values, values), dim=2)
    context = F.scaled_dot_product_attention(queries, keys, values)
    return context, keys, values


def new_token(generator):
    """The last token's queries, keys, values and the other tokens' keys and values; one cache is empty."""
    cases = []
    for b, num_heads, num_tokens, head_dim in ((2, 3, 5, 4), (1, 2, 7, 3), (3, 1, 1, 2), (2, 2, 4, 1), (1, 4, 3, 5)):
        q, k, v = torch.randn(3, b, num_heads, num_tokens, head_dim, generator=generator)
        cases.append((q[:, :, -1:], k[:, :, -1:], v[:, :, -1:], k[:, :, :-1].clone(), v[:, :, :-1].clone()))
    return cases


step_with_cache = Exercise(
    name="step_with_cache",
    imports="from torch.nn import functional as F",
    title="One token more",
    prompt="A new token comes: its queries, keys, values are (b, num_heads, 1, head_dim). The cache has keys "
    "and values of all tokens before it, (b, num_heads, past, head_dim); `past` may be 0. Return the new "
    "token's context (the last row of causal attention over all tokens), and the longer cache: keys, values. "
    "Leave the old one as it is.",
    solution=cached_step,
    cases=new_token,
    mistakes=[
        (
            "asks for is_causal",
            "(queries, keys, values)",
            "(queries, keys, values, is_causal=True)",
            "With `is_causal=True` torch takes your one query for the first token, which sees key 0 alone. "
            "Yours is the last one: what may it not see?",
        ),
        (
            "forgets the new token",
            "dim=2)",
            "dim=2)[:, :, :-1]",  # the cache without the new token
            "The new token looks at the cache alone. It may look at itself, too: append its keys and values first.",
        ),
        (
            "gives back the old cache",
            "return context, keys, values",
            "return context, cached_keys, cached_values",
            "The context is right, but you return the old cache: the next token would never see this one.",
        ),
        (
            "forgets the cache",
            "dim=2)",
            "dim=2)[:, :, -1:]",  # the new token without the cache
            "The new token sees itself alone, so its context is its own values. Put the cached tokens before it.",
        ),
        (
            "appends along the heads",
            "dim=2",
            "dim=1",
            "You append along dimension 1, that of the heads. Which dimension counts the tokens?",
        ),
        (
            "appends along the batch",
            ", dim=2",
            "",
            "`torch.cat` joins along dimension 0 unless told: that is the batch. Which dimension counts the tokens?",
        ),
        (
            "puts the new token first",
            "dim=2)",
            "dim=2).roll(1, dims=2)",
            "The context is right, since a sum does not care about the order. But in your cache the new "
            "token stands before all others: keep the tokens in theirs.",
        ),
        (
            "hides what it should keep",
            "F.scaled_dot_product_attention(queries, keys, values)",
            "torch.zeros_like(queries)",  # what torch returns for a row in which nothing is kept
            "Your context is 0: is there a mask whose True means hidden? In `scaled_dot_product_attention` True means "
            "keep, so your token sees nothing. Which tokens need hiding from the last one?",
        ),
        (
            "scales by d_out",
            "(queries, keys, values)",
            "(queries / queries.shape[1] ** 0.5, keys, values)",
            "You divide by the root of d_out. One head's score adds up how many products?",
        ),
        (
            "takes the softmax over the queries",
            "F.scaled_dot_product_attention(queries, keys, values)",
            "torch.softmax(queries @ keys.transpose(2, 3) / queries.shape[-1] ** 0.5, dim=2) @ values",
            "Your softmax goes over dimension 2, and a dimension of one query gives every key the weight 1. "
            "Each row should sum to 1 over the keys.",
        ),
    ],
    hints=[
        "First make the cache longer by one token: which of the four dimensions counts tokens?",
        "The new token is the last one: nothing lies in its future. So it needs no mask.",
        "`torch.cat((cached_keys, keys), dim=2)`, the same for values, then "
        "`F.scaled_dot_product_attention(queries, keys, values)` without a mask.",
    ],
    why="In causal attention a row reads the keys and values up to itself, and later tokens change neither. "
    "So the old ones can be kept, and for the last row, which sees all, the mask hides nothing.",
    moral="Each new token is projected once: n rows for n tokens, instead of n * (n + 1) / 2.",
)


def context_of_blocks(blocks):
    """Context (head_dim,) of a query; `blocks` gives scores (size,) and values (size, head_dim)."""
    largest, total, context = -torch.inf, 0, 0
    for scores, values in blocks:
        raised = max(largest, scores.max())
        shrink = torch.exp(largest - raised)  # 0 for the first block
        exponentials = torch.exp(scores - raised)
        total = total * shrink + exponentials.sum()
        context = context * shrink + exponentials @ values
        largest = raised
    return context / total


def in_blocks(answer, scores, values, size):
    """Blocks of at most `size` tokens, one after the other, all in the same memory, as in a small fast one."""

    def blocks():
        memory = torch.empty(size), torch.empty(size, values.shape[1])
        for block in zip(scores.split(size), values.split(size), strict=True):
            yield tuple(place[: len(part)].copy_(part) for place, part in zip(memory, block, strict=True))

    return answer(blocks())


def long_rows(generator):
    """Random scores; scores that rise and that fall, by far; whole and incomplete last blocks."""
    cases = []
    for num_tokens, head_dim, size, slope, shift in (
        (7, 3, 3, 0.0, 0.0),
        (8, 2, 4, 0.5, 0.0),
        (9, 4, 2, -0.5, 0.0),
        (5, 1, 1, 1.0, 1000.0),
        (6, 3, 4, 0.0, -1000.0),
        (1, 2, 5, 0.0, 3.0),
        (6, 2, 4, 100.0, -300.0),
    ):
        scores = torch.randn(num_tokens, generator=generator) + slope * torch.arange(num_tokens) + shift
        cases.append((scores, torch.randn(num_tokens, head_dim, generator=generator), size))
    return cases


block_by_block = Exercise(
    name="block_by_block",
    title="Softmax, block by block",
    prompt="`for scores, values in blocks:` hands you one query's scores with their tokens' values, a few "
    "tokens at a time (blocks may differ in length). You may loop once, and each block is written over the "
    "one before. Return `torch.softmax(all_scores, dim=0) @ all_values`, for finite scores that may lie near "
    "+1000 or -1000.",
    solution=context_of_blocks,
    cases=long_rows,
    call=in_blocks,
    mistakes=[
        (
            "never shrinks the old sums",
            " * shrink",
            "",
            "When the maximum rises, your old sums still belong to the old maximum: they count too much. By "
            "which factor do they become sums of `exp(scores - new_maximum)`?",
        ),
        (
            "shrinks the sum alone",
            "context * shrink",
            "context",
            "You rescale the sum of the exponentials, and the context so far stays as it was. It is a sum of "
            "the same exponentials.",
        ),
        (
            "takes the maximum of each block",
            "raised = max(largest, scores.max())",
            "raised = largest = scores.max()",  # so shrink is 1
            "You shift each block by its own maximum, so its exponentials cannot be added to another "
            "block's. All must be shifted by the same number in the end: which one, and how do you correct "
            "what you have?",
        ),
        (
            "keeps the last block only",
            "        largest = raised\n",
            "",
            "This is the context of the last block alone. Do you add each block to the sums so far, and do you store "
            "the new maximum for the next round?",
        ),
        (
            "turns the factor over",
            "largest - raised",
            "raised - largest",
            "NaN from the first block on. The old sums take a factor, `exp` of the difference of two maxima, and "
            "that should be 0 for the first block: which maximum is subtracted from which, if one is -inf?",
        ),
        (
            "starts the maximum at 0",
            "-torch.inf",
            "torch.zeros(())",
            "Your maximum starts at 0. Where all scores lie near -1000, every `exp(score - 0)` is 0, and 0 / "
            "0 is NaN. Which start is below every score?",
        ),
        (
            "takes no maximum",
            "raised = max(largest, scores.max())",
            "raised = largest = torch.zeros(())",  # so shrink is 1
            "Right for small scores. But `exp(1000)` is inf in float32, and `exp(-1000)` is 0: shift the "
            "scores before the exponential.",
        ),
        "takes a softmax in each block, and their mean",
        "takes a softmax in each block, and their sum",
        (
            "forgets to divide",
            " / total",
            "",
            "The sum of the exponentials times the values is right. Divide it by the sum of the "
            "exponentials, once, at the end.",
        ),
        "keeps the blocks",
        (
            "loops twice",
            "-torch.inf",
            "max(scores.max() for scores, _ in blocks)",
            "The second loop gets nothing: blocks come once. Use the largest score so far, and correct the "
            "sums when it rises.",
        ),
    ],
    hints=[
        "Keep three things from block to block: the largest score so far, the sum of the exponentials, the "
        "context before it is divided.",
        "`exp(s - new)` is `exp(s - old) * exp(old - new)`: one factor brings all old exponentials to the new maximum.",
        "For each block: the new maximum; both sums times `torch.exp(old - new)`; then add `torch.exp(scores "
        "- new).sum()` and `torch.exp(scores - new) @ values`. Start the maximum at -inf.",
    ],
    why="After each block both sums hold `exp(score - largest)` of all scores so far: old terms are brought "
    "to the new maximum by one common factor, `exp(old - new)`. In the quotient the maximum cancels, as in "
    "every softmax.",
    moral="So a fast kernel walks over the keys in blocks, and never stores a row of the table.",
)


@block_by_block.mistake("takes a softmax in each block, and their mean")
def mean_of_softmaxes(blocks):
    """Your blocks all count the same, though the large scores may all stand in one. One sum of exponentials should
    run over all blocks."""
    contexts = [torch.softmax(scores, dim=0) @ values for scores, values in blocks]
    return sum(contexts) / len(contexts)


@block_by_block.mistake("takes a softmax in each block, and their sum")
def sum_of_softmaxes(blocks):
    """In each of your blocks the weights sum to 1, so in all they sum to the number of blocks. One sum of
    exponentials should run over all blocks."""
    return sum(torch.softmax(scores, dim=0) @ values for scores, values in blocks)


@block_by_block.mistake
def keeps_the_blocks(blocks):
    """You keep the blocks, but all lie in the same memory: what you kept was written over by the last one. Keep sums
    instead: a maximum, a sum of exponentials, a context."""
    scores, values = zip(*blocks, strict=True)
    return torch.softmax(torch.cat(scores), dim=0) @ torch.cat(values)


EXERCISES = [three_in_one, counting, step_with_cache, block_by_block]
progress = Progress(EXERCISES)

"""Exercises of notebook 09: three matrices in one, what a layer costs, and softmax block by block."""

import torch
from torch import nn

from .base import Exercise, Progress


def fuse(W_query, W_key, W_value):
    """One new nn.Linear in place of three of the same sizes: its output is queries, keys and values."""
    d_out, d_in = W_query.weight.shape
    fused = nn.Linear(d_in, 3 * d_out, bias=W_query.bias is not None)
    with torch.no_grad():
        fused.weight.copy_(torch.cat([W_query.weight, W_key.weight, W_value.weight]))
        if fused.bias is not None:
            fused.bias.copy_(torch.cat([W_query.bias, W_key.bias, W_value.bias]))
    return fused


def three_layers(generator):
    for d_in, d_out, bias in ((3, 2, False), (2, 4, True), (4, 4, True), (5, 1, True), (1, 3, False)):
        layers = [nn.Linear(d_in, d_out, bias=bias) for _ in range(3)]
        for parameter in nn.ModuleList(layers).parameters():
            nn.init.normal_(parameter, generator=generator)
        yield tuple(layers)


def fused_facts(answer, W_query, W_key, W_value):
    """What the layer is and holds, and the old layers afterwards."""
    torch.default_generator.manual_seed(0)  # for numbers that weren't set; torch.manual_seed is much slower
    fused = answer(W_query, W_key, W_value)
    facts = {"type": fused, "weight": getattr(fused, "weight", None), "bias": getattr(fused, "bias", None)}
    return facts | {"old W_query": W_query.weight, "old W_key": W_key.weight, "old W_value": W_value.weight}


three_in_one = Exercise(
    name="three_in_one",
    imports="from torch import nn",
    title="Three matrices in one",
    prompt="Three `nn.Linear` of the same size make queries, keys and values. Without changing them, return one new "
    "`nn.Linear`, whose output `.chunk(3, dim=-1)` cuts into queries, keys and values, in that order. It should "
    "have a bias only if the three have (if not, their `bias` is None).",
    solution=fuse,
    cases=three_layers,
    call=fused_facts,
    mistakes={
        ("joins along dimension 1", "W_value.weight]", "W_value.weight], dim=1"): """
            You join along dimension 1, which counts the inputs, so the matrix doesn't fit into the layer. `nn.Linear`
            stores (d_out, d_in). Which of the two should become three times as long?""",
        (
            "joins along dimension 1 and puts that in",
            "fused.weight.copy_(torch.cat([W_query.weight, W_key.weight, W_value.weight]))",
            "fused.weight = nn.Parameter(torch.cat([W_query.weight, W_key.weight, W_value.weight], dim=1))",
        ): """
            Your matrix is (d_out, 3 * d_in), so it expects an input that's three times as wide. What should become
            wider, the input or the output?""",
        "makes the input wider": ...,
        "joins the transposed matrices": ...,
        ("mixes up the order", "d_out, d_in", "W_query, W_key = W_key, W_query\n    d_out, d_in"): """
            All numbers are there, but the keys come first. In which order will the output be cut?""",
        # Both the weights and the biases end in these brackets.
        ("lets the three take turns", "]))", "]).unflatten(0, (3, -1)).transpose(0, 1).flatten(0, 1))"): """
            Your rows take turns: one for the queries, one for the keys, one for the values. But `chunk` cuts the output
            into three pieces. Which rows should the first piece come from?""",
        "adds the three up": ...,
        ("makes a layer without bias", "bias=W_query.bias is not None", "bias=False"): """
            That's right for layers without biases. If the three have biases, what should the new layer have?""",
        (
            "copies nothing",
            "fused.weight.copy_(torch.cat([W_query.weight, W_key.weight, W_value.weight]))\n        "
            "if fused.bias is not None",
            "if False",
        ): """
            The new layer has the right shape, but its numbers are still random. Where do you copy the three layers into
            it?""",
        (
            "copies only the biases",
            "fused.weight.copy_(torch.cat([W_query.weight, W_key.weight, W_value.weight]))",
            "pass",
        ): """
            The matrix has the right shape, but its numbers are still random. What should be copied besides the
            biases?""",
        ("leaves the new bias at random", "if fused.bias is not None", "if False"): """
            The matrix is right. But the new layer also has a bias, which is still random. What should it contain?""",
        "leaves the rows of the values at random": ...,
        ("uses the keys twice", "    d_out, d_in", "    W_value = W_key\n    d_out, d_in"): """
            The last third of your matrix is the keys' again. Which layer haven't you used?""",
        "has a bias where there was none": ...,
        ("copies where gradients are recorded", "with torch.no_grad()", "if True"): """
            You copy the right numbers, but while PyTorch records gradients, it doesn't let you write into a parameter.
            Which `with` line stops the recording?""",
        (
            "puts all into W_query",
            "return fused",
            "W_query.weight, W_query.bias = fused.weight, fused.bias\n    return W_query",
        ): """
            The numbers are right, but you changed `W_query` itself, so it can't make queries any more. What can you put
            the numbers into instead?""",
    },
    hints=[
        "Row i of a stored matrix makes entry i of the output. Whose rows should come first?",
        "The new layer is `nn.Linear(d_in, 3 * d_out, bias=W_query.bias is not None)`. Copy under `torch.no_grad()`.",
        "`fused.weight.copy_(torch.cat([W_query.weight, W_key.weight, W_value.weight]))`, and if `bias` isn't None, "
        "the same for the biases.",
    ],
    why="`nn.Linear` stores (d_out, d_in), and each row makes one entry of the output from the complete input. So if "
    "you stack the matrices row below row, the outputs come side by side. Each bias goes with its row.",
    moral="One product replaces three. It takes the same FLOPs, but reads `x` only once.",
)


@three_in_one.mistake
def makes_the_input_wider(W_query, W_key, W_value):
    """Your layer takes an input that's three times as wide, but there's only one `x`. What should become wider
    instead?"""
    d_out, d_in = W_query.weight.shape
    fused = nn.Linear(3 * d_in, d_out, bias=W_query.bias is not None)
    fused.weight.data = torch.cat([W_query.weight, W_key.weight, W_value.weight], dim=1)
    if fused.bias is not None:
        fused.bias.data.copy_(torch.cat([W_query.bias, W_key.bias, W_value.bias]))  # stops: they don't fit
    return fused


@three_in_one.mistake
def joins_the_transposed_matrices(W_query, W_key, W_value):
    """Your matrix is (d_in, 3 * d_out). That would be right for `x @ W`, but which shape does `nn.Linear` store?"""
    fused = fuse(W_query, W_key, W_value)
    fused.weight.data = fused.weight.data.T.contiguous()
    return fused


@three_in_one.mistake
def leaves_the_rows_of_the_values_at_random(W_query, W_key, W_value):
    """The first two thirds are right, but the last third is still random. Which of the three layers didn't you copy?"""
    d_out, d_in = W_query.weight.shape
    fused = nn.Linear(d_in, 3 * d_out, bias=W_query.bias is not None)
    for name, parameter in fused.named_parameters():
        parameter.data[: 2 * d_out] = torch.cat([getattr(W_query, name), getattr(W_key, name)])
    return fused


@three_in_one.mistake
def adds_the_three_up(W_query, W_key, W_value):
    """You add the matrices up, so the output is queries + keys + values. Can a cut take a sum apart again?"""
    fused = fuse(W_query, W_key, W_value)
    for parameter in fused.parameters():
        parameter.data = sum(parameter.data.chunk(3))
    return fused


@three_in_one.mistake
def has_a_bias_where_there_was_none(W_query, W_key, W_value):
    """The matrix is right, but your layer always has a bias, and `nn.Linear` fills it at random. When should it have
    one, and what should be in it?"""
    d_out, d_in = W_query.weight.shape
    fused = nn.Linear(d_in, 3 * d_out)
    fused.weight.data = torch.cat([W_query.weight, W_key.weight, W_value.weight])
    return fused


def layer_costs(b, num_tokens, d_in, d_out, num_heads):
    """Two whole numbers: the FLOPs of one forward pass, and the parameters."""
    matrices = 3 * d_in * d_out + d_out**2
    tables = 2 * num_tokens**2 * d_out
    return 2 * b * (num_tokens * matrices + tables), matrices + d_out


counting = Exercise(
    name="counting",
    title="What a layer costs",
    prompt="A `MultiHeadAttention` without `qkv_bias` gets `x`, (b, num_tokens, d_in). Return two numbers: the FLOPs "
    "of a forward pass, then the parameters. Count nothing but matrix products, including the scores that the mask "
    "hides, and remember that `out_proj` has a bias. You may not need every argument.",
    solution=layer_costs,
    cases=lambda g: [(2, 6, 3, 4, 2), (1, 1, 5, 2, 1), (3, 7, 4, 6, 3), (8, 1024, 768, 768, 12)],
    mistakes={
        ("forgets the factor 2", "return 2 * b", "return b"): """
            The parameters are right. But you count each term of a product once. Which two operations does it take?""",
        ("multiplies the score matrices by the heads", "tables = 2", "tables = num_heads * 2"): """
            You count num_heads score matrices, each for queries of full width. How wide is the query of one head?""",
        ("counts one head's scores and context", "num_tokens**2 * d_out", "num_tokens**2 * d_out // num_heads"): """
            You count scores and context for one head. How many heads are there?""",
        ("multiplies everything by the heads", "return 2", "return num_heads * 2"): """
            You multiply all FLOPs by num_heads. If there are more heads, how wide is each of them?""",
        ("forgets the FLOPs of out_proj", "num_tokens * matrices", "num_tokens * 3 * d_in * d_out"): """
            The parameters are right, but one more product comes after the heads. Which layer is the last?""",
        # It's in the matrices and in the parameters.
        ("forgets out_proj altogether", " + d_out", " + 0 * d_out"): """
            You stop at the heads. Which layer comes after them, with FLOPs and parameters of its own?""",
        ("counts half of the scores and context", "tables = 2 * ", "tables = "): """
            For pairs of tokens, you count half of the FLOPs. Did you forget one of the two products, or did you leave
            out the pairs that the mask hides?""",
        ("leaves out what the mask hides", "2 * num_tokens**2", "num_tokens * (num_tokens + 1)"): """
            You count only the pairs that the mask shows. What does the prompt say about the hidden ones?""",
        ("forgets scores and context", "matrices + tables", "matrices"): """
            You count the four layers. Which two products in between have no parameters, but take FLOPs?""",
        ("takes num_tokens for its square", "num_tokens**2", "num_tokens"): """
            The four layers are right. But each of num_tokens queries meets how many keys?""",
        ("counts one sentence", "2 * b", "2"): "These are the FLOPs of one sentence. How many sentences does `x` have?",
        ("adds up the bias", "num_tokens * matrices", "num_tokens * matrices + num_tokens * d_out // 2"): """
            The parameters are right. In the FLOPs you also count adding the bias. Is that a matrix product?""",
        ("lets out_proj take d_in", "d_out**2", "d_in * d_out"): """
            That's right where d_in is d_out. But how wide is what `out_proj` gets from the heads?""",
        ("forgets the bias of out_proj", "matrices + d_out", "matrices"): """
            The FLOPs are right. Which trainable numbers does `out_proj` have besides its matrix?""",
        ("gives all four layers a bias", "matrices + d_out", "matrices + 4 * d_out"): """
            The FLOPs are right. But you count a bias for all four layers. Which of them have one without
            `qkv_bias`?""",
    },
    hints=[
        "The product of an (n, k) and a (k, m) matrix has n * m entries. Each is a sum of k terms, so how many FLOPs "
        "does the product take?",
        "Each sentence takes six products: queries, keys, values, scores, context, out_proj. Which shapes meet in "
        "each? Take all heads together, since num_heads times head_dim is d_out.",
        "Each matrix of m parameters takes `2 * b * num_tokens * m` FLOPs, and scores and context take `2 * b * "
        "num_tokens**2 * d_out` each. The parameters are the four matrices and d_out biases.",
    ],
    why="Each token meets each entry of the four matrices once, with a multiplication and an addition. Scores and "
    "context have num_tokens**2 pairs, and because all heads together are d_out wide, num_heads cancels. "
    "`attention_helpers.fast.costs.flops` and `parameters` give the same numbers.",
    moral="If d_in = d_out, scores and context take as many FLOPs as the four matrices once num_tokens is 2 * d_out.",
)


def context_of_blocks(blocks):
    """A query's context (head_dim,); each of the blocks has scores (size,) and values (size, head_dim)."""
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
    """Blocks of at most `size` tokens, one after the other in the same memory, as on a chip with little of it."""

    def blocks():
        memory = torch.empty(size), torch.empty(size, values.shape[1])
        for block in zip(scores.split(size), values.split(size), strict=True):
            yield tuple(place[: len(part)].copy_(part) for place, part in zip(memory, block, strict=True))

    return answer(blocks())


def long_rows(generator):
    """Random scores, and scores that rise or fall steeply; complete and incomplete last blocks."""
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
        yield scores, torch.randn(num_tokens, head_dim, generator=generator), size


block_by_block = Exercise(
    name="block_by_block",
    title="Softmax, block by block",
    prompt="`for scores, values in blocks:` gives you the scores of one query and the values of the same tokens, a "
    "few tokens at a time. You can loop only once, and each block overwrites the one before. Return "
    "`torch.softmax(all_scores, dim=0) @ all_values`. Blocks can differ in length, and scores can be near +1000 or "
    "-1000.",
    solution=context_of_blocks,
    cases=long_rows,
    call=in_blocks,
    mistakes={
        ("never corrects the old sums", " * shrink", ""): """
            When the maximum rises, your old sums still belong to the old maximum, so they count too much. By which
            factor do they become sums of `exp(scores - new_maximum)`?""",
        ("corrects only the sum of exponentials", "context * shrink", "context"): """
            You correct the sum of exponentials when the maximum rises. Which other running value is made of the same
            exponentials?""",
        ("corrects only the average", "total * shrink", "total"): """
            You correct the weighted sum of values when the maximum rises. Which other running sum needs the same?""",
        # `shrink` is then 1.
        ("takes the maximum of each block", "max(largest, scores.max())", "largest = scores.max()"): """
            You subtract a different maximum in each block, so the sums don't fit together. Which number should be
            subtracted from all scores in the end, and how do you correct what you already have?""",
        ("keeps only the last block", "        largest = raised\n", ""): """
            This is the context of the last block only. Do you add each block to the sums so far, and do you store the
            new maximum for the next round?""",
        ("inverts the factor", "largest - raised", "raised - largest"): """
            NaN from the first block on. The old sums are multiplied by `exp` of a difference of two maxima, which
            should be 0 for the first block. If one of them is -inf, which do you subtract from which?""",
        ("starts the maximum at 0", "-torch.inf", "torch.zeros(())"): """
            Your maximum starts at 0. If all scores are near -1000, every `exp(score - 0)` is 0, and 0 / 0 is NaN. Which
            start is below every score?""",
        # `shrink` is then 1.
        ("takes no maximum", "raised = max(largest, scores.max())", "raised = largest = torch.zeros(())"): """
            That's right for small scores. But in float32 `exp(1000)` is inf, and `exp(-1000)` is 0. What does softmax
            subtract to avoid that?""",
        "takes a softmax in each block, and their mean": ...,
        "takes a softmax in each block, and their sum": ...,
        ("forgets to divide", " / total", ""): """
            The weighted sum of the values is right, but its weights don't sum to 1 yet. What's missing at the end?""",
        "keeps the blocks": ...,
        ("loops twice", "-torch.inf", "max(scores.max() for scores, _ in blocks)"): """
            Your second loop gets nothing, because the blocks come only once. Can you start with the largest score so
            far, and correct the sums when it rises?""",
    },
    hints=[
        "Keep three running values: the largest score, the sum of exponentials, and the weighted sum of values.",
        "`exp(s - new)` is `exp(s - old) * exp(old - new)`, so one factor brings all old exponentials to the new "
        "maximum.",
        "For each block: take the new maximum, multiply both sums by `torch.exp(old - new)`, then add "
        "`torch.exp(scores - new).sum()` and `torch.exp(scores - new) @ values`. Start the maximum at -inf.",
    ],
    why="After each block, both sums contain `exp(score - largest)` of all scores so far, because one common factor, "
    "`exp(old - new)`, brings the old terms to the new maximum. In the quotient the maximum cancels, as in every "
    "softmax.",
    moral="That's how a fast kernel goes through the keys in blocks, and never stores a complete row of the score "
    "matrix.",
)


@block_by_block.mistake("takes a softmax in each block, and their mean")
def mean_of_softmaxes(blocks):
    """All your blocks count the same, even if one of them has all the large scores. Which sum should run over all
    blocks?"""
    contexts = [torch.softmax(scores, dim=0) @ values for scores, values in blocks]
    return sum(contexts) / len(contexts)


@block_by_block.mistake("takes a softmax in each block, and their sum")
def sum_of_softmaxes(blocks):
    """The weights of each block sum to 1, so those of three blocks sum to 3. Which sum should run over all blocks?"""
    return sum(torch.softmax(scores, dim=0) @ values for scores, values in blocks)


@block_by_block.mistake
def keeps_the_blocks(blocks):
    """You keep the blocks, but they share their memory, so the last one overwrote the others. Which running values
    would be enough?"""
    scores, values = zip(*blocks, strict=True)
    return torch.softmax(torch.cat(scores), dim=0) @ torch.cat(values)


EXERCISES = [three_in_one, counting, block_by_block]
progress = Progress(EXERCISES)

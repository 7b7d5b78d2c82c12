"""Exercises of notebook 09: softmax block by block, and a gradient without stored weights."""

import torch

from .base import Exercise, Progress, Seen, exercises_in
from .seen import Watch


def context_of_blocks(blocks):
    """A query's context (head_dim,).

    blocks: pairs of scores (size,) and values (size, head_dim).
    """
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
    """What an answer returns for blocks of at most `size` tokens, which come one after the other in the same memory.

    A fault is that more and more numbers are kept, or all scores: on a chip, there's no room for them.
    """
    kept = []

    def blocks():
        memory = torch.empty(size), torch.empty(size, values.shape[1])
        for block in zip(scores.split(size), values.split(size), strict=True):
            kept.append(watch.alive())
            yield tuple(place[: len(part)].copy_(part) for place, part in zip(memory, block, strict=True))

    with Watch(in_blocks) as watch:
        context = answer(blocks())
    if len(kept) > 3 and kept[-1] > kept[-2] > kept[-3]:
        numbers = ", then ".join(map(str, kept[1:]))
        return Seen(context, f"Your code keeps more numbers after each block: {numbers}. So it needs the complete row.")
    row = next((line for tensor, line in watch.made if len(scores) > size and len(scores) in tensor.shape), "")
    return Seen(context, f"Your code makes a tensor for all {len(scores)} tokens, in {row}.") if row else context


def long_rows(generator):
    """Random scores, and scores that rise or fall steeply; complete and incomplete last blocks."""
    for num_tokens, head_dim, size, slope, shift in (
        (7, 3, 3, 0.0, 0.0),
        (9, 2, 2, 0.5, 0.0),
        (9, 4, 2, -100.0, 0.0),
        (5, 1, 1, 1.0, 1000.0),
        (6, 3, 4, 0.0, -1000.0),
        (1, 2, 5, 0.0, 3.0),
        (6, 2, 4, 100.0, -300.0),
    ):
        scores = torch.randn(num_tokens, generator=generator) + slope * torch.arange(num_tokens) + shift
        yield scores, torch.randn(num_tokens, head_dim, generator=generator), size


def mean_of_softmaxes(blocks):
    contexts = [torch.softmax(scores, dim=0) @ values for scores, values in blocks]
    return sum(contexts) / len(contexts)


block_by_block = Exercise(
    title="Softmax, block by block",
    prompt="`for scores, values in blocks:` gives you the scores of one query and the values of the same tokens, a "
    "few tokens at a time. You can loop only once, and each block overwrites the one before. Return "
    "`torch.softmax(all_scores, dim=0) @ all_values`. Blocks can differ in length, and scores can be near +1000 or "
    "-1000.",
    solution=context_of_blocks,
    cases=long_rows,
    call=in_blocks,
    tolerance=1e-4,
    mistakes={
        (" * shrink", ""): "When the maximum rises, your old sums still belong to the old maximum, so they count too "
        "much. By which factor do they become sums of `exp(scores - new_maximum)`?",
        ("context * shrink", "context"): "You correct the sum of exponentials when the maximum rises. Which other "
        "running value is made of the same exponentials?",
        ("max(largest, scores.max())", "scores.max()"): "",
        ("        largest = raised\n", ""): "This is the context of the last block only. Do you add each block to the "
        "sums so far, and do you store the new maximum for the next round?",
        ("-torch.inf", "torch.zeros(())"): "",
        ("largest, total", "blocks = [*blocks]\n    largest, total"): "You keep the blocks themselves, but each one "
        "overwrites the one before, so you use the last one again and again. What could you keep of a block instead?",
        ("raised = max(largest, scores.max())", "raised = largest = torch.zeros(())"): "",
        mean_of_softmaxes: "All your blocks count the same, even if one has all the large scores. Which sum should run "
        "over all?",
        (" / total", ""): "The weighted sum is right, but its weights don't sum to 1 yet. What's missing at the end?",
        ("torch.exp(largest - raised)", "torch.exp(raised - largest) if largest > -torch.inf else 0"): "Your factor is "
        "`exp(new - old)`, which makes the old sums larger when the maximum rises. Which way round?",
    },
    heading="09#Can-softmax-work-without-the-complete-row?",
    hints={
        "largest": "Keep three running values: the largest score, the sum of exponentials, and the weighted sum of "
        "values. Start the maximum at -inf.",
        "total": "`exp(s - new)` is `exp(s - old) * exp(old - new)`, so one factor brings all old exponentials to the "
        "new maximum. Then add `torch.exp(scores - new).sum()`.",
        "context": "Multiply the weighted sum by the same factor, then add `torch.exp(scores - new) @ values`.",
        "result": "Divide the weighted sum by the sum of exponentials.",
    },
    why="After each block, both sums contain `exp(score - largest)` of all scores so far, because one common factor, "
    "`exp(old - new)`, brings the old terms to the new maximum.",
    moral="That's how a fast kernel goes through the keys in blocks, and never stores a complete row of the score "
    "matrix.",
)


def block_gradient(queries, keys, start, log_total, grad_context):
    """The gradient of a block's values (size, head_dim).

    Its keys belong to the tokens from `start` on.
    """
    scores = queries @ keys.T / queries.shape[1] ** 0.5  # (num_tokens, size)
    positions = start + torch.arange(len(keys))
    future = positions > torch.arange(len(queries))[:, None]
    weights = torch.exp(scores - log_total).masked_fill(future, 0.0)
    return weights.T @ grad_context


def one_block(generator):
    """A block of keys out of a text: the first one, one in the middle, and the last one, which is shorter."""
    for num_tokens, head_dim, start, size in ((6, 3, 0, 2), (7, 2, 2, 3), (5, 4, 4, 2), (4, 1, 0, 4)):
        queries, keys, grad_context = torch.randn(3, num_tokens, head_dim, generator=generator)
        future = torch.ones(num_tokens, num_tokens).triu(1).bool()
        scores = (queries @ keys.T / head_dim**0.5).masked_fill(future, -torch.inf)
        block = keys[start : start + size].clone()
        yield queries, block, start, scores.logsumexp(dim=1, keepdim=True), grad_context


block_again = Exercise(
    title="A gradient without the matrix",
    prompt="One causal head computed `context = weights @ values` and kept no weights, only `log_total`, (num_tokens, "
    "1): for each query, the logarithm of the sum of its exponentials. You get all queries, the keys of one block, "
    "which belong to the tokens `start`, `start + 1` and so on, and the context's gradient, (num_tokens, head_dim). "
    "Return the gradient of this block's values, (size, head_dim).",
    solution=block_gradient,
    cases=one_block,
    mistakes={
        (".masked_fill(future, 0.0)", ""): "Your weights also count queries that come before a key, which never saw "
        "it. Which weights should be 0?",
        ("start + torch", "torch"): "That's right for the first block. Whose are a later block's keys?",
        (" / queries.shape[1] ** 0.5", ""): "`log_total` comes from scaled scores. What should you divide yours by?",
        ("torch.exp(scores - log_total)", "torch.softmax(scores, dim=1)"): "Your softmax divides by the block's own "
        "sum, so the weights in each block sum to 1. Which sum of all keys do you know already?",
        ("torch.exp(scores - log_total)", "torch.exp(scores) / log_total"): "You divide by the logarithm of the sum, "
        "not by the sum. Which function undoes a logarithm?",
        ("positions >", "positions >="): "You hide each query's own key as well. Which are in a query's future?",
        ("weights.T", "(weights / weights.sum(dim=0)).T"): "You divide each key's weights by their sum. But a query's "
        "weights were divided already, by `log_total`. Is anything left to divide?",
        ("torch.exp(scores - log_total)", "(torch.exp(scores) / (1 + log_total.exp()))"): "You add 1 to each row's "
        "sum. What is `log_total` the logarithm of?",
        ("return weights.T", "weights = weights * (1 - weights)\n    return weights.T"): "w(1 - w) belongs to the "
        "gradient of the scores. By what was each value multiplied?",
    },
    heading="09#How-can-training-do-without-it?",
    hints={
        "scores": "First make the block's scores again, (num_tokens, size), from queries and keys, and scale them.",
        "weights": "A weight is `exp(score) / sum`, which is `exp(score - log_total)`, and 0 where the key comes after "
        "the query.",
        "result": "Each value was multiplied by its column of weights, so its gradient is `weights.T @ grad_context`.",
    },
    why="With the logarithm of the sum, each weight can be computed without the rest of its row, and the gradient of "
    "`weights @ values` for `values` is `weights.T @ grad_context`.",
    moral="The gradients of queries and keys need the same blocks of weights, so nothing has to be kept for them.",
)


EXERCISES = exercises_in(globals())
progress = Progress(EXERCISES)

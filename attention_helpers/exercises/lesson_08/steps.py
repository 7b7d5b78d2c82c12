"""A step with a cache, and a softmax block by block."""

import torch
from torch.nn import functional as F

from ..base import Exercise, Misconception


def cached_step(queries, keys, values, cached_keys, cached_values):
    """Context of the new token, (b, num_heads, 1, head_dim); all keys so far; all values so far."""
    keys = torch.cat((cached_keys, keys), dim=2)
    values = torch.cat((cached_values, values), dim=2)
    context = F.scaled_dot_product_attention(queries, keys, values)
    return context, keys, values


def asking_for_is_causal(queries, keys, values, cached_keys, cached_values):
    keys = torch.cat((cached_keys, keys), dim=2)
    values = torch.cat((cached_values, values), dim=2)
    context = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    return context, keys, values


def forgetting_the_new_token(queries, keys, values, cached_keys, cached_values):
    scores = queries @ cached_keys.transpose(2, 3) / queries.shape[-1] ** 0.5
    return torch.softmax(scores, dim=-1) @ cached_values, cached_keys, cached_values


def giving_back_the_old_cache(queries, keys, values, cached_keys, cached_values):
    keys = torch.cat((cached_keys, keys), dim=2)
    values = torch.cat((cached_values, values), dim=2)
    context = torch.softmax(queries @ keys.transpose(2, 3) / queries.shape[-1] ** 0.5, dim=-1) @ values
    return context, cached_keys, cached_values


def forgetting_the_cache(queries, keys, values, cached_keys, cached_values):
    scores = queries @ keys.transpose(2, 3) / queries.shape[-1] ** 0.5
    return torch.softmax(scores, dim=-1) @ values, keys, values


def appending_along_the_heads(queries, keys, values, cached_keys, cached_values):
    keys = torch.cat((cached_keys, keys), dim=1)
    values = torch.cat((cached_values, values), dim=1)
    context = torch.softmax(queries @ keys.transpose(2, 3) / queries.shape[-1] ** 0.5, dim=-1) @ values
    return context, keys, values


def appending_along_the_batch(queries, keys, values, cached_keys, cached_values):
    keys = torch.cat((cached_keys, keys))
    values = torch.cat((cached_values, values))
    context = torch.softmax(queries @ keys.transpose(2, 3) / queries.shape[-1] ** 0.5, dim=-1) @ values
    return context, keys, values


def putting_the_new_token_first(queries, keys, values, cached_keys, cached_values):
    keys = torch.cat((keys, cached_keys), dim=2)
    values = torch.cat((values, cached_values), dim=2)
    context = torch.softmax(queries @ keys.transpose(2, 3) / queries.shape[-1] ** 0.5, dim=-1) @ values
    return context, keys, values


def hiding_what_it_should_keep(queries, keys, values, cached_keys, cached_values):
    keys = torch.cat((cached_keys, keys), dim=2)
    values = torch.cat((cached_values, values), dim=2)
    context = torch.zeros_like(queries)  # what torch gives to a row in which nothing is kept
    return context, keys, values


def scaling_by_d_out(queries, keys, values, cached_keys, cached_values):
    keys = torch.cat((cached_keys, keys), dim=2)
    values = torch.cat((cached_values, values), dim=2)
    d_out = queries.shape[1] * queries.shape[-1]
    context = torch.softmax(queries @ keys.transpose(2, 3) / d_out**0.5, dim=-1) @ values
    return context, keys, values


def with_the_softmax_over_the_queries(queries, keys, values, cached_keys, cached_values):
    keys = torch.cat((cached_keys, keys), dim=2)
    values = torch.cat((cached_values, values), dim=2)
    context = torch.softmax(queries @ keys.transpose(2, 3) / queries.shape[-1] ** 0.5, dim=2) @ values
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
    title="One token more",
    prompt="A new token comes: its queries, keys, values are (b, num_heads, 1, head_dim). The cache has keys "
    "and values of all tokens before it, (b, num_heads, past, head_dim); `past` may be 0. Return the new "
    "token's context (the last row of causal attention over all tokens), and the longer cache: keys, values. "
    "Leave the old one as it is.",
    solution=cached_step,
    cases=new_token,
    misconceptions=[
        Misconception(
            "asks for is_causal",
            asking_for_is_causal,
            "With `is_causal=True` torch takes your one query for the first token, which sees key 0 alone. "
            "Yours is the last one: what may it not see?",
        ),
        Misconception(
            "forgets the new token",
            forgetting_the_new_token,
            "The new token looks at the cache alone. It may look at itself, too: append its keys and values first.",
        ),
        Misconception(
            "gives back the old cache",
            giving_back_the_old_cache,
            "The context is right, but you return the old cache: the next token would never see this one.",
        ),
        Misconception(
            "forgets the cache",
            forgetting_the_cache,
            "The new token sees itself alone, so its context is its own values. Put the cached tokens before it.",
        ),
        Misconception(
            "appends along the heads",
            appending_along_the_heads,
            "You append along dimension 1, that of the heads. Which dimension counts the tokens?",
        ),
        Misconception(
            "appends along the batch",
            appending_along_the_batch,
            "`torch.cat` joins along dimension 0 unless told: that is the batch. Which dimension counts the tokens?",
        ),
        Misconception(
            "puts the new token first",
            putting_the_new_token_first,
            "The context is right, since a sum does not care about the order. But in your cache the new "
            "token stands before all others: keep the tokens in theirs.",
        ),
        Misconception(
            "hides what it should keep",
            hiding_what_it_should_keep,
            "Your context is 0: is there a mask whose True means hidden? In `scaled_dot_product_attention` True means "
            "keep, so your token sees nothing. Which tokens need hiding from the last one?",
        ),
        Misconception(
            "scales by d_out",
            scaling_by_d_out,
            "You divide by the root of d_out. One head's score adds up how many products?",
        ),
        Misconception(
            "takes the softmax over the queries",
            with_the_softmax_over_the_queries,
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


def old_sums_never_shrunk(blocks):
    largest, total, context = -torch.inf, 0, 0
    for scores, values in blocks:
        largest = max(largest, scores.max())
        exponentials = torch.exp(scores - largest)
        total = total + exponentials.sum()
        context = context + exponentials @ values
    return context / total


def sum_alone_shrunk(blocks):
    largest, total, context = -torch.inf, 0, 0
    for scores, values in blocks:
        raised = max(largest, scores.max())
        shrink = torch.exp(largest - raised)
        exponentials = torch.exp(scores - raised)
        total = total * shrink + exponentials.sum()
        context = context + exponentials @ values
        largest = raised
    return context / total


def maximum_of_each_block(blocks):
    total = context = 0
    for scores, values in blocks:
        exponentials = torch.exp(scores - scores.max())
        total = total + exponentials.sum()
        context = context + exponentials @ values
    return context / total


def last_block(blocks):
    for scores, values in blocks:
        context = torch.softmax(scores, dim=0) @ values
    return context


def factor_turned_over(blocks):
    largest, total, context = -torch.inf, 0, 0
    for scores, values in blocks:
        raised = max(largest, scores.max())
        shrink = torch.exp(raised - largest)
        exponentials = torch.exp(scores - raised)
        total = total * shrink + exponentials.sum()
        context = context * shrink + exponentials @ values
        largest = raised
    return context / total


def maximum_from_0(blocks):
    largest, total, context = torch.zeros(()), 0, 0
    for scores, values in blocks:
        raised = max(largest, scores.max())
        shrink = torch.exp(largest - raised)
        exponentials = torch.exp(scores - raised)
        total = total * shrink + exponentials.sum()
        context = context * shrink + exponentials @ values
        largest = raised
    return context / total


def without_maximum(blocks):
    total = context = 0
    for scores, values in blocks:
        exponentials = torch.exp(scores)
        total = total + exponentials.sum()
        context = context + exponentials @ values
    return context / total


def mean_of_softmaxes(blocks):
    contexts = [torch.softmax(scores, dim=0) @ values for scores, values in blocks]
    return sum(contexts) / len(contexts)


def sum_of_softmaxes(blocks):
    return sum(torch.softmax(scores, dim=0) @ values for scores, values in blocks)


def not_divided(blocks):
    largest, context = -torch.inf, 0
    for scores, values in blocks:
        raised = max(largest, scores.max())
        context = context * torch.exp(largest - raised) + torch.exp(scores - raised) @ values
        largest = raised
    return context


def all_blocks_kept(blocks):
    scores, values = zip(*blocks, strict=True)
    return torch.softmax(torch.cat(scores), dim=0) @ torch.cat(values)


def in_two_loops(blocks):
    largest = max(scores.max() for scores, _ in blocks)
    total = context = 0
    for scores, values in blocks:
        exponentials = torch.exp(scores - largest)
        total = total + exponentials.sum()
        context = context + exponentials @ values
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
    misconceptions=[
        Misconception(
            "never shrinks the old sums",
            old_sums_never_shrunk,
            "When the maximum rises, your old sums still belong to the old maximum: they count too much. By "
            "which factor do they become sums of `exp(scores - new_maximum)`?",
        ),
        Misconception(
            "shrinks the sum alone",
            sum_alone_shrunk,
            "You rescale the sum of the exponentials, and the context so far stays as it was. It is a sum of "
            "the same exponentials.",
        ),
        Misconception(
            "takes the maximum of each block",
            maximum_of_each_block,
            "You shift each block by its own maximum, so its exponentials cannot be added to another "
            "block's. All must be shifted by the same number in the end: which one, and how do you correct "
            "what you have?",
        ),
        Misconception(
            "keeps the last block only",
            last_block,
            "This is the context of the last block alone. Do you add each block to the sums so far, and do you store "
            "the new maximum for the next round?",
        ),
        Misconception(
            "turns the factor over",
            factor_turned_over,
            "NaN from the first block on. The old sums take a factor, `exp` of the difference of two maxima, and "
            "that should be 0 for the first block: which maximum is subtracted from which, if one is -inf?",
        ),
        Misconception(
            "starts the maximum at 0",
            maximum_from_0,
            "Your maximum starts at 0. Where all scores lie near -1000, every `exp(score - 0)` is 0, and 0 / "
            "0 is NaN. Which start is below every score?",
        ),
        Misconception(
            "takes no maximum",
            without_maximum,
            "Right for small scores. But `exp(1000)` is inf in float32, and `exp(-1000)` is 0: shift the "
            "scores before the exponential.",
        ),
        Misconception(
            "takes a softmax in each block, and their mean",
            mean_of_softmaxes,
            "Your blocks all count the same, though the large scores may all stand in one. One sum of "
            "exponentials should run over all blocks.",
        ),
        Misconception(
            "takes a softmax in each block, and their sum",
            sum_of_softmaxes,
            "In each of your blocks the weights sum to 1, so in all they sum to the number of blocks. One "
            "sum of exponentials should run over all blocks.",
        ),
        Misconception(
            "forgets to divide",
            not_divided,
            "The sum of the exponentials times the values is right. Divide it by the sum of the "
            "exponentials, once, at the end.",
        ),
        Misconception(
            "keeps the blocks",
            all_blocks_kept,
            "You keep the blocks, but all lie in the same memory: what you kept was written over by the last "
            "one. Keep sums instead: a maximum, a sum of exponentials, a context.",
        ),
        Misconception(
            "loops twice",
            in_two_loops,
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

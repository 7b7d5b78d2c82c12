"""Exercises of notebook 13: grouped heads with a cache, the score of induction heads, and an ablation."""

import torch

from .base import Exercise, Progress, exercises_in, normal


def grouped_context(queries, keys, values):
    """queries (num_heads, num_new, head_dim); keys and values (num_kv_heads,
    num_tokens, head_dim)."""
    group, past = len(queries) // len(keys), keys.shape[1] - queries.shape[1]
    keys = keys.repeat_interleave(group, dim=0)
    values = values.repeat_interleave(group, dim=0)
    scores = queries @ keys.mT / keys.shape[-1] ** 0.5
    future = torch.ones(scores.shape[1:], dtype=torch.bool).triu(past + 1)
    scores = scores.masked_fill(future, -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ values


grouped = Exercise(
    title="Nine heads, three keys",
    prompt="Neighbouring query heads share a KV head: of 9, the first three share the first of 3. "
    "`queries` belong to the last num_new of num_tokens tokens, `keys` and `values` to all of them, as with a cache, "
    "and all are rotated already. Return the context of causal attention, (num_heads, num_new, head_dim).",
    solution=grouped_context,
    cases=lambda g: [
        normal(g, (heads, new, width), (shared, n, width), (shared, n, width))
        for heads, shared, new, n, width in ((9, 3, 5, 5, 4), (4, 2, 1, 3, 6), (6, 2, 3, 7, 5), (8, 4, 2, 6, 3))
    ],
    mistakes={
        ("repeat_interleave(group, dim=0)", "repeat(group, 1, 1)"): "Your query heads use KV heads 0, 1, 2, 0, 1, 2, "
        "in turn. Which query heads should share KV head 0?",
        ("repeat_interleave(group, dim=0)", "narrow(0, 0, 1)"): "All your query heads use KV head 0. Which is the "
        "second group's?",
        ("triu(past + 1)", "triu(1)"): "Your queries see too little, as if they belonged to the first tokens. How many "
        "tokens came before the first query's own?",
        ("triu(past + 1)", "triu(past)"): "You hide each query's own token. Which tokens are later than it?",
        ("keys.shape[-1] ** 0.5", "(len(queries) * queries.shape[2]) ** 0.5"): "You scale by the width of all heads "
        "together. How wide are the two vectors in a single dot product?",
        ("values = values.repeat_interleave(group, dim=0)", "values = values.repeat(group, 1, 1)"): "Your keys are "
        "shared rightly, but the values are dealt out in turn. Which query heads should share value head 0?",
    },
    heading="13#Is-this-the-attention-you-built?",
    hints={
        "keys": "First give each query head its own copy: `keys.repeat_interleave(group, dim=0)`, with group = "
        "len(queries) // len(keys), and of the values, too.",
        "future": "Query i belongs to token past + i, with past = num_tokens - num_new. So mask with `triu(past + 1)`.",
        "result": "Scale by the root of head_dim, mask, take the softmax, and average the values.",
    },
    why="All query heads of a group get the same KV head, and the mask's diagonal moves right by the earlier tokens.",
    moral="With 3 KV heads for 9 query heads, this model's KV cache is a third as large as it would be with 9.",
)


def draw_random_maps(generator, lengths=(6, 2, 9)):
    """Causal maps as a model has them, of several sizes."""
    sizes = zip(((3, 4), (1, 2), (2, 3)), lengths, strict=True)
    scores = [2 * torch.randn(*heads, n, n, generator=generator) for heads, n in sizes]
    return [s.masked_fill(torch.ones(s.shape[-2:]).triu(1).bool(), -torch.inf).softmax(dim=-1) for s in scores]


def induction_scores(maps, period):
    """Each head's score, (num_layers, num_heads); maps (num_layers, num_heads,
    num_tokens, num_tokens)."""
    came_next = maps.diagonal(1 - period, dim1=-2, dim2=-1)  # from period - 1
    second_half = came_next[..., 1:]
    return second_half.mean(dim=-1)


induction = Exercise(
    title="The induction score",
    prompt="A text consists of `period` tokens and then the same ones again. In its second half, an induction head "
    "reads the token that came next the first time. Return each head's mean weight on it in the second half.",
    solution=induction_scores,
    cases=lambda generator: [(maps, maps.shape[-1] // 2) for maps in draw_random_maps(generator, lengths=(6, 4, 10))],
    mistakes={
        ("came_next[..., 1:]", "maps.diagonal(-period, dim1=-2, dim2=-1)"): "You score duplicate-token heads, which "
        "read the same token one period ago. Would that token help to predict the next one?",
        ("came_next[..., 1:]", "maps.diagonal(-period - 1, dim1=-2, dim2=-1)"): "You went one token too far back, to "
        "the one before the earlier copy. On which side of the copy is the token that comes next?",
        ("[..., 1:]", ""): "Nearly: your mean begins one row too early. To which half does token period - 1 belong?",
        (".mean(dim=-1)", ".sum(dim=-1) / maps.shape[-1]"): "You divide by all tokens. How many are in the second "
        "half?",
        ("[..., 1:]", "[..., 1:-1]"): "You leave the last row out. How many rows has the second half?",
        ("second_half.mean(dim=-1)", "maps[..., period:, :period].mean(dim=(-2, -1))"): "You average all weights on "
        "the first half. Which one of each row is on the token that came next?",
        (".mean(dim=-1)", ".amax(dim=-1)"): "You take the largest weight. What's asked for instead?",
    },
    heading="13#Which-heads-continue-repeated-text?",
    hints={
        "came_next": "With period 4 the tokens are A B C D A B C D. How far back from the second A is the token after "
        "the first? `maps.diagonal(1 - period, dim1=-2, dim2=-1)` goes that far.",
        "second_half": "That diagonal begins with row period - 1, which still belongs to the first half.",
        "result": "Take the mean over the rows.",
    },
    why="The diagonal begins with the last token of the first half, which hasn't seen anything twice.",
    moral="On random tokens, only the first half helps to predict the second.",
)


def without_heads(context, heads, num_heads):
    """A copy of context (b, num_tokens, d_model), some heads' parts 0."""
    # (b, num_tokens, num_heads, head_dim)
    parts = context.unflatten(-1, (num_heads, -1)).clone()
    parts[:, :, heads] = 0.0
    return parts.flatten(2)


def draw_contexts(generator):
    sizes = [(2, 6, 5, 3, [1, 4]), (1, 9, 9, 2, [0]), (3, 6, 4, 5, [3, 0, 1]), (2, 4, 2, 3, [])]
    return [(*normal(generator, (b, n, heads * width)), chosen, heads) for b, n, heads, width, chosen in sizes]


def removes_the_numbers(context, heads, num_heads):
    parts = context.unflatten(-1, (num_heads, -1))
    return parts[:, :, [n for n in range(num_heads) if n not in heads]].flatten(2)


ablating = Exercise(
    title="Take heads away",
    prompt="`context` holds the outputs of num_heads heads side by side, before `out_proj` joins them. Return a copy "
    "in which those of `heads`, a list of numbers from 0, are 0. Don't change `context` itself.",
    solution=without_heads,
    cases=draw_contexts,
    mistakes={
        ("parts[:, :, heads]", "parts[:, heads]"): "You set whole tokens to 0, in all heads. Which dimension counts "
        "the heads?",
        ("parts[:, :, heads]", "parts[:, :, [head - 1 for head in heads]]"): "You set the head before each of these to "
        "0. Which number does the first head have?",
        ("heads] = 0.0", "[*{*range(num_heads)}.difference(heads)]] = 0.0"): "You keep these heads and set all others "
        "to 0. Which of the two is an ablation?",
        ("(num_heads, -1)", "(-1, num_heads)", "parts[:, :, heads]", "parts[..., heads]"): "You set every num_heads-th "
        "number to 0, but a head's numbers are next to each other. Which dimension comes first when you cut d_model, "
        "the heads or the numbers of a head?",
        removes_the_numbers: "You remove the heads' numbers, so `out_proj` gets too few. What should be in their "
        "place?",
        ("parts[:, :, heads]", "parts[:, :, heads[0] : heads[-1] + 1]"): "You set all heads between the first and the "
        "last of the list to 0. What about those that aren't in it?",
        ("parts[:, :, heads]", "parts[:, :, heads[:1]]"): "You set only the list's first head to 0. What about the "
        "others?",
    },
    heading="13#Does-the-model-need-them?",
    hints={
        "parts": "First cut d_model into heads, as notebook 06 does: `context.unflatten(-1, (num_heads, -1)).clone()`. "
        "Then set `parts[:, :, heads] = 0.0`.",
        "result": "Join the last two dimensions again, with `.flatten(2)`.",
    },
    why="A head's numbers are next to each other, so cutting the last dimension into num_heads parts puts the heads "
    "into a dimension of their own, and a list of numbers selects several of them at once.",
    moral="What `out_proj` makes of zeros is 0, so these heads add nothing to the residual stream.",
)


EXERCISES = exercises_in(globals())
progress = Progress(EXERCISES)

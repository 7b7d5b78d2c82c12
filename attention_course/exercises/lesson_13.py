"""Exercises of notebook 13: scores for the roles of heads, an ablation, and grouped heads by hand."""
# After a change: make exercises, then make refresh NOTEBOOK=13

import torch

from .base import Exercise, Progress, normal


def previous_token_scores(maps):
    """Each head's mean weight on the token before, (num_layers, num_heads)."""
    return maps.diagonal(-1, dim1=-2, dim2=-1).mean(dim=-1)


def drawn_maps(generator, lengths=(6, 2, 9)):
    """Causal maps as a model has them, of several sizes."""
    sizes = zip(((3, 4), (1, 2), (2, 3)), lengths, strict=True)
    scores = [2 * torch.randn(*heads, n, n, generator=generator) for heads, n in sizes]
    return [s.masked_fill(torch.ones(s.shape[-2:]).triu(1).bool(), -torch.inf).softmax(dim=-1) for s in scores]


previous_token = Exercise(
    name="previous_token",
    title="Who reads the token before?",
    prompt="`maps` holds all heads' weights for one text, (num_layers, num_heads, num_tokens, num_tokens). Return "
    "each head's mean weight on the token just before, (num_layers, num_heads). The first token doesn't count.",
    solution=previous_token_scores,
    cases=lambda generator: [(maps,) for maps in drawn_maps(generator)],
    mistakes={
        ("counts the first token", ".mean(dim=-1)", ".sum(dim=-1) / maps.shape[-1]"): """
            You divide by the number of all tokens, so a head that always reads the token before wouldn't score 1. How
            many tokens have a token before them?""",
        ("takes the token itself", "diagonal(-1", "diagonal(0"): """
            You took the diagonal, which is what each token gives to itself. In which column is the token before?""",
        ("takes the token after", "diagonal(-1", "diagonal(1"): """
            Your scores are 0 everywhere, because you look above the diagonal, where the mask hides the future. On which
            side of it is the past?""",
        ("adds up", ".mean(", ".sum("): """
            You add up the weights, so a longer text scores more. What would make two texts comparable?""",
        ("takes the largest", ".mean(", ".amax("): """
            You take the largest weight, so a single token that happens to look back is enough for a high score. What
            would count all tokens alike?""",
        ("mixes the heads", ".mean(dim=-1)", ".mean(dim=(0, 1))"): """
            You average over layers and heads, which leaves one number per token. Which dimension should disappear, and
            which two should stay?""",
        ("takes the first column", "maps.diagonal(-1, dim1=-2, dim2=-1)", "maps[..., 1:, 0]"): """
            You score the weight on the first token, which is column 0 in every row. Which column holds the token before
            token t?""",
    },
    hints=[
        "For token 5 the weight is in row 5, column 4. Where in a map are the weights for all tokens?",
        "They're the diagonal just below the main one. `maps.diagonal(offset, dim1=-2, dim2=-1)` returns a diagonal.",
        "`maps.diagonal(-1, dim1=-2, dim2=-1)` is (num_layers, num_heads, num_tokens - 1). Average over its last "
        "dimension.",
    ],
    why="Row t, column t - 1 is one step below the diagonal, and there are num_tokens - 1 such positions. `diagonal` "
    "puts them in the last dimension, so the mean leaves one number per head.",
    moral="A head that does nothing else would score 1.",
)


def induction_scores(maps, period):
    """Each head's mean weight on what came next one period ago, (num_layers, num_heads)."""
    came_next = maps.diagonal(1 - period, dim1=-2, dim2=-1)  # of the tokens from period - 1 on
    return came_next[..., 1:].mean(dim=-1)


induction = Exercise(
    name="induction",
    title="The induction score",
    prompt="A text consists of `period` tokens and then the same ones again. In its second half, an induction head "
    "reads the token that came next the first time. Return each head's mean weight on it, (num_layers, num_heads), "
    "averaged over the tokens of the second half.",
    solution=induction_scores,
    cases=lambda generator: [(maps, maps.shape[-1] // 2) for maps in drawn_maps(generator, lengths=(6, 4, 10))],
    mistakes={
        ("reads the same token", "came_next[..., 1:]", "maps.diagonal(-period, dim1=-2, dim2=-1)"): """
            You score duplicate-token heads, which read the same token one period ago. Would that token help to predict
            the next one?""",
        ("reads the token before the same", "came_next[..., 1:]", "maps.diagonal(-period - 1, dim1=-2, dim2=-1)"): """
            You went one token too far back, to the one before the earlier copy. On which side of the copy is the token
            that comes next?""",
        ("counts the last of the first half", "[..., 1:]", ""): """
            Nearly: your mean begins one row too early. To which half does token period - 1 belong?""",
        ("takes the token before", "came_next[..., 1:]", "maps.diagonal(-1, dim1=-2, dim2=-1)[..., period - 1 :]"): """
            You score the token just before. How far back is the token that followed the earlier copy?""",
        ("divides by all tokens", ".mean(dim=-1)", ".sum(dim=-1) / maps.shape[-1]"): """
            You divide by the number of all tokens. How many of them are in the second half?""",
        ("adds up", ".mean(", ".sum("): """
            You add up the weights, so a longer text scores more. What would make two texts comparable?""",
        ("reads a column as a row", "1 - period", "period - 1"): """
            Your scores are 0 everywhere, because you look above the diagonal, where the mask hides the future. Which
            sign does an offset into the past have?""",
    },
    hints=[
        "With period 4 the tokens are A B C D A B C D, and the second A is token 4. What came after the first A?",
        "It's token 1, which is 3 back. The distance is period - 1 for every token of the second half.",
        "`maps.diagonal(1 - period, dim1=-2, dim2=-1)` begins with row period - 1, which still belongs to the first "
        "half. Leave out that entry, and take the mean.",
    ],
    why="What followed a token one period ago is period - 1 tokens back. That diagonal also has an entry for the last "
    "token of the first half, which hasn't seen anything twice, so we leave it out.",
    moral="On random tokens, nothing else can predict the second half.",
)


def grouped_weights(queries, keys):
    """Causal weights, (num_heads, num_tokens, num_tokens)."""
    num_heads, num_tokens, head_dim = queries.shape
    shared = keys.repeat_interleave(num_heads // len(keys), dim=0)  # (num_heads, num_tokens, head_dim)
    scores = queries @ shared.transpose(1, 2) / head_dim**0.5
    future = torch.ones(num_tokens, num_tokens, dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(future, -torch.inf), dim=-1)


shared_keys = Exercise(
    name="shared_keys",
    title="Grouped heads by hand",
    prompt="`queries` are (num_heads, num_tokens, head_dim), and `keys` are (num_kv_heads, num_tokens, head_dim); RoPE "
    "has already rotated both. Neighbouring query heads share a KV head: with 9 and 3, for example, query heads 0 to 2 "
    "use KV head 0. Return the causal weights, (num_heads, num_tokens, num_tokens).",
    solution=grouped_weights,
    cases=lambda g: [
        normal(g, (heads, n, width), (keys, n, width))
        for heads, keys, n, width in ((9, 3, 5, 4), (4, 2, 3, 6), (6, 2, 4, 2), (8, 4, 6, 3))
    ],
    rows_sum_to_one=True,
    mistakes={
        (
            "deals the key heads out in turn",
            "repeat_interleave(num_heads // len(keys), dim=0)",
            "repeat(num_heads // len(keys), 1, 1)",
        ): """
            Your query heads use KV heads 0, 1, 2, 0, 1, 2, in turn. Which query heads should share KV head 0?""",
        ("gives all the first key head", "keys.repeat_interleave(num_heads // len(keys), dim=0)", "keys[:1]"): """
            All your query heads use KV head 0. Which one belongs to the second group?""",
        ("takes the mean of the key heads", "keys.repeat", "keys.mean(dim=0, keepdim=True).expand_as(keys).repeat"): """
            You average all KV heads. How many of them should a single query head use?""",
        (
            "divides by the number of KV heads",
            "keys.repeat_interleave(num_heads // len(keys), dim=0)",
            "keys[torch.arange(num_heads) // len(keys)]",
        ): """
            You divide a query head's number by the number of KV heads. How many query heads share one of them?""",
        ("counts the groups from the end", "keys.repeat", "keys.flip(0).repeat"): """
            Your first group of query heads uses the last KV head. In which order do the groups come?""",
        ("scales by all heads' width", "head_dim**0.5", "(num_heads * head_dim) ** 0.5"): """
            You scale by the width of all heads together. How wide are the two vectors in a single dot product?""",
        ("forgets to scale", " / head_dim**0.5", ""): """
            The heads are shared correctly, but your softmax is too sharp. What happens to the scores before
            softmax?""",
        ("takes the softmax over the queries", "dim=-1", "dim=1"): """
            Your columns sum to 1, not your rows. Which dimension counts the keys?""",
        ("shows the future", "scores.masked_fill(future, -torch.inf)", "scores"): """
            Your tokens read the future. Which scores should softmax never see?""",
    },
    hints=[
        "First give each query head its own copy of the keys. After that, it's attention as you know it.",
        "`keys.repeat_interleave(group, dim=0)` copies each KV head, with group = num_heads // num_kv_heads.",
        "The scores are `queries @ shared.transpose(1, 2) / head_dim**0.5`. Put -inf above the diagonal, and apply "
        "softmax over the last dimension.",
    ],
    why="`repeat_interleave` copies each KV head once for every query head of its group, in order. The rest is "
    "attention as before, because sharing saves memory for keys and values, but no work on the scores.",
    moral="With 3 KV heads for 9 query heads, this model's KV cache is a third as large as it would be with 9.",
)


def without_heads(context, heads, num_heads):
    """A copy of context (b, num_tokens, d_model) in which the parts of some heads are 0."""
    parts = context.unflatten(-1, (num_heads, -1)).clone()  # (b, num_tokens, num_heads, head_dim)
    parts[:, :, heads] = 0.0
    return parts.flatten(2)


def drawn_contexts(generator):
    sizes = [(2, 5, 4, 3, [1, 3]), (1, 9, 9, 2, [0]), (3, 6, 3, 4, [2, 0]), (2, 4, 2, 2, [])]
    return [(*normal(generator, (b, n, heads * width)), chosen, heads) for b, n, heads, width, chosen in sizes]


def cuts_across_the_heads(context, heads, num_heads):
    parts = context.unflatten(-1, (-1, num_heads)).clone()
    parts[..., heads] = 0.0
    return parts.flatten(2)


def removes_the_numbers(context, heads, num_heads):
    parts = context.unflatten(-1, (num_heads, -1))
    return parts[:, :, [n for n in range(num_heads) if n not in heads]].flatten(2)


ablating = Exercise(
    name="ablating",
    title="Take heads away",
    prompt="`context`, (b, num_tokens, d_model), holds the outputs of num_heads heads side by side, before `out_proj` "
    "joins them. Return a copy in which the outputs of some heads are 0. `heads` is a list of their numbers, counted "
    "from 0. Don't change `context` itself.",
    solution=without_heads,
    cases=drawn_contexts,
    mistakes={
        ("takes tokens for heads", "parts[:, :, heads]", "parts[:, heads]"): """
            You set whole tokens to 0, in all heads. Which dimension of your tensor counts the heads?""",
        ("counts from 1", "parts[:, :, heads]", "parts[:, :, [head - 1 for head in heads]]"): """
            You set the head before each of these to 0. Which number does the first head have?""",
        ("keeps these and drops the others", "heads] = 0.0", "[*{*range(num_heads)}.difference(heads)]] = 0.0"): """
            You keep these heads and set all others to 0. Which of the two is an ablation?""",
        ("sets one number per head to 0", "parts[:, :, heads] = 0.0", "parts[:, :, heads, :1] = 0.0"): """
            You set only the first number of each head to 0. How many numbers does a head have?""",
        ("cuts across the heads", cuts_across_the_heads): """
            You set every num_heads-th number to 0, but a head's numbers are next to each other. Which dimension
            comes first when you cut d_model, the heads or the numbers of a head?""",
        ("removes the numbers", removes_the_numbers): """
            You remove the heads' numbers, so what's left is too narrow for `out_proj`. What should be in their
            place?""",
    },
    hints=[
        "First cut d_model into heads, as notebook 06 does. Which shape does that give?",
        "`context.unflatten(-1, (num_heads, -1))` is (b, num_tokens, num_heads, head_dim), without moving a number.",
        "Copy it with `.clone()`, set `parts[:, :, heads] = 0.0`, and join the last two dimensions with `.flatten(2)`.",
    ],
    why="A head's numbers are next to each other, so cutting the last dimension into num_heads parts puts the heads "
    "into a dimension of their own, and a list of numbers selects several of them at once.",
    moral="What `out_proj` makes of zeros is 0, so these heads add nothing to the residual stream.",
)


EXERCISES = [induction, ablating, previous_token, shared_keys]
progress = Progress(EXERCISES)

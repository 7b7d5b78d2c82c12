"""Exercises of notebook 13: scores for the roles of heads, grouped heads by hand, and the best of all heads."""

import torch

from .base import Exercise, Progress


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


def drawn_heads(generator):
    sizes = [(9, 3, 5, 4), (4, 2, 3, 6), (6, 2, 4, 2), (8, 4, 6, 3)]
    return [
        (torch.randn(heads, n, width, generator=generator), torch.randn(keys, n, width, generator=generator))
        for heads, keys, n, width in sizes
    ]


shared_keys = Exercise(
    name="shared_keys",
    title="Grouped heads by hand",
    prompt="`queries` are (num_heads, num_tokens, head_dim), and `keys` are (num_kv_heads, num_tokens, head_dim); RoPE "
    "has already rotated both. Neighbouring query heads share a KV head: with 9 and 3, for example, query heads 0 to 2 "
    "use KV head 0. Return the causal weights, (num_heads, num_tokens, num_tokens).",
    solution=grouped_weights,
    cases=drawn_heads,
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
        (
            "takes the mean of the key heads",
            "repeat_interleave(num_heads // len(keys), dim=0)",
            "mean(dim=0, keepdim=True)",
        ): """
            You average all KV heads. How many of them should a single query head use?""",
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


def strongest_heads(scores, count):
    """The heads with the largest scores, as a list of pairs (layer, head), the largest first."""
    order = scores.flatten().argsort(descending=True)[:count].tolist()
    return [divmod(place, scores.shape[1]) for place in order]


def with_types(answer, scores, count):
    """What an answer returns, and whether it holds tensors where numbers belong, which compare equal to numbers."""
    pairs = answer(scores, count)
    numbers = [number for pair in pairs if isinstance(pair, (tuple, list)) for number in pair]
    return {"pairs": pairs, "tensors": any(isinstance(number, torch.Tensor) for number in numbers)}


def drawn_scores(generator):
    return [(torch.rand(*size, generator=generator), count) for size, count in (((5, 3), 4), ((2, 7), 5), ((4, 4), 1))]


five_heads = Exercise(
    name="five_heads",
    title="Which five?",
    prompt="`scores` has one score per head, (num_layers, num_heads), and no two are equal. Return the `count` heads "
    "with the largest, best first, as a list of pairs `(layer, head)` of Python ints that count from 0.",
    solution=strongest_heads,
    cases=drawn_scores,
    call=with_types,
    mistakes={
        (
            "leaves tensors in the pairs",
            "[divmod(place, scores.shape[1]) for place in order]",
            "[(place // scores.shape[1], place % scores.shape[1]) for place in torch.tensor(order)]",
        ): """
            These are the right heads, but your pairs hold tensors, and a `set` takes equal tensors for different
            things. What turns a tensor into ints?""",
        (
            "returns a tensor",
            "[divmod(place, scores.shape[1]) for place in order]",
            "torch.tensor([divmod(place, scores.shape[1]) for place in order])",
        ): """
            These are the right heads, but you return one tensor. What turns it into a list of pairs?""",
        ("swaps layer and head", "divmod(place, scores.shape[1])", "divmod(place, scores.shape[1])[::-1]"): """
            Your pairs are (head, layer). Which of the two does the exercise name first?""",
        ("gives places in a row of all", "[divmod(place, scores.shape[1]) for place in order]", "order"): """
            These are positions in the flattened scores. Which layer and which head does each of them belong to?""",
        ("takes the smallest", "descending=True", ""): """
            These are the heads with the smallest scores. In which order does `argsort` sort by default?""",
        ("puts the largest last", "in order", "in reversed(order)"): """
            These are the right heads in the opposite order. Which one should come first?""",
        ("divides by the number of layers", "shape[1]", "shape[0]"): """
            You divide by the number of layers. How many entries does one layer have in the flattened scores?""",
        (
            "counts from 1",
            "divmod(place, scores.shape[1])",
            "(place // scores.shape[1] + 1, place % scores.shape[1] + 1)",
        ): """
            Your layers and heads count from 1. What's the first layer called here?""",
        (
            "sorts each layer by itself",
            "[divmod(place, scores.shape[1]) for place in order]",
            "list(enumerate(scores.argmax(dim=1).tolist()))[:count]",
        ): """
            You take the best head of each layer. What if two of the best heads are in the same layer?""",
    },
    hints=[
        "Put all scores into one row with `scores.flatten()`. At which positions are the largest?",
        "`.argsort(descending=True)[:count].tolist()` or `.topk(count).indices.tolist()` returns them as ints.",
        "With 9 heads per layer, position 13 is layer 13 // 9 and head 13 % 9, which is `divmod(13, 9)`.",
    ],
    why="Flattening puts the layers one after another, each num_heads long, so // gives the layer and % gives the "
    "head. `.tolist()` turns a tensor into Python ints.",
    moral="With the induction scores of 270 heads and a count of 5, it finds the five heads of this notebook.",
)


EXERCISES = [previous_token, induction, shared_keys, five_heads]
progress = Progress(EXERCISES)

"""Exercises of notebook 10: what a head is for, and grouped heads by hand."""

import torch

from .base import Exercise, Progress


def previous_token_scores(maps):
    """A head's mean weight on the token before, for all heads (num_layers, num_heads)."""
    return maps.diagonal(-1, dim1=-2, dim2=-1).mean(dim=-1)


def drawn_maps(generator, lengths=(6, 2, 9)):
    """Causal maps as a model has them, of several sizes."""
    sizes = zip(((3, 4), (1, 2), (2, 3)), lengths, strict=True)
    scores = [2 * torch.randn(*heads, n, n, generator=generator) for heads, n in sizes]
    return [s.masked_fill(torch.ones(s.shape[-2:]).triu(1).bool(), -torch.inf).softmax(dim=-1) for s in scores]


previous_token = Exercise(
    name="previous_token",
    title="Who reads the token before?",
    prompt="`maps` holds the weights of all heads for one text, (num_layers, num_heads, num_tokens, num_tokens): rows "
    "read, columns are read. Return a score a head, (num_layers, num_heads): the mean weight that a token gives to the "
    "token just before it. The first token has none before it, and does not count.",
    solution=previous_token_scores,
    cases=lambda generator: [(maps,) for maps in drawn_maps(generator)],
    mistakes=[
        (
            "counts the first token",
            ".mean(dim=-1)",
            ".sum(dim=-1) / maps.shape[-1]",
            "You divide by all tokens. The first has none before it: a head that always reads the token before would "
            "not get 1 from you.",
        ),
        (
            "takes the token itself",
            "diagonal(-1",
            "diagonal(0",
            "That is what each token gives to itself: the diagonal. The token before stands one column to its left.",
        ),
        (
            "takes the token after",
            "diagonal(-1",
            "diagonal(1",
            "You get 0 everywhere, since the future is hidden: you look to the right of the diagonal. Rows read, "
            "columns are read.",
        ),
        (
            "adds up",
            ".mean(",
            ".sum(",
            "You add the weights up, so a longer text scores more. Take their mean.",
        ),
        (
            "takes the largest",
            ".mean(",
            ".amax(",
            "You take the largest of the weights: one token that happens to look back would do. Take their mean.",
        ),
        (
            "mixes the heads",
            ".mean(dim=-1)",
            ".mean(dim=(0, 1))",
            "You take the mean over layers and heads, and a number a token is left. Keep the heads apart, take the "
            "mean over tokens.",
        ),
        (
            "takes the first column",
            "maps.diagonal(-1, dim1=-2, dim2=-1)",
            "maps[..., 1:, 0]",
            "That is the weight on the first token, column 0. The token before token t is column t - 1.",
        ),
    ],
    hints=[
        "For token 5 the weight stands in row 5, column 4. Where do all of these stand in the table?",
        "They are the diagonal below the main one: `maps.diagonal(offset, dim1=-2, dim2=-1)`.",
        "`maps.diagonal(-1, dim1=-2, dim2=-1)` is (num_layers, num_heads, num_tokens - 1): mean over the last.",
    ],
    why="Row t, column t - 1 is one step below the diagonal; there are num_tokens - 1 such places. `diagonal` puts "
    "them last, and the mean leaves one number a head.",
    moral="1 would be a head that does nothing else.",
)


def induction_scores(maps, period):
    """A head's mean weight on what came next, a period ago, (num_layers, num_heads)."""
    came_next = maps.diagonal(1 - period, dim1=-2, dim2=-1)  # of the tokens from period - 1 on
    return came_next[..., 1:].mean(dim=-1)


induction = Exercise(
    name="induction",
    title="The induction score",
    prompt="A text is `period` tokens and then the same ones again, 2 * period in all. A token of the second half has "
    "been there before. An induction head reads the token that came next, that first time. Return a score a head, "
    "(num_layers, num_heads): the mean weight that the tokens of the second half give to that token.",
    solution=induction_scores,
    cases=lambda generator: [(maps, maps.shape[-1] // 2) for maps in drawn_maps(generator, lengths=(6, 4, 10))],
    mistakes=[
        (
            "reads the same token",
            "came_next[..., 1:]",
            "maps.diagonal(-period, dim1=-2, dim2=-1)",
            "You score heads that read the same token one period ago. An induction head reads the one after it: that "
            "is what will come next again.",
        ),
        (
            "reads the token before the same",
            "came_next[..., 1:]",
            "maps.diagonal(-period - 1, dim1=-2, dim2=-1)",
            "You read one too far back: the token before the earlier one, which says nothing of what comes next.",
        ),
        (
            "counts the last of the first half",
            "[..., 1:]",
            "",
            "Nearly: your mean begins one row too early. Token period - 1 is the last of the first half, and has not "
            "been there before.",
        ),
        (
            "takes the token before",
            "came_next[..., 1:]",
            "maps.diagonal(-1, dim1=-2, dim2=-1)[..., period - 1 :]",
            "That is the token just before. The one you want stands period - 1 before.",
        ),
        (
            "divides by all tokens",
            ".mean(dim=-1)",
            ".sum(dim=-1) / maps.shape[-1]",
            "You divide by all tokens of the text. Only those of the second half count.",
        ),
        (
            "adds up",
            ".mean(",
            ".sum(",
            "You add the weights up: a longer text would score more. Take their mean.",
        ),
        (
            "reads a column as a row",
            "1 - period",
            "period - 1",
            "Your score is 0 everywhere: you look above the diagonal, where the future is hidden. Rows read, columns "
            "are read.",
        ),
    ],
    hints=[
        "With period 4 the tokens are A B C D A B C D. The second A is token 4. Which came after the first A?",
        "Token 1, which is 3 before it: the distance is period - 1 for every token of the second half.",
        "`maps.diagonal(1 - period, dim1=-2, dim2=-1)` begins with row period - 1, the last of the first half: leave "
        "its first entry out, and take the mean.",
    ],
    why="What followed a token one period ago stands period - 1 before it. That diagonal has an entry for the last "
    "token of the first half too, which has seen nothing twice.",
    moral="On random tokens said twice nothing else can foretell the second half.",
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
    prompt="queries: (num_heads, num_tokens, head_dim); keys: (num_kv_heads, num_tokens, head_dim), fewer heads, all "
    "of them turned by their positions already. Neighbouring query heads share a key head: with 9 and 3, heads 0, 1, 2 "
    "read key head 0. Return the causal weights, (num_heads, num_tokens, num_tokens).",
    solution=grouped_weights,
    cases=drawn_heads,
    rows_sum_to_one=True,
    mistakes=[
        (
            "deals the key heads out in turn",
            "keys.repeat_interleave(num_heads // len(keys), dim=0)",
            "keys.repeat(num_heads // len(keys), 1, 1)",
            "You deal the key heads out in turn: 0, 1, 2, 0, 1, 2. `repeat` does that. Neighbours share here: 0, 0, 0, "
            "1, 1, 1.",
        ),
        (
            "gives all the first key head",
            "keys.repeat_interleave(num_heads // len(keys), dim=0)",
            "keys[:1]",
            "All your heads read key head 0. Each group has a key head of its own.",
        ),
        (
            "takes the mean of the key heads",
            "keys.repeat_interleave(num_heads // len(keys), dim=0)",
            "keys.mean(dim=0, keepdim=True)",
            "You take the mean of all key heads. Each query head reads one of them, whole.",
        ),
        (
            "counts the groups from the end",
            "keys.repeat",
            "keys.flip(0).repeat",
            "Your first group reads the last key head. The first group reads key head 0.",
        ),
        (
            "scales by all heads' width",
            "head_dim**0.5",
            "(num_heads * head_dim) ** 0.5",
            "You scale by the width of all heads together. A score is a dot product of two vectors head_dim wide.",
        ),
        (
            "forgets to scale",
            " / head_dim**0.5",
            "",
            "The heads are shared right, but the scores are not divided by the root of head_dim.",
        ),
        (
            "shows the future",
            "scores.masked_fill(future, -torch.inf)",
            "scores",
            "Your tokens read the future: hide it before softmax.",
        ),
    ],
    hints=[
        "Give each query head keys of its own first; then it is attention as you know it.",
        "`keys.repeat_interleave(group, dim=0)` with group = num_heads // num_kv_heads.",
        "Then scores by `queries @ shared.transpose(1, 2) / head_dim**0.5`, -inf above the diagonal, softmax over the "
        "last dimension.",
    ],
    why="`repeat_interleave` lays each key head out once for every query head of its group, in order. From there on "
    "nothing is new: the sharing saves memory for keys and values, and no arithmetic on scores.",
    moral="With its 9 on 3, this model keeps a third of the keys and values that nine heads of their own would need.",
)


def strongest_heads(scores, count):
    """The heads with the largest scores, as a list of pairs (layer, head), the largest first."""
    order = scores.flatten().argsort(descending=True)[:count].tolist()
    return [divmod(place, scores.shape[1]) for place in order]


def drawn_scores(generator):
    return [(torch.rand(*size, generator=generator), count) for size, count in (((5, 3), 4), ((2, 7), 5), ((4, 4), 1))]


five_heads = Exercise(
    name="five_heads",
    title="Which five?",
    prompt="`scores` has a number for each head, (num_layers, num_heads). Return the `count` heads with the largest, "
    "over all layers, as a list of pairs of whole numbers `(layer, head)`, the largest first. Both count from 0. No "
    "two scores are equal.",
    solution=strongest_heads,
    cases=drawn_scores,
    mistakes=[
        (
            "swaps layer and head",
            "divmod(place, scores.shape[1])",
            "divmod(place, scores.shape[1])[::-1]",
            "Your pairs are (head, layer). The layer comes first.",
        ),
        (
            "gives places in a row of all",
            "[divmod(place, scores.shape[1]) for place in order]",
            "order",
            "These are places in the flattened table. Which layer and which head is that? (`divmod` knows.)",
        ),
        (
            "takes the smallest",
            "descending=True",
            "",
            "These are the heads with the smallest scores: `argsort` puts the smallest first unless told otherwise.",
        ),
        (
            "puts the largest last",
            "in order",
            "in reversed(order)",
            "The right heads, in the opposite order. The largest comes first.",
        ),
        (
            "divides by the number of layers",
            "shape[1]",
            "shape[0]",
            "You divide by the number of layers. A row of the table is a layer, and is num_heads long.",
        ),
        (
            "counts from 1",
            "divmod(place, scores.shape[1])",
            "(place // scores.shape[1] + 1, place % scores.shape[1] + 1)",
            "Your layers and heads count from 1. Here both count from 0.",
        ),
        (
            "sorts each layer by itself",
            "[divmod(place, scores.shape[1]) for place in order]",
            "list(enumerate(scores.argmax(dim=1).tolist()))[:count]",
            "You take the best head of each layer. All heads compete: a layer may have two among the best, or none.",
        ),
    ],
    hints=[
        "Make one row of the table, and ask which places hold the largest: `scores.flatten()`.",
        "`.argsort(descending=True)[:count]` or `.topk(count).indices` gives those places.",
        "Place 13 with 9 heads a layer is layer 13 // 9, head 13 % 9: `divmod(place, scores.shape[1])`.",
    ],
    why="Flattening lays the layers one after the other, each num_heads long: so // gives the layer and % the head. "
    "`.tolist()` makes whole numbers of a tensor.",
    moral="With scores of 270 heads and five to take, you have found the heads of this notebook.",
)


EXERCISES = [previous_token, induction, shared_keys, five_heads]
progress = Progress(EXERCISES)

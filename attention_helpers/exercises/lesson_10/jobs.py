"""Scores that say what a head is for, and the heads that have most of one."""

import torch

from ..base import Exercise, Misconception


def previous_token_scores(maps):
    """A head's mean weight on the token before, for all heads (num_layers, num_heads)."""
    return maps.diagonal(-1, dim1=-2, dim2=-1).mean(dim=-1)


def divided_by_all(maps):
    return maps.diagonal(-1, dim1=-2, dim2=-1).sum(dim=-1) / maps.shape[-1]


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
    misconceptions=[
        Misconception(
            "counts the first token",
            divided_by_all,
            "You divide by all tokens. The first has none before it: a head that always reads the token before would "
            "not get 1 from you.",
        ),
        Misconception(
            "takes the token itself",
            lambda maps: maps.diagonal(0, dim1=-2, dim2=-1).mean(dim=-1),
            "That is what each token gives to itself: the diagonal. The token before stands one column to its left.",
        ),
        Misconception(
            "takes the token after",
            lambda maps: maps.diagonal(1, dim1=-2, dim2=-1).mean(dim=-1),
            "You get 0 everywhere, since the future is hidden: you look to the right of the diagonal. Rows read, "
            "columns are read.",
        ),
        Misconception(
            "adds up",
            lambda maps: maps.diagonal(-1, dim1=-2, dim2=-1).sum(dim=-1),
            "You add the weights up, so a longer text scores more. Take their mean.",
        ),
        Misconception(
            "takes the largest",
            lambda maps: maps.diagonal(-1, dim1=-2, dim2=-1).amax(dim=-1),
            "You take the largest of the weights: one token that happens to look back would do. Take their mean.",
        ),
        Misconception(
            "mixes the heads",
            lambda maps: maps.diagonal(-1, dim1=-2, dim2=-1).mean(dim=(0, 1)),
            "You take the mean over layers and heads, and a number a token is left. Keep the heads apart, take the "
            "mean over tokens.",
        ),
        Misconception(
            "takes the first column",
            lambda maps: maps[..., 1:, 0].mean(dim=-1),
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


def at(maps, distance, start):
    """What the wrong answers share: the mean weight on the token `distance` before, for tokens from `start` on."""
    return maps.diagonal(-distance, dim1=-2, dim2=-1)[..., start - distance :].mean(dim=-1)


induction = Exercise(
    name="induction",
    title="The induction score",
    prompt="A text is `period` tokens and then the same ones again, 2 * period in all. A token of the second half has "
    "been there before. An induction head reads the token that came next, that first time. Return a score a head, "
    "(num_layers, num_heads): the mean weight that the tokens of the second half give to that token.",
    solution=induction_scores,
    cases=lambda generator: [(maps, maps.shape[-1] // 2) for maps in drawn_maps(generator, lengths=(6, 4, 10))],
    misconceptions=[
        Misconception(
            "reads the same token",
            lambda maps, period: at(maps, period, period),
            "You score heads that read the same token one period ago. An induction head reads the one after it: that "
            "is what will come next again.",
        ),
        Misconception(
            "reads the token before the same",
            lambda maps, period: at(maps, period + 1, period + 1),
            "You read one too far back: the token before the earlier one, which says nothing of what comes next.",
        ),
        Misconception(
            "counts the last of the first half",
            lambda maps, period: at(maps, period - 1, period - 1),
            "Nearly: your mean begins one row too early. Token period - 1 is the last of the first half, and has not "
            "been there before.",
        ),
        Misconception(
            "takes the token before",
            lambda maps, period: at(maps, 1, period),
            "That is the token just before. The one you want stands period - 1 before.",
        ),
        Misconception(
            "divides by all tokens",
            lambda maps, period: at(maps, period - 1, period) / 2,
            "You divide by all tokens of the text. Only those of the second half count.",
        ),
        Misconception(
            "adds up",
            lambda maps, period: at(maps, period - 1, period) * period,
            "You add the weights up: a longer text would score more. Take their mean.",
        ),
        Misconception(
            "reads a column as a row",
            lambda maps, period: at(maps.transpose(-2, -1), period - 1, period),
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
    misconceptions=[
        Misconception(
            "swaps layer and head",
            lambda scores, count: [(head, layer) for layer, head in strongest_heads(scores, count)],
            "Your pairs are (head, layer). The layer comes first.",
        ),
        Misconception(
            "gives places in a row of all",
            lambda scores, count: scores.flatten().topk(count).indices.tolist(),
            "These are places in the flattened table. Which layer and which head is that? (`divmod` knows.)",
        ),
        Misconception(
            "takes the smallest",
            lambda scores, count: strongest_heads(-scores, count),
            "These are the heads with the smallest scores: `argsort` puts the smallest first unless told otherwise.",
        ),
        Misconception(
            "puts the largest last",
            lambda scores, count: strongest_heads(scores, count)[::-1] if count > 1 else strongest_heads(scores, count),
            "The right heads, in the opposite order. The largest comes first.",
        ),
        Misconception(
            "divides by the number of layers",
            lambda scores, count: [
                divmod(place, scores.shape[0]) for place in scores.flatten().topk(count).indices.tolist()
            ],
            "You divide by the number of layers. A row of the table is a layer, and is num_heads long.",
        ),
        Misconception(
            "counts from 1",
            lambda scores, count: [(layer + 1, head + 1) for layer, head in strongest_heads(scores, count)],
            "Your layers and heads count from 1. Here both count from 0.",
        ),
        Misconception(
            "sorts each layer by itself",
            lambda scores, count: list(enumerate(scores.argmax(dim=1).tolist()))[:count],
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

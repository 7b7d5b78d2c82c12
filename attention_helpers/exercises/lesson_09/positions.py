"""Rotary positions by hand, and ALiBi's bias."""

import torch

from ..base import Exercise, Misconception


def turn(x, positions, base):
    """x (num_tokens, head_dim), its pairs turned by their tokens' positions (num_tokens,)."""
    head_dim = x.shape[1]
    turned = torch.empty_like(x)
    for pair in range(head_dim // 2):
        angles = positions * base ** (-2 * pair / head_dim)  # (num_tokens,), radians
        a, b = x[:, 2 * pair], x[:, 2 * pair + 1]
        turned[:, 2 * pair] = a * angles.cos() - b * angles.sin()
        turned[:, 2 * pair + 1] = a * angles.sin() + b * angles.cos()
    return turned


def turning_by_complex_numbers(x, angles):
    """What the wrong answers share: neighbouring entries turned by angles (num_tokens, head_dim / 2)."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def the_other_way_round(x, positions, base):
    return turn(x, -positions, base)


def in_halves(x, positions, base):
    order = torch.arange(x.shape[1]).view(2, -1).T.flatten()  # entry i beside entry i + head_dim / 2
    return turn(x[:, order], positions, base)[:, order.argsort()]


def halves_joined(x, positions, base):
    turned = turn(x, positions, base)
    return torch.cat((turned[:, 0::2], turned[:, 1::2]), dim=1)


def mirrored(x, positions, base):
    signs = torch.tensor([1.0, -1.0]).repeat(x.shape[1] // 2)
    return turn(x * signs, -positions, base)  # a cos - b sin, and a sin (...) - b cos: a reflection


def all_pairs_alike(x, positions, base):
    return turning_by_complex_numbers(x, positions[:, None] * torch.ones(x.shape[1] // 2))


def half_the_exponent(x, positions, base):
    pairs = torch.arange(x.shape[1] // 2)
    return turning_by_complex_numbers(x, positions[:, None] * base ** (-pairs / x.shape[1]))


def faster_and_faster(x, positions, base):
    pairs = torch.arange(x.shape[1] // 2)
    return turning_by_complex_numbers(x, positions[:, None] * base ** (2 * pairs / x.shape[1]))


def counted_from_1(x, positions, base):
    return turn(x, positions + 1, base)


def in_degrees(x, positions, base):
    return turn(x, torch.deg2rad(positions.float()), base)


def written_over(x, positions, base):
    turned = x.clone()
    for pair in range(x.shape[1] // 2):
        angles = positions * base ** (-2 * pair / x.shape[1])
        turned[:, 2 * pair] = turned[:, 2 * pair] * angles.cos() - turned[:, 2 * pair + 1] * angles.sin()
        turned[:, 2 * pair + 1] = turned[:, 2 * pair] * angles.sin() + turned[:, 2 * pair + 1] * angles.cos()
    return turned


def tokens_in_places(generator):
    """Rows, their positions (not always from 0, not always in order) and a base."""
    shapes = [(4, 6, 100.0, 0), (1, 2, 10_000.0, 3), (5, 8, 10_000.0, 7), (3, 4, 50.0, 2)]
    return [
        (torch.randn(n, width, generator=generator), start + torch.randperm(n, generator=generator), base)
        for n, width, base, start in shapes
    ]


turning = Exercise(
    name="turning",
    title="Rotate by hand",
    prompt="Pair i holds the neighbours `x[:, 2 * i]` and `x[:, 2 * i + 1]`. Turn it, as a point (a, b), by "
    "`position * base ** (-2 * i / head_dim)` radians: (a cos - b sin, a sin + b cos). Return a new tensor of the "
    "shape of x. `positions` are whole numbers.",
    solution=turn,
    cases=tokens_in_places,
    tolerance=1e-4,
    misconceptions=[
        Misconception(
            "turns the other way round",
            the_other_way_round,
            "You turn the other way. A model trained like that would do as well. But with given weights the scores "
            "come out different, even if queries and keys both turn so: the distance changes its sign. Which of the "
            "two sines has the minus?",
        ),
        Misconception(
            "pairs the halves",
            in_halves,
            "You pair entry i with entry i + head_dim / 2: the other layout, which is in use as well. Here the pairs "
            "are neighbours.",
        ),
        Misconception(
            "puts the pairs back as halves",
            halves_joined,
            "Each pair is turned right, but you put all first entries before all second ones. Put them back as "
            "neighbours.",
        ),
        Misconception(
            "mirrors",
            mirrored,
            "That is no turn but a mirror image: at position 0 nothing may move. Which of the four products has the "
            "minus?",
        ),
        Misconception(
            "turns all pairs alike",
            all_pairs_alike,
            "All your pairs turn by the same angle. Each pair is slower than the one before: what does i do in the "
            "exponent?",
        ),
        Misconception(
            "takes half the exponent",
            half_the_exponent,
            "Your pairs slow down half as fast as they should: the exponent is -2 i / head_dim, for pair i.",
        ),
        Misconception(
            "makes later pairs faster",
            faster_and_faster,
            "Your later pairs are the faster ones. The exponent is negative.",
        ),
        Misconception(
            "counts from 1",
            counted_from_1,
            "Your token at position 0 turns. Use the positions as they are.",
        ),
        Misconception(
            "takes degrees",
            in_degrees,
            "You turn by degrees. `torch.cos` takes radians, and the formula gives radians.",
        ),
        Misconception(
            "reads what it has just written",
            written_over,
            "The first entry of each pair is right. For the second you read the first after it was turned: keep a and "
            "b before you write.",
        ),
    ],
    hints=[
        "One pair first: which two columns, and what is their angle for each token?",
        "`angles = positions * base ** (-2 * i / head_dim)` has a number for each token, as a column of x has.",
        "In a loop over `range(head_dim // 2)`: `a, b = x[:, 2 * i], x[:, 2 * i + 1]`, then write "
        "`a * angles.cos() - b * angles.sin()` and `a * angles.sin() + b * angles.cos()` into a new tensor.",
    ],
    why="A turn keeps each pair's length and adds its angle. The dot product of two turned pairs depends on the "
    "difference of their angles, which is the distance of the tokens times the pair's speed.",
    moral="Turn queries and keys like this, and their scores know how far apart two tokens are.",
)


def alibi(queries, keys):
    """Weights (num_heads, num_tokens, num_tokens): scores lowered by slope * distance, causal."""
    num_heads, num_tokens, head_dim = queries.shape
    slopes = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)  # (num_heads,)
    places = torch.arange(num_tokens)
    distances = places[:, None] - places  # (num_tokens, num_tokens), below 0 in the future
    scores = queries @ keys.transpose(1, 2) / head_dim**0.5  # scaled first
    scores = scores - slopes[:, None, None] * distances
    return torch.softmax(scores.masked_fill(distances < 0, -torch.inf), dim=-1)


def weights_of(queries, keys, bias, scale=None, hide=True):
    """What the wrong answers share: (num_heads, num_tokens, num_tokens) from a bias."""
    scores = queries @ keys.transpose(1, 2) * (scale or queries.shape[-1] ** -0.5) + bias
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(future, -torch.inf) if hide else scores, dim=-1)


def distances_in(queries):
    places = torch.arange(queries.shape[1])
    return places[:, None] - places


def slopes_of(queries, start=1):
    num_heads = len(queries)
    return 2.0 ** (-8 * torch.arange(start, num_heads + start) / num_heads)[:, None, None]


def bias_scaled_too(queries, keys):
    bias = -slopes_of(queries) * distances_in(queries)
    return weights_of(queries, keys, bias * queries.shape[-1] ** -0.5)


def far_tokens_favoured(queries, keys):
    return weights_of(queries, keys, slopes_of(queries) * distances_in(queries))


def slopes_from_0(queries, keys):
    return weights_of(queries, keys, -slopes_of(queries, start=0) * distances_in(queries))


def one_slope_for_all(queries, keys):
    return weights_of(queries, keys, -slopes_of(queries)[:1] * distances_in(queries))


def slopes_in_reverse(queries, keys):
    return weights_of(queries, keys, -slopes_of(queries).flip(0) * distances_in(queries))


def slopes_of_eight_heads(queries, keys):
    slopes = 2.0 ** -torch.arange(1, len(queries) + 1)[:, None, None]
    return weights_of(queries, keys, -slopes * distances_in(queries))


def future_not_hidden(queries, keys):
    return weights_of(queries, keys, -slopes_of(queries) * distances_in(queries).abs(), hide=False)


def no_bias(queries, keys):
    return weights_of(queries, keys, 0.0)


def scores_not_scaled(queries, keys):
    return weights_of(queries, keys, -slopes_of(queries) * distances_in(queries), scale=1.0)


def heads_of_queries(generator):
    shapes = [(2, 5, 4), (8, 6, 3), (1, 4, 2), (4, 1, 5)]
    return [tuple(2 * torch.randn(2, *shape, generator=generator)) for shape in shapes]


distance_bias = Exercise(
    name="distance_bias",
    title="A bias for distance",
    prompt="ALiBi turns nothing: head h of num_heads, counted from 1, lowers each scaled score by its slope, "
    "`2 ** (-8 * h / num_heads)`, times the distance from query to key in tokens. Return the weights, causal as "
    "always, without an argument changed. queries, keys: (num_heads, num_tokens, head_dim).",
    solution=alibi,
    cases=heads_of_queries,
    rows_sum_to_one=True,
    misconceptions=[
        Misconception(
            "scales the bias too",
            bias_scaled_too,
            "Your bias is divided by the root of head_dim, like the scores. Scale first, then add the bias.",
        ),
        Misconception(
            "favours what is far",
            far_tokens_favoured,
            "Your far keys gain. The bias is to lower their scores: which sign has it?",
        ),
        Misconception(
            "counts heads from 0",
            slopes_from_0,
            "Your first head has slope 1. Heads count from 1 here, so that the last one has 2 ** -8.",
        ),
        Misconception(
            "gives all heads one slope",
            one_slope_for_all,
            "All your heads fall off alike. Each has a slope of its own.",
        ),
        Misconception(
            "gives the slopes in reverse",
            slopes_in_reverse,
            "Your slopes stand in the opposite order: the first head has the steepest.",
        ),
        Misconception(
            "takes 2 ** -h",
            slopes_of_eight_heads,
            "Your slopes are right for 8 heads alone. The exponent is -8 h / num_heads.",
        ),
        Misconception(
            "shows the future",
            future_not_hidden,
            "Your tokens read the future, at a price for distance. It has to be hidden.",
        ),
        Misconception(
            "forgets the bias",
            no_bias,
            "These are the causal weights without any bias: no row knows how far its keys are.",
        ),
        Misconception(
            "forgets to scale",
            scores_not_scaled,
            "The bias is right, but your scores are not divided by the root of head_dim.",
        ),
    ],
    hints=[
        "Three steps: scaled scores, minus slope times distance, then mask and softmax.",
        "`places[:, None] - places` is a table of distances; slopes need the shape (num_heads, 1, 1).",
        "`scores = queries @ keys.transpose(1, 2) / head_dim**0.5 - slopes[:, None, None] * distances`, then hide "
        "where `distances < 0`.",
    ],
    why="The bias is added to what softmax gets, so each token of distance divides a weight by e ** slope before the "
    "row is normalised. No weight of the model has to be learned for it.",
    moral="Steep heads read near by, flat ones far; nothing was turned, and nothing learned.",
)

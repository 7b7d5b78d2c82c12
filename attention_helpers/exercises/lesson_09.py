"""Exercises of notebook 09: rotary positions, shared keys, windows, distances and padding."""

import torch

from .base import Exercise, Progress


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
    mistakes=[
        (
            "turns the other way round",
            "angles = positions",
            "angles = -positions",
            "You turn the other way. A model trained like that would do as well. But with given weights the scores "
            "come out different, even if queries and keys both turn so: the distance changes its sign. Which of the "
            "two sines has the minus?",
        ),
        "pairs the halves",
        (
            "puts the pairs back as halves",
            "return turned",
            "return torch.cat((turned[:, 0::2], turned[:, 1::2]), dim=1)",
            "Each pair is turned right, but you put all first entries before all second ones. Put them back as "
            "neighbours.",
        ),
        (
            "mirrors",
            "a * angles.sin() + b",
            "-a * angles.sin() - b",
            "That is no turn but a mirror image: at position 0 nothing may move. Which of the four products has the "
            "minus?",
        ),
        (
            "turns all pairs alike",
            " * base ** (-2 * pair / head_dim)",
            "",
            "All your pairs turn by the same angle. Each pair is slower than the one before: what does i do in the "
            "exponent?",
        ),
        (
            "takes half the exponent",
            "-2 * pair",
            "-pair",
            "Your pairs slow down half as fast as they should: the exponent is -2 i / head_dim, for pair i.",
        ),
        (
            "makes later pairs faster",
            "-2 * pair",
            "2 * pair",
            "Your later pairs are the faster ones. The exponent is negative.",
        ),
        (
            "counts from 1",
            "angles = positions",
            "angles = (positions + 1)",
            "Your token at position 0 turns. Use the positions as they are.",
        ),
        (
            "takes degrees",
            "angles = positions",
            "angles = torch.deg2rad(positions)",
            "You turn by degrees. `torch.cos` takes radians, and the formula gives radians.",
        ),
        (
            "reads what it has just written",
            "turned = torch.empty_like(x)",
            "turned = x = x.clone()",
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


@turning.mistake
def pairs_the_halves(x, positions, base):
    """You pair entry i with entry i + head_dim / 2: the other layout, which is in use as well. Here the pairs are
    neighbours."""
    order = torch.arange(x.shape[1]).view(2, -1).T.flatten()  # entry i beside entry i + head_dim / 2
    return turn(x[:, order], positions, base)[:, order.argsort()]


def key_head_of(head, num_heads, num_kv_heads):
    """The key head that a query head reads, both counted from 0."""
    return head // (num_heads // num_kv_heads)


key_head = Exercise(
    name="key_head",
    title="Which key head serves head h?",
    prompt="Neighbouring query heads share a key head: the first group reads key head 0, the next key head 1. All "
    "groups are equally large. Return the number of the key head that query head `head` reads; both count from 0.",
    solution=key_head_of,
    cases=lambda g: [(h, n, k) for n, k in ((8, 2), (9, 3), (12, 2), (4, 4), (6, 1), (12, 4)) for h in range(n)],
    mistakes=[
        (
            "deals the heads out in turn",
            "head // (num_heads // num_kv_heads)",
            "head % num_kv_heads",
            "You deal the query heads out in turn, as cards: 0, 1, 0, 1. Then neighbours never share. Copied weights "
            "of a published model would meet the wrong keys, and nothing would fail.",
        ),
        (
            "divides by the number of key heads",
            "head // (num_heads // num_kv_heads)",
            "head // num_kv_heads",
            "You divide by the number of key heads. Divide by the size of a group: how many query heads share one?",
        ),
        (
            "gives the group's size",
            "head // (num_heads // num_kv_heads)",
            "num_heads // num_kv_heads",
            "That is how many query heads share a key head, the same for each. Where among the groups is `head`?",
        ),
        (
            "gives the place within the group",
            "head // (num_heads // num_kv_heads)",
            "head % (num_heads // num_kv_heads)",
            "That is the head's place within its group. Which group is it?",
        ),
        (
            "counts from 1",
            "head // (num_heads // num_kv_heads)",
            "head // (num_heads // num_kv_heads) + 1",
            "Your key heads count from 1: head 0 reads key head 0.",
        ),
        (
            "gives each its own",
            "head // (num_heads // num_kv_heads)",
            "min(head, num_kv_heads - 1)",
            "Your first heads have a key head each, and all others share the last. All groups are equally large.",
        ),
        (
            "gives a fraction",
            "head // (num_heads // num_kv_heads)",
            "head * num_kv_heads / num_heads",
            "The right number, but with a fraction: a head has a whole number, so round down (`//`).",
        ),
    ],
    hints=[
        "With 8 query heads and 2 key heads, which query heads share key head 0?",
        "A group has `num_heads // num_kv_heads` query heads.",
        "How many whole groups lie before `head`? `head // (num_heads // num_kv_heads)`",
    ],
    why="A group has num_heads / num_kv_heads members, and whole groups before a head are what `//` counts. "
    "`repeat_interleave` lays the keys out in this order, and so does torch with `enable_gqa`.",
    moral="8 query heads on 2 key heads: 0 0 0 0 1 1 1 1.",
)


def windowed_step(queries, keys, values, cached_keys, cached_values, window):
    """Context of the new tokens (new, head_dim); keys and values that the next token may see."""
    keys = torch.cat((cached_keys, keys))  # (past + new, head_dim)
    values = torch.cat((cached_values, values))
    places = torch.arange(len(keys))
    distances = places[len(cached_keys) :, None] - places  # (new, past + new)
    scores = queries @ keys.T / keys.shape[1] ** 0.5
    scores = scores.masked_fill((distances < 0) | (distances >= window), -torch.inf)
    context = torch.softmax(scores, dim=-1) @ values
    start = max(0, len(keys) - (window - 1))
    return context, keys[start:], values[start:]


def chunks(generator):
    """New tokens behind a cache: one, several, more than the window; a window of one, an empty cache."""
    sizes = [(4, 2, 3, 4), (1, 2, 3, 2), (5, 0, 3, 3), (2, 3, 4, 1), (3, 0, 1, 2), (2, 1, 5, 4)]
    cases = []
    for new, past, window, head_dim in sizes:
        q, k, v = torch.randn(3, past + new, head_dim, generator=generator)
        cases.append((q[past:], k[past:], v[past:], k[:past].clone(), v[:past].clone(), window))
    return cases


mended_window = Exercise(
    name="mended_window",
    title="Mend the chunked window",
    prompt="A token sees `window` tokens, itself among them. One head, new tokens behind a cache of earlier ones: "
    "its context is right for one new token and wrong for several, and it keeps one token too many. Mend it. Return "
    "the context, then the keys and values of the last `window - 1` tokens (all, if there are fewer): what the "
    "next token may still see.",
    solution=windowed_step,
    cases=chunks,
    stub='''
def windowed_step(queries, keys, values, cached_keys, cached_values, window):
    """Context of the new tokens (new, head_dim); keys and values that the next token may see."""
    keys = torch.cat((cached_keys, keys))[-window:]  # mend me
    values = torch.cat((cached_values, values))[-window:]
    places = torch.arange(len(keys))
    distances = places[len(keys) - len(queries) :, None] - places
    scores = queries @ keys.T / keys.shape[1] ** 0.5
    scores = scores.masked_fill((distances < 0) | (distances >= window), -torch.inf)
    return torch.softmax(scores, dim=-1) @ values, keys, values
''',
    mistakes=[
        (
            "trims before it attends",
            "distances = places[len(cached_keys) :, None] - places",
            "distances = (places[len(cached_keys) :, None] - places)[:, -window:]\n"
            "    keys, values = keys[-window:], values[-window:]",
            "You still trim before you attend. The first of several new tokens sees further back than the last one: "
            "its keys are gone already. First attend, then forget.",
        ),
        (
            "forgets the window in the mask",
            " | (distances >= window)",
            "",
            "Now nothing is lost, but the new tokens see all that is there. The later ones may not see the start: "
            "hide what is `window` tokens back or more.",
        ),
        (
            "slices from minus zero",
            "max(0, len(keys) - (window - 1))",
            "-(window - 1)",
            "Right, but for a window of 1: `keys[-0:]` is all of keys, and the cache should be empty. Slice from "
            "`max(0, len(keys) - (window - 1))`.",
        ),
        (
            "keeps all",
            "max(0, len(keys) - (window - 1))",
            "0",
            "The context is right, and the cache grows for ever. Which of its tokens can the next one still see?",
        ),
        (
            "keeps one too many",
            "(window - 1)",
            "window",
            "The context is right, and your cache keeps one token too many: the next one sees itself and `window - 1` "
            "others.",
        ),
        (
            "keeps the first",
            "[start:]",
            "[: window - 1]",
            "The context is right, but your cache keeps the oldest tokens. The next one sees the newest.",
        ),
        (
            "makes the window one too wide",
            "distances >= window",
            "distances > window",
            "Your window is one token too wide: a token itself, at distance 0, is one of the `window`.",
        ),
        (
            "trims the keys alone",
            "values[start:]",
            "values",
            "Keys and values belong together, token by token: trim both alike.",
        ),
    ],
    hints=[
        "Two new tokens, a window of 3: which tokens does the first of the two see?",
        "Join cache and new tokens, and attend with the mask. Forget afterwards.",
        "`start = max(0, len(keys) - (window - 1))`, after the softmax; return `keys[start:]` and `values[start:]`.",
    ],
    why="The mask decides what a token sees, the cache only what is kept for later. The first of several new tokens "
    "looks furthest back, so nothing may be dropped before all of them have attended.",
    moral="Attend first, forget afterwards: token by token both orders agree, and that hides the bug.",
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
    mistakes=[
        (
            "scales the bias too",
            " * distances",
            " * distances / head_dim**0.5",
            "Your bias is divided by the root of head_dim, like the scores. Scale first, then add the bias.",
        ),
        (
            "favours what is far",
            "scores - slopes",
            "scores + slopes",
            "Your far keys gain. The bias is to lower their scores: which sign has it?",
        ),
        (
            "counts heads from 0",
            "torch.arange(1, num_heads + 1)",
            "torch.arange(num_heads)",
            "Your first head has slope 1. Heads count from 1 here, so that the last one has 2 ** -8.",
        ),
        (
            "gives all heads one slope",
            "slopes[:, None, None]",
            "slopes[0]",
            "All your heads fall off alike. Each has a slope of its own.",
        ),
        (
            "gives the slopes in reverse",
            "- slopes",
            "- slopes.flip(0)",
            "Your slopes stand in the opposite order: the first head has the steepest.",
        ),
        (
            "takes 2 ** -h",
            "(-8 * torch.arange(1, num_heads + 1) / num_heads)",
            "-torch.arange(1, num_heads + 1)",
            "Your slopes are right for 8 heads alone. The exponent is -8 h / num_heads.",
        ),
        (
            "shows the future",
            "places[:, None] - places",
            "(places[:, None] - places).abs()",
            "Your tokens read the future, at a price for distance. It has to be hidden.",
        ),
        (
            "forgets the bias",
            " - slopes[:, None, None] * distances",
            "",
            "These are the causal weights without any bias: no row knows how far its keys are.",
        ),
        (
            "forgets to scale",
            " / head_dim**0.5",
            "",
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


def pad_left(texts):
    """A batch (b, longest, width), zeros before short texts, and its mask (b, longest, longest)."""
    longest = max(map(len, texts))
    batch = torch.zeros(len(texts), longest, texts[0].shape[1])
    hide = torch.ones(longest, longest, dtype=torch.bool).triu(1).repeat(len(texts), 1, 1)
    for n, text in enumerate(texts):
        start = longest - len(text)
        batch[n, start:] = text
        hide[n, :, :start] = True
    return batch, hide & ~torch.eye(longest, dtype=torch.bool)


def unequal_texts(generator):
    shapes = [((2, 4, 1), 3), ((3, 3), 2), ((1, 5), 4)]
    return [([torch.randn(n, width, generator=generator) for n in lengths],) for lengths, width in shapes]


left_padding = Exercise(
    name="left_padding",
    title="Pad on the left",
    prompt="Each of `texts` is (length, width). Return a batch (b, longest, width) in which short texts end at the "
    "end, with zeros before them, and a boolean mask (b, longest, longest), True where a key is hidden: the future, "
    "and padding. Every token may read itself, padding too, so that no row is empty.",
    solution=pad_left,
    cases=unequal_texts,
    mistakes=[
        (
            "pads on the right",
            "[n, start:] = text\n        hide[n, :, :start]",
            "[n, : len(text)] = text\n        hide[n, :, len(text) :]",
            "Your texts stand at the start, with the zeros behind them. Then the last row, from which the next token "
            "would be written, is padding. Put the zeros first.",
        ),
        (
            "masks the other side",
            "hide[n, :, :start]",
            "hide[n, :, len(text) :]",
            "The batch is right, but your mask hides the end of short texts, where now their tokens are.",
        ),
        (
            "leaves rows empty",
            " & ~torch.eye(longest, dtype=torch.bool)",
            "",
            "The first rows of a short text have every key hidden: their softmax is 0 / 0, NaN, and it spreads with "
            "the gradient. Let each token read itself.",
        ),
        (
            "shows the padding",
            "\n        hide[n, :, :start] = True",
            "",
            "The future is hidden, but your texts read the zeros before them: a key of zeros scores 0, and takes "
            "a share.",
        ),
        (
            "shows the future",
            "torch.ones(",
            "torch.zeros(",
            "The padding is hidden, and the future is not. A key may be hidden for one reason or the other.",
        ),
        (
            "hides the rows, not the columns",
            "hide[n, :, :start]",
            "hide[n, :start]",
            "You hide the rows in which padding reads. It is to be read by no one: hide its columns.",
        ),
        (
            "turns True round",
            "hide & ~",
            "~hide | ",
            "Your mask is upside down: True hides here (in `scaled_dot_product_attention` it keeps).",
        ),
    ],
    hints=[
        "How many zeros stand before a text? Where does it start?",
        "Start the mask with the future, once for each text; then hide the columns before the text's start.",
        "`hide[n, :, :start] = True`, and at the end `hide & ~torch.eye(longest, dtype=torch.bool)`.",
    ],
    why="Columns of padding are hidden from every other row, so no token of a text reads them. A row of padding reads "
    "itself alone, and nobody uses it. With the zeros in front, the last row of every text is its last token.",
    moral="Now `context[:, -1]` is the row that each text goes on from.",
)


EXERCISES = [turning, key_head, mended_window, distance_bias, left_padding]
progress = Progress(EXERCISES)

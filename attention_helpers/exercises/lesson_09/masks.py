"""A window with a cache, and padding on the left."""

import torch

from ..base import Exercise, Misconception


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


def attended(queries, keys, values, window):
    """One head's context for queries that are the last of the keys; what left the window is hidden."""
    places = torch.arange(len(keys))
    distances = places[len(keys) - len(queries) :, None] - places
    scores = queries @ keys.T / keys.shape[1] ** 0.5
    return torch.softmax(scores.masked_fill((distances < 0) | (distances >= window), -torch.inf), dim=-1) @ values


def joined(keys, values, cached_keys, cached_values):
    return torch.cat((cached_keys, keys)), torch.cat((cached_values, values))


def last(x, count):
    return x[max(0, len(x) - count) :]


def trimming_first(queries, keys, values, cached_keys, cached_values, window):
    keys, values = joined(keys, values, cached_keys, cached_values)
    keys, values = last(keys, window), last(values, window)
    distances = torch.arange(len(keys) - len(queries), len(keys))[:, None] - torch.arange(len(keys))
    scores = queries @ keys.T / keys.shape[1] ** 0.5
    scores = scores.masked_fill((distances < 0) | (distances >= window), -torch.inf)
    return torch.softmax(scores, dim=-1) @ values, last(keys, window - 1), last(values, window - 1)


def no_window_in_the_mask(queries, keys, values, cached_keys, cached_values, window):
    keys, values = joined(keys, values, cached_keys, cached_values)
    context = attended(queries, keys, values, window=len(keys))
    return context, last(keys, window - 1), last(values, window - 1)


def minus_zero(queries, keys, values, cached_keys, cached_values, window):
    keys, values = joined(keys, values, cached_keys, cached_values)
    return attended(queries, keys, values, window), keys[-(window - 1) :], values[-(window - 1) :]


def keeping_all(queries, keys, values, cached_keys, cached_values, window):
    keys, values = joined(keys, values, cached_keys, cached_values)
    return attended(queries, keys, values, window), keys, values


def keeping_one_too_many(queries, keys, values, cached_keys, cached_values, window):
    keys, values = joined(keys, values, cached_keys, cached_values)
    return attended(queries, keys, values, window), last(keys, window), last(values, window)


def keeping_the_first(queries, keys, values, cached_keys, cached_values, window):
    keys, values = joined(keys, values, cached_keys, cached_values)
    return attended(queries, keys, values, window), keys[: window - 1], values[: window - 1]


def window_one_too_wide(queries, keys, values, cached_keys, cached_values, window):
    keys, values = joined(keys, values, cached_keys, cached_values)
    return attended(queries, keys, values, window + 1), last(keys, window - 1), last(values, window - 1)


def keys_alone(queries, keys, values, cached_keys, cached_values, window):
    keys, values = joined(keys, values, cached_keys, cached_values)
    return attended(queries, keys, values, window), last(keys, window - 1), values


def chunks(generator):
    """New tokens behind a cache: one, several, more than the window; a window of one, an empty cache."""
    cases = []
    for new, past, window, head_dim in (
        (4, 2, 3, 4),
        (1, 2, 3, 2),
        (5, 0, 3, 3),
        (2, 3, 4, 1),
        (3, 0, 1, 2),
        (2, 1, 5, 4),
    ):
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
    misconceptions=[
        Misconception(
            "trims before it attends",
            trimming_first,
            "You still trim before you attend. The first of several new tokens sees further back than the last one: "
            "its keys are gone already. First attend, then forget.",
        ),
        Misconception(
            "forgets the window in the mask",
            no_window_in_the_mask,
            "Now nothing is lost, but the new tokens see all that is there. The later ones may not see the start: "
            "hide what is `window` tokens back or more.",
        ),
        Misconception(
            "slices from minus zero",
            minus_zero,
            "Right, but for a window of 1: `keys[-0:]` is all of keys, and the cache should be empty. Slice from "
            "`max(0, len(keys) - (window - 1))`.",
        ),
        Misconception(
            "keeps all",
            keeping_all,
            "The context is right, and the cache grows for ever. Which of its tokens can the next one still see?",
        ),
        Misconception(
            "keeps one too many",
            keeping_one_too_many,
            "The context is right, and your cache keeps one token too many: the next one sees itself and `window - 1` "
            "others.",
        ),
        Misconception(
            "keeps the first",
            keeping_the_first,
            "The context is right, but your cache keeps the oldest tokens. The next one sees the newest.",
        ),
        Misconception(
            "makes the window one too wide",
            window_one_too_wide,
            "Your window is one token too wide: a token itself, at distance 0, is one of the `window`.",
        ),
        Misconception(
            "trims the keys alone",
            keys_alone,
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


def padded(texts, left=True):
    """What the wrong answers share: the batch, and where its padding is (b, longest)."""
    longest = max(map(len, texts))
    batch, padding = torch.zeros(len(texts), longest, texts[0].shape[1]), torch.ones(len(texts), longest).bool()
    for n, text in enumerate(texts):
        place = slice(longest - len(text), None) if left else slice(len(text))
        batch[n, place], padding[n, place] = text, False
    return batch, padding


def future_of(batch):
    return torch.ones(batch.shape[1], batch.shape[1], dtype=torch.bool).triu(1)


def with_self(hide):
    return hide & ~torch.eye(hide.shape[-1], dtype=torch.bool)


def on_the_right(texts):
    batch, padding = padded(texts, left=False)
    return batch, with_self(padding[:, None] | future_of(batch))


def mask_of_the_right(texts):
    batch, _ = padded(texts)
    _, padding = padded(texts, left=False)
    return batch, with_self(padding[:, None] | future_of(batch))


def rows_of_nothing(texts):
    batch, padding = padded(texts)
    return batch, padding[:, None] | future_of(batch)


def padding_shown(texts):
    batch, _ = padded(texts)
    return batch, future_of(batch).repeat(len(texts), 1, 1)


def future_shown(texts):
    batch, padding = padded(texts)
    return batch, with_self(padding[:, None].repeat(1, batch.shape[1], 1))


def queries_hidden(texts):
    batch, padding = padded(texts)
    return batch, with_self(padding[:, :, None] | future_of(batch))


def true_keeps(texts):
    batch, padding = padded(texts)
    return batch, ~with_self(padding[:, None] | future_of(batch))


def unequal_texts(generator):
    cases = []
    for lengths, width in (((2, 4, 1), 3), ((3, 3), 2), ((1, 5), 4)):
        cases.append(([torch.randn(n, width, generator=generator) for n in lengths],))
    return cases


left_padding = Exercise(
    name="left_padding",
    title="Pad on the left",
    prompt="Each of `texts` is (length, width). Return a batch (b, longest, width) in which short texts end at the "
    "end, with zeros before them, and a boolean mask (b, longest, longest), True where a key is hidden: the future, "
    "and padding. Every token may read itself, padding too, so that no row is empty.",
    solution=pad_left,
    cases=unequal_texts,
    misconceptions=[
        Misconception(
            "pads on the right",
            on_the_right,
            "Your texts stand at the start, with the zeros behind them. Then the last row, from which the next token "
            "would be written, is padding. Put the zeros first.",
        ),
        Misconception(
            "masks the other side",
            mask_of_the_right,
            "The batch is right, but your mask hides the end of short texts, where now their tokens are.",
        ),
        Misconception(
            "leaves rows empty",
            rows_of_nothing,
            "The first rows of a short text have every key hidden: their softmax is 0 / 0, NaN, and it spreads with "
            "the gradient. Let each token read itself.",
        ),
        Misconception(
            "shows the padding",
            padding_shown,
            "The future is hidden, but your texts read the zeros before them: a key of zeros scores 0, and takes "
            "a share.",
        ),
        Misconception(
            "shows the future",
            future_shown,
            "The padding is hidden, and the future is not. A key may be hidden for one reason or the other.",
        ),
        Misconception(
            "hides the rows, not the columns",
            queries_hidden,
            "You hide the rows in which padding reads. It is to be read by no one: hide its columns.",
        ),
        Misconception(
            "turns True round",
            true_keeps,
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

"""Grouped heads by hand: nine heads of queries on three of keys."""

import torch

from ..base import Exercise, Misconception


def grouped_weights(queries, keys):
    """Causal weights, (num_heads, num_tokens, num_tokens)."""
    num_heads, num_tokens, head_dim = queries.shape
    shared = keys.repeat_interleave(num_heads // len(keys), dim=0)  # (num_heads, num_tokens, head_dim)
    scores = queries @ shared.transpose(1, 2) / head_dim**0.5
    future = torch.ones(num_tokens, num_tokens, dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(future, -torch.inf), dim=-1)


def weights_of(queries, keys, scale=None, hide=True, dim=-1):
    """What the wrong answers share: keys of every query head (num_heads, num_tokens, head_dim)."""
    scores = queries @ keys.transpose(1, 2) * (scale or queries.shape[-1] ** -0.5)
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(future, -torch.inf) if hide else scores, dim=dim)


def shared(queries, keys):
    return keys.repeat_interleave(len(queries) // len(keys), dim=0)


def dealt_in_turn(queries, keys):
    return weights_of(queries, keys.repeat(len(queries) // len(keys), 1, 1))


def first_key_head_for_all(queries, keys):
    return weights_of(queries, keys[:1])


def scaled_by_all_heads(queries, keys):
    return weights_of(queries, shared(queries, keys), scale=(len(queries) * queries.shape[-1]) ** -0.5)


def not_scaled(queries, keys):
    return weights_of(queries, shared(queries, keys), scale=1.0)


def future_not_hidden(queries, keys):
    return weights_of(queries, shared(queries, keys), hide=False)


def keys_averaged(queries, keys):
    return weights_of(queries, keys.mean(dim=0, keepdim=True))


def groups_in_reverse(queries, keys):
    return weights_of(queries, shared(queries, keys.flip(0)))


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
    misconceptions=[
        Misconception(
            "deals the key heads out in turn",
            dealt_in_turn,
            "You deal the key heads out in turn: 0, 1, 2, 0, 1, 2. `repeat` does that. Neighbours share here: 0, 0, 0, "
            "1, 1, 1.",
        ),
        Misconception(
            "gives all the first key head",
            first_key_head_for_all,
            "All your heads read key head 0. Each group has a key head of its own.",
        ),
        Misconception(
            "takes the mean of the key heads",
            keys_averaged,
            "You take the mean of all key heads. Each query head reads one of them, whole.",
        ),
        Misconception(
            "counts the groups from the end",
            groups_in_reverse,
            "Your first group reads the last key head. The first group reads key head 0.",
        ),
        Misconception(
            "scales by all heads' width",
            scaled_by_all_heads,
            "You scale by the width of all heads together. A score is a dot product of two vectors head_dim wide.",
        ),
        Misconception(
            "forgets to scale",
            not_scaled,
            "The heads are shared right, but the scores are not divided by the root of head_dim.",
        ),
        Misconception(
            "shows the future",
            future_not_hidden,
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

"""Grouped heads: whose keys does a query head read?"""

from ..base import Exercise, Misconception


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
    misconceptions=[
        Misconception(
            "deals the heads out in turn",
            lambda head, num_heads, num_kv_heads: head % num_kv_heads,
            "You deal the query heads out in turn, as cards: 0, 1, 0, 1. Then neighbours never share. Copied weights "
            "of a published model would meet the wrong keys, and nothing would fail.",
        ),
        Misconception(
            "divides by the number of key heads",
            lambda head, num_heads, num_kv_heads: head // num_kv_heads,
            "You divide by the number of key heads. Divide by the size of a group: how many query heads share one?",
        ),
        Misconception(
            "gives the group's size",
            lambda head, num_heads, num_kv_heads: num_heads // num_kv_heads,
            "That is how many query heads share a key head, the same for each. Where among the groups is `head`?",
        ),
        Misconception(
            "gives the place within the group",
            lambda head, num_heads, num_kv_heads: head % (num_heads // num_kv_heads),
            "That is the head's place within its group. Which group is it?",
        ),
        Misconception(
            "counts from 1",
            lambda head, num_heads, num_kv_heads: head // (num_heads // num_kv_heads) + 1,
            "Your key heads count from 1: head 0 reads key head 0.",
        ),
        Misconception(
            "gives each its own",
            lambda head, num_heads, num_kv_heads: min(head, num_kv_heads - 1),
            "Your first heads have a key head each, and all others share the last. All groups are equally large.",
        ),
        Misconception(
            "gives a fraction",
            lambda head, num_heads, num_kv_heads: head * num_kv_heads / num_heads,
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

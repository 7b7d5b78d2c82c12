"""Exercises of notebook 15: fixes of suspects A, C and E."""
# After a change: make exercises, then make refresh NOTEBOOK="15 help"

import torch
from torch.nn import functional as F

from attention_helpers.layers import causal_mask

from .base import Exercise, Progress, normal


def attend(queries, keys, values, future):
    """Context vectors of each head, (b, num_heads, n, head_dim)."""
    sees = ~future
    return F.scaled_dot_product_attention(queries, keys, values, sees)


def heads_and_masks(generator):
    """Queries, keys and values, and the mask of the future."""
    for shape in ((1, 2, 6, 4), (2, 1, 5, 3), (3, 2, 4, 2), (1, 1, 1, 2)):
        yield *normal(generator, shape, shape, shape), causal_mask(shape[2])


def forgets_the_scale(queries, keys, values, future):
    scores = (queries @ keys.mT).masked_fill(future, -torch.inf)
    return torch.softmax(scores, dim=-1) @ values


def hides_after_softmax(queries, keys, values, future):
    weights = torch.softmax(queries @ keys.mT / queries.shape[-1] ** 0.5, dim=-1)
    return weights.masked_fill(future, 0.0) @ values


turning_the_mask = Exercise(
    name="turning_the_mask",
    title="Fix suspect A",
    imports="from torch.nn import functional as F",
    prompt="Return the context vectors, so that no token sees a later one. `future`, (n, n), is True where the key "
    "comes after the query.",
    solution=attend,
    cases=heads_and_masks,
    mistakes={
        ("keeps the future", "~future", "future"): """
            Your tokens still look at nothing but the future. For this function, does True mean "hide" or "keep"?""",
        ("turns it into numbers", "~future", "(~future).float()"): """
            A mask of numbers is added to the scores: yours adds 1 to what can be seen, and 0 to the rest. Which number
            hides a score, or which dtype means "keep"?""",
        ("adds the future as numbers", "~future", "future.float()"): """
            A mask of numbers is added to the scores, so yours raises those of the future by 1. Which number hides a
            score, or which dtype means "keep"?""",
        ("hides the diagonal", "~future", "future.mT"): """
            The transposed mask is True only below the diagonal, so no token sees itself. Should the diagonal be kept?
            """,
        ("leaves the mask out", ", sees", ""): """
            Without a mask, each token sees all others. What should `attn_mask` be?""",
        ("hides the weights", hides_after_softmax): """
            Your weights of the future are 0, but softmax has counted it, so most rows sum to less than 1. What would
            hide it before softmax?""",
        ("forgets the scale", forgets_the_scale): """
            Your mask is right, but the scores aren't divided by the root of head_dim, which
            `F.scaled_dot_product_attention` does for you. Which width does it take the root of?""",
    },
    hints=[
        "What does True mean in `future`, and what in `attn_mask`?",
        "The mask to pass is `~future`.",
    ],
    why="In a boolean `attn_mask`, True means that the key takes part. A reader found the bug in a book's public code: "
    "[rasbt/LLMs-from-scratch#1061](https://github.com/rasbt/LLMs-from-scratch/issues/1061).",
    moral="The map is causal now.",
)


def split_heads(x, num_heads):
    """Heads, (b, num_heads, n, head_dim), of x (b, n, num_heads * head_dim)."""
    b, n, d_out = x.shape
    return x.view(b, n, num_heads, d_out // num_heads).transpose(1, 2)


def wide_tokens(generator):
    for b, n, num_heads, head_dim in ((1, 6, 2, 4), (2, 4, 2, 3), (1, 3, 3, 3), (2, 5, 1, 4), (1, 4, 4, 1)):
        yield *normal(generator, (b, n, num_heads * head_dim)), num_heads


cutting_heads = Exercise(
    name="cutting_heads",
    title="Fix suspect C",
    prompt="Head 1 should get the first head_dim entries of each token, head 2 the next ones, and so on.",
    solution=split_heads,
    cases=wide_tokens,
    mistakes={
        (
            "views in one step",
            "x.view(b, n, num_heads, d_out // num_heads).transpose(1, 2)",
            "x.view(b, num_heads, n, d_out // num_heads)",
        ): """
            That's what suspect C does: head 1 gets all entries of the first tokens. `view` never changes the order of
            the numbers. Which dimension is the one that it should cut?""",
        ("doesn't transpose", ".transpose(1, 2)", ""): """
            Your cut is right, but the shape is (b, n, num_heads, head_dim). Which two dimensions change places?""",
        ("transposes the wrong two", ".transpose(1, 2)", ".transpose(2, 3).transpose(1, 2)"): """
            Your heads are (head_dim, n, num_heads). Which two dimensions change places?""",
        (
            "interleaves the heads",
            "x.view(b, n, num_heads, d_out // num_heads).transpose(1, 2)",
            "x.view(b, n, d_out // num_heads, num_heads).permute(0, 3, 1, 2)",
        ): """
            Your head 1 gets every num_heads-th entry. Which entries of a token stand next to each other in a head?""",
    },
    hints=[
        "First (b, n, num_heads, head_dim), then transpose.",
        "`x.view(b, n, num_heads, d_out // num_heads).transpose(1, 2)`",
    ],
    why="`view` keeps the order of the numbers, so it must cut the last dimension; `transpose` then brings the heads "
    "to the front. A [library](https://github.com/reczoo/FuxiCTR/issues/30) cut its heads like C, and two tutorials "
    "joined well-cut heads like C, which leaks: "
    "[ajhalthor](https://github.com/ajhalthor/Transformer-Neural-Network/pull/4), "
    "[jsbaan](https://github.com/jsbaan/transformer-from-scratch/pull/6).",
    moral="Each head has a part of every token.",
)


def visible(num_new, num_keys):
    """What each new query sees: (num_new, num_keys), boolean."""
    positions = torch.arange(num_keys)
    return positions <= positions[-num_new:, None]


seeing_with_a_cache = Exercise(
    name="seeing_with_a_cache",
    title="Fix suspect E",
    prompt="The last `num_new` of `num_keys` tokens are new, and only they have queries. Return a mask for "
    "`attn_mask`: True for each new token's own key and all before it.",
    solution=visible,
    cases=lambda g: [(1, 5), (3, 3), (2, 6), (1, 1), (4, 5)],
    mistakes={
        ("begins at the first key", "positions[-num_new:, None]", "positions[:num_new, None]"): """
            That's the mask of `is_causal=True`: your first new token sees only the first key, as if there were no
            cache. Which position does it have in the text?""",
        ("hides what it should show", "positions <= ", "positions > "): """
            Your mask is True for the future, and `attn_mask` keeps where it's True. Which way round should it be?""",
        ("hides the token itself", "positions <= ", "positions < "): """
            No new token sees itself. Should its own key take part?""",
        (
            "shows all keys",
            "positions <= positions[-num_new:, None]",
            "positions >= 0 * positions[-num_new:, None]",
        ): """
            All keys are visible. That's right for one new token, but of several, the first ones see the later ones.
            Which keys come after the first new token?""",
        (
            "returns numbers",
            "return positions <= positions[-num_new:, None]",
            "return (positions <= positions[-num_new:, None]).float()",
        ): """
            A mask of numbers is added to the scores, and here it hides nothing. Which dtype means "keep or hide"?""",
    },
    hints=[
        "The new tokens' positions are the last of `torch.arange(num_keys)`.",
        "With `positions = torch.arange(num_keys)`, compare it with `positions[-num_new:, None]`.",
    ],
    why="A query's position counts from the beginning of the text, not of the call, so the last query sees all keys. "
    "PyTorch calls this mask "
    "[`causal_lower_right`](https://docs.pytorch.org/docs/stable/nn.attention.bias.html). "
    "Two issues ask for it: [#144858](https://github.com/pytorch/pytorch/issues/144858), "
    "[#108108](https://github.com/pytorch/pytorch/issues/108108).",
    moral="With one new token, all keys are visible.",
)

EXERCISES = [turning_the_mask, cutting_heads, seeing_with_a_cache]
progress = Progress(EXERCISES)
